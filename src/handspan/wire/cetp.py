"""Requests and responses of `protocol/cetp.md`, for providers and consumers. No sockets, no clock.

What a consumer reads never raises: a provider can't be trusted, so each of its answers has a meaning (cetp.md 2.5).
What a provider reads raises `ProviderError`, which carries the answer.
"""

import re
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from handspan.core.errors import ErrorCode, HandspanError, WireError
from handspan.core.names import SEPARATOR
from handspan.core.values import Json, JsonObject, clip, encode
from handspan.wire import strict_json
from handspan.wire.json_size import MAX_VALUES

PROTOCOL_VERSION: Final = 1
LIST_TOOLS: Final = "list_tools"
EXECUTE_TOOL: Final = "execute_tool"
GET_PROVIDER_INFO: Final = "get_provider_info"

REQUEST_BYTES: Final = 1024 * 1024
RESPONSE_BYTES: Final = 8 * 1024 * 1024
MAX_TOOLS: Final = 256
MAX_SCOPES: Final = 64

CetpCode: TypeAlias = Literal[
    "AUTH_REQUIRED", "PERMISSION_DENIED", "TOOL_NOT_FOUND", "INVALID_ARGS", "RATE_LIMITED", "INTERNAL_ERROR"
]
CETP_CODES: Final[frozenset[str]] = frozenset(get_args(CetpCode))
ERROR_CODES: Final[dict[CetpCode, ErrorCode]] = {
    "AUTH_REQUIRED": "auth_required",
    "PERMISSION_DENIED": "permission_denied",
    "TOOL_NOT_FOUND": "tool_not_found",
    "INVALID_ARGS": "invalid_arguments",
    "RATE_LIMITED": "rate_limited",
    "INTERNAL_ERROR": "internal_error",
}
"""The code of a failed call in Handspan for each code of a provider (SPEC X2)."""

_MAX_NAME: Final = 128
_MAX_TEXT: Final = 4000
_MAX_LABEL: Final = 40
_INTENT: Final = re.compile(r"[A-Za-z0-9._:/-]{1,256}")
_FAILED: Final = "Provider call failed for "


class CetpRequest(Struct, frozen=True, omit_defaults=True):
    """One request to a provider (cetp.md 1.1)."""

    method: str
    """`list_tools`, `execute_tool` or `get_provider_info`."""
    extras: dict[str, Json] | None = None
    """Of `execute_tool`: the fields of `ExecuteExtras`."""


class ExecuteExtras(Struct, frozen=True, omit_defaults=True):
    """The extras of `execute_tool` (cetp.md 1.3)."""

    tool_name: str
    args: str = "{}"
    """A JSON object as a string."""
    request_id: str = ""
    """Names the call in the logs of both sides; the same when the call is tried again."""


class ToolRequest(Struct, frozen=True):
    """What a provider reads of the extras of `execute_tool`."""

    tool_name: str
    arguments: JsonObject
    request_id: str = ""


class CetpSuccess(Struct, frozen=True, tag_field="status", tag="success"):
    """The answer to a request that succeeded (cetp.md 2.1)."""

    data: str
    """A JSON value as a string."""


class CetpError(Struct, frozen=True, tag_field="status", tag="error", omit_defaults=True):
    """The answer to a request that failed (cetp.md 2.3)."""

    error_code: CetpCode
    error_message: str
    resolution_hint: str = ""
    """With `AUTH_REQUIRED`: what the person can do."""
    authorize_intent: str = ""
    """With `AUTH_REQUIRED`: names the step that logs in."""

    @property
    def text(self) -> str:
        """The error in words (cetp.md 2.7)."""
        hint = f" — {self.resolution_hint}" if self.resolution_hint else ""
        return f"[{self.error_code}] {self.error_message}{hint}"

    @property
    def is_unanswered(self) -> bool:
        """Whether the call got no response, so that it may be tried again (cetp.md 2.6, 8.4)."""
        return self.error_code == "INTERNAL_ERROR" and self.error_message.startswith(_FAILED)


CetpResponse: TypeAlias = CetpSuccess | CetpError


class EffectClaims(Struct, frozen=True, omit_defaults=True):
    """What a tool says of its effects (cetp.md 3.4)."""

    read_only: bool = True
    destructive: bool = False


class ProviderTool(Struct, frozen=True, omit_defaults=True):
    """One entry of `list_tools` (cetp.md 3.1)."""

    name: str
    description: str
    """For the model."""
    parameters: dict[str, Json]
    """A JSON Schema of an object."""
    annotations: EffectClaims = EffectClaims()

    @property
    def only_reads(self) -> bool:
        """Whether a consumer of version 1 may offer the tool."""
        return self.annotations.read_only and not self.annotations.destructive


