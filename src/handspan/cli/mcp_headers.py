"""The headers of a request in the newer era of MCP, which repeat what its message says. The door compares them."""

import base64
import re
from collections.abc import Iterator
from typing import Final

from handspan.core.values import Json, JsonObject

VERSION: Final = "mcp-protocol-version"
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
"""The key under which requests of the newer era name their version."""
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods with the parameter that the header `mcp-name` repeats."""
_MARK: Final = "x-mcp-header"
"""The key of an argument's schema that names the header that repeats the argument."""
_PLAIN: Final = re.compile(r"[!-~]([ -~]*[!-~])?")


class RepeatingHeaders:
    """Makes the headers of messages. It learns from lists of tools which arguments the headers repeat."""

    def __init__(self) -> None:
        self._marked: dict[str, list[tuple[tuple[str, ...], str]]] | None = None
        """For each tool the paths of repeated arguments, each with its header; None before the first list."""

    def needs_list(self, message: JsonObject) -> bool:
        """Whether the headers of this message are only known after a list of tools."""
        return self._marked is None and message.get("method") == "tools/call" and _version(message) != ""

    def learn(self, result: JsonObject) -> None:
        """Learn from the result of `tools/list`."""
        tools = result.get("tools")
        listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        self._marked = {str(tool.get("name")): list(_find_marks(tool.get("inputSchema"))) for tool in listed}

    def headers(self, message: JsonObject) -> dict[str, str]:
        """Return the headers of this message; none in the older era."""
        method, params, version = message.get("method"), message.get("params"), _version(message)
        if not version or not isinstance(method, str) or not isinstance(params, dict):
            return {}
        headers = {VERSION: version, "mcp-method": method}
        if isinstance(name := params.get(_NAMED.get(method, "")), str):
            headers["mcp-name"] = _header_value(name)
        if method == "tools/call":
            headers |= self._argument_headers(str(params.get("name")), params.get("arguments"))
        return headers

    def _argument_headers(self, tool: str, arguments: Json) -> dict[str, str]:
        marked = (self._marked or {}).get(tool, ())
        found = ((header, _value_at(arguments, path)) for path, header in marked)
        return {
            f"mcp-param-{header}": _header_value(str(value).lower() if isinstance(value, bool) else str(value))
            for header, value in found
            if isinstance(value, (str, int, float))
        }


def _version(message: JsonObject) -> str:
    """Return the version that a message of the newer era names; empty in the older era."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else ""


def _find_marks(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the header of each argument that a header repeats. Only properties can have one."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict) and isinstance(header := inner.get(_MARK), str):
            yield (*path, name), header
        yield from _find_marks(inner, (*path, name))


def _value_at(value: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _header_value(text: str) -> str:
    """Return the text as a header can carry it."""
    if _PLAIN.fullmatch(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