class LeftOutTool(Struct, frozen=True):
    """An entry of `list_tools` that can't be taken."""

    name: str
    """Empty: it has none."""
    reason: str


class ProviderTools(Struct, frozen=True):
    """The tools of a provider, as a consumer reads them."""

    tools: tuple[ProviderTool, ...]
    left_out: tuple[LeftOutTool, ...] = ()


class ProviderScope(Struct, frozen=True):
    """A part of a provider's data."""

    name: str
    description: str = ""


class ProviderInfo(Struct, frozen=True):
    """The data of `get_provider_info` (cetp.md 3.5)."""

    provider_name: str = ""
    description: str = ""
    scopes: tuple[ProviderScope, ...] = ()


class ToolsData(Struct, frozen=True):
    """The data of `list_tools` (cetp.md 3.1)."""

    tools: list[ProviderTool]


class ProviderError(HandspanError):
    """A provider answers a call with an error. `answer` is what the provider sends."""

    def __init__(self, code: CetpCode, message: str, *, hint: str = "", intent: str = "") -> None:
        super().__init__(message)
        self.answer = CetpError(code, message, hint, intent)


# A provider reads requests and writes responses.


def read_request(body: bytes) -> CetpRequest:
    """Return the request. Raises `WireError` when these bytes are no request (cetp.md 1.1)."""
    value = strict_json.parse(body, max_values=MAX_VALUES)
    try:
        return msgspec.convert(value, CetpRequest)
    except msgspec.ValidationError as error:
        raise WireError(f"Not a request: {error}. Send {{method, extras}}.") from None


def read_extras(extras: JsonObject | None) -> ToolRequest:
    """Return what a call of a tool needs. Raises `ProviderError` with `INVALID_ARGS` (cetp.md 1.6)."""
    extras = extras or {}
    name, request_id = extras.get("tool_name"), extras.get("request_id")
    if not isinstance(name, str) or not name:
        raise ProviderError("INVALID_ARGS", "missing tool_name")
    is_id = isinstance(request_id, str) and len(request_id) <= _MAX_NAME
    return ToolRequest(name, _read_args(extras.get("args")), str(request_id) if is_id else "")


def _read_args(args: Json) -> JsonObject:
    """Return the arguments of a call. Raises `ProviderError` (`INVALID_ARGS`) for text that is no object."""
    if args is None or args == "":
        return {}
    if not isinstance(args, str):
        raise ProviderError("INVALID_ARGS", "args must be a string that holds a JSON object")
    try:
        value = strict_json.parse(args, max_values=MAX_VALUES)
    except WireError as error:
        raise ProviderError("INVALID_ARGS", f"args can't be read. {error}") from None
    if not isinstance(value, dict):
        raise ProviderError("INVALID_ARGS", "args must hold a JSON object")
    return value


def success(value: object) -> CetpSuccess:
    """Return the response with this value. Raises `TypeError` or `ValueError` when the value has no JSON form."""
    return CetpSuccess(encode(value).decode())


# A consumer writes requests and reads responses.


def execute_request(tool: str, arguments: JsonObject, request_id: str = "") -> CetpRequest:
    """Return the request that calls a tool."""
    extras = ExecuteExtras(tool, encode(arguments).decode(), request_id)
    return CetpRequest(EXECUTE_TOOL, msgspec.to_builtins(extras))


def read_response(body: bytes | str) -> CetpResponse:
    """Return what the provider answered. Bytes that are no response count as `INTERNAL_ERROR` (cetp.md 2.5)."""
    try:
        value = strict_json.parse(body, max_values=MAX_VALUES)
    except WireError as error:
        return CetpError("INTERNAL_ERROR", f"Unexpected status: there is none. {error}")
    return read_bundle(value)


def read_bundle(value: Json) -> CetpResponse:
    """Return what the provider answered, from the fields of a response."""
    status = value.get("status") if isinstance(value, dict) else None
    if isinstance(value, dict) and status == "success":
        data = value.get("data")
        return CetpSuccess(data) if isinstance(data, str) else success(data)
    if isinstance(value, dict) and status == "error":
        return _read_error(value)
    shown = clip(encode(status).decode(), 80) if status is not None else "there is none"
    return CetpError("INTERNAL_ERROR", f"Unexpected status: {shown}")


def _read_error(value: JsonObject) -> CetpError:
    """Return the error in a provider's response. An unknown code becomes `INTERNAL_ERROR`."""
    code, message = value.get("error_code"), _text(value, "error_message")
    if not isinstance(code, str) or code not in CETP_CODES:
        shown = clip(encode(code).decode(), 80)
        return CetpError("INTERNAL_ERROR", f"Unknown error code {shown}: {message}")
    known: Any = code
    if code != "AUTH_REQUIRED":
        return CetpError(known, message)
    intent = _text(value, "authorize_intent")
    return CetpError(known, message, _text(value, "resolution_hint"), intent if _INTENT.fullmatch(intent) else "")


def no_response_error(provider: str, reason: str) -> CetpError:
    """Return the error of a call that got no response (cetp.md 2.6)."""
    return CetpError("INTERNAL_ERROR", clip(f"{_FAILED}{provider}: {reason}", _MAX_TEXT))


def read_data(data: str) -> Json:
    """Return the value of a success: JSON, or the text itself (cetp.md 2.2)."""
    try:
        return strict_json.parse(data, max_values=MAX_VALUES)
    except WireError:
        return data


def read_tools(data: str) -> ProviderTools:
    """Return the tools in the data of `list_tools`. Raises `WireError` when it has no list of tools (cetp.md 3.6)."""
    value = read_data(data)
    entries = value.get("tools") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise WireError("The data of list_tools is not {tools: […]}.")
    tools: dict[str, ProviderTool] = {}
    left_out: list[LeftOutTool] = []
    for entry in entries[: 2 * MAX_TOOLS]:
        tool, reason = _read_tool(entry, tools)
        if tool is None or reason:
            left_out.append(LeftOutTool(_name_of(entry), reason))
        else:
            tools[tool.name] = tool
    if len(entries) > 2 * MAX_TOOLS:
        left_out.append(LeftOutTool("", f"{len(entries) - 2 * MAX_TOOLS} more entries were not read"))
    return ProviderTools(tuple(tools.values()), tuple(left_out))


def _read_tool(entry: Json, earlier: dict[str, ProviderTool]) -> tuple[ProviderTool | None, str]:
    """Return a tool that a provider lists; or None, and why it can't be used."""
    name, fields = _name_of(entry), entry if isinstance(entry, dict) else {}
    parameters: Json = fields.get("parameters")
    if not name:
        return None, "it has no name"
    if len(name) > _MAX_NAME:
        return None, f"its name has more than {_MAX_NAME} characters"
    if name in earlier:
        return None, "an earlier tool has this name"
    if parameters is not None and not isinstance(parameters, dict):
        return None, "its parameters are no object"
    if len(earlier) >= MAX_TOOLS:
        return None, f"a provider may have {MAX_TOOLS} tools"
    claims = _read_claims(fields.get("annotations"))
    return ProviderTool(name, _string(fields.get("description")), parameters or {}, claims), ""


def _read_claims(annotations: Json) -> EffectClaims:
    """Return what a tool claims. A tool that is not clearly read-only counts as writing."""
    if annotations is None:
        return EffectClaims()
    if not isinstance(annotations, dict):
        return EffectClaims(read_only=False)
    return EffectClaims(annotations.get("read_only", True) is True, annotations.get("destructive", False) is not False)


def read_info(data: str) -> ProviderInfo:
    """Return the data of `get_provider_info`. Raises `WireError` when it is no object (cetp.md 3.6)."""
    value = read_data(data)
    if not isinstance(value, dict):
        raise WireError("The data of get_provider_info is no object.")
    listed = value.get("scopes")
    scopes = [
        ProviderScope(clip(_name_of(one), _MAX_NAME), _text(one, "description"))
        for one in (listed[:MAX_SCOPES] if isinstance(listed, list) else ())
        if isinstance(one, dict) and _name_of(one)
    ]
    return ProviderInfo(_text(value, "provider_name"), _text(value, "description"), tuple(scopes))


def label_of(name: str) -> str:
    """Return the prefix of a provider's tools, from its label or the last part of its id (cetp.md 8.2)."""
    label = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return (label if label[:1].isalpha() else f"app_{label}".rstrip("_"))[:_MAX_LABEL].rstrip("_")


def prefixed_name(label: str, tool: str) -> str:
    """Return the name of a provider's tool at the gateway."""
    return f"{label}{SEPARATOR}{tool}"


def _name_of(entry: Json) -> str:
    return _string(entry.get("name")) if isinstance(entry, dict) else ""


def _text(value: JsonObject, key: str) -> str:
    return clip(_string(value.get(key)), _MAX_TEXT)


def _string(value: Json) -> str:
    return value if isinstance(value, str) else ""
