"""The web tools: `web_fetch`, `http_request`, and that of `web_search.py`. All use the network guard (SPEC S2)."""

import asyncio
import re
import time
from typing import Final, cast

import msgspec

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import Annotations, Handling, Tool, ToolSpec, boolean, parameters, string
from handspan.core.values import Arguments, Json, JsonObject
from handspan.net.exchange import Fetched, OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.net.text import decode_text, media_type_of
from handspan.tools import late
from handspan.tools.result_sources import name_host
from handspan.tools.web_search import SearchEndpoint, WebSearch
from handspan.tools.workspace import Workspace

HOSTS_SETTING: Final = "tools.http_request.allowed_hosts"

_CHANGES_THE_WEB: Final = Annotations(destructive=True, open_world=True)
_READING_METHODS: Final = frozenset({"GET", "HEAD"})
_MAX_HEADERS: Final = 100
_SHOWN_HEADERS: Final = 2000
_HEADERS: Final[JsonObject] = {
    "type": "object",
    "description": "HTTP headers as key-value pairs",
    "additionalProperties": {"type": "string"},
    "maxProperties": _MAX_HEADERS,
}
_SAVE_TO: Final = string(
    "Save the body, text or binary, as this file of the workspace instead of returning it.", minLength=1
)


def _only_reads(arguments: Arguments) -> bool:
    """Whether a request with these arguments changes nothing: neither on the server nor in the workspace."""
    return arguments.get("method", "GET") in _READING_METHODS and "save_to" not in arguments


_BY_ARGUMENTS: Final = Handling(is_read_only=_only_reads, result_source=name_host)


def web_tools(
    guard: NetGuard,
    workspace: Workspace,
    *,
    search: SearchEndpoint | None = None,
    http_hosts: tuple[str, ...] | None = None,
) -> tuple[Tool, ...]:
    """Return the three web tools. They save files in `workspace`; `http_hosts` limits `http_request` to some hosts."""
    return (WebSearch(guard, search), WebFetch(guard, workspace), HttpRequest(guard, workspace, http_hosts))


class WebFetch:
    """Fetches a page or file from the web."""

    spec = ToolSpec(
        name="web_fetch",
        description="Fetch a web page or file by its URL. HTML comes as Markdown. With save_to it downloads the file.",
        parameters=parameters(
            "url",
            url=string("URL to fetch (http:// or https://)"),
            method=string(
                "HTTP method: HEAD for status and type only. http_request can also send a body.",
                enum=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
                default="GET",
            ),
            headers=_HEADERS,
            raw=boolean("True for the HTML source of a page instead of its Markdown."),
            save_to=_SAVE_TO,
        ),
        permissions=("network",),
        annotations=_CHANGES_THE_WEB,
    )
    handling = _BY_ARGUMENTS

    def __init__(self, guard: NetGuard, workspace: Workspace) -> None:
        self._guard = guard
        self._downloads = _Downloads(workspace)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        """Return status, type and size of the page, and its body or where the body was saved."""
        request = OutgoingRequest(_text(arguments, "url"), _text(arguments, "method", "GET"), _headers(arguments))
        limits = _limits(ctx)
        await self._downloads.check(arguments)
        fetched = await self._guard.fetch(request, limits)
        about: JsonObject = {
            "status": fetched.status,
            "content_type": fetched.headers.get("content-type", ""),
            "url": fetched.url,
        }
        if "save_to" in arguments:
            about |= await self._downloads.save(fetched, _text(arguments, "save_to"), limits, ctx)
        if "saved_to" in about:
            return about
        # Converting a long page takes seconds, so it runs on a thread.
        is_page = media_type_of(str(about["content_type"])) in _HTML_TYPES
        wants_markdown = is_page and not arguments.get("raw", False)
        return await asyncio.to_thread(_add_body, about, fetched, limits, wants_markdown=wants_markdown)


class HttpRequest:
    """Sends any HTTP request."""

    spec = ToolSpec(
        name="http_request",
        description="Make an HTTP request to a URL and get status, headers and body of the answer.",
        parameters=parameters(
            "url",
            url=string("The URL to request (http:// or https://)"),
            method=string("HTTP method", enum=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], default="GET"),
            headers=_HEADERS,
            body={
                "type": ["string", "object", "array"],
                "items": {},
                "description": "Request body, not for GET and HEAD: a text, or an object or array to send as JSON.",
            },
            save_to=_SAVE_TO,
        ),
        permissions=("network",),
        annotations=_CHANGES_THE_WEB,
    )
    handling = _BY_ARGUMENTS

    def __init__(self, guard: NetGuard, workspace: Workspace, allowed_hosts: tuple[str, ...] | None = None) -> None:
        """`allowed_hosts`: `host` or `host:port`. None: only the guard's policy limits the hosts."""
        self._guard = guard if allowed_hosts is None else guard.restrict_to(allowed_hosts, HOSTS_SETTING)
        self._downloads = _Downloads(workspace)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        """Return status, headers and body of the answer. Raises `network_error` for a 5xx status (SPEC B)."""
        request, limits = _request_with_body(arguments), _limits(ctx)
        await self._downloads.check(arguments)
        fetched = await self._guard.fetch(request, limits)
        about: JsonObject = {"status": fetched.status, "url": fetched.url, "headers": dict(fetched.headers)}
        if fetched.status >= 500:
            raise _server_error(fetched, await asyncio.to_thread(_add_body, {}, fetched, limits))
        if "save_to" in arguments:
            about |= await self._downloads.save(fetched, _text(arguments, "save_to"), limits, ctx)
        return about if "saved_to" in about else await asyncio.to_thread(_add_body, about, fetched, limits)


class _Downloads:
    """Saves response bodies in the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def check(self, arguments: Arguments) -> None:
        """Raise `ToolError` if `save_to` can't be written: before the request, which may change things."""
        if "save_to" in arguments:
            await asyncio.to_thread(self._workspace.check_writable, _text(arguments, "save_to"))

    async def save(self, fetched: Fetched, path: str, limits: RequestLimits, ctx: ToolContext) -> JsonObject:
        """Save the body. Return where it was saved, or why it was not. Raises `file_too_large` for a truncated body."""
        if not 200 <= fetched.status < 300:
            return {"note": f"Nothing was saved: the server answered {fetched.status}."}
        if fetched.truncated:
            raise ToolError(
                "file_too_large",
                f"The body of {fetched.url} is longer than {limits.body_bytes} bytes, so nothing was saved. "
                "Ask for a smaller file.",
            )
        try:
            await asyncio.to_thread(self._workspace.write, path, fetched.body, ctx.deadline)
        except ToolError as error:
            return {"note": f"The request was sent ({fetched.status}); its answer was not saved: {error.message}"}
        return {"saved_to": path, "bytes": len(fetched.body)}


def _text(arguments: Arguments, name: str, default: str = "") -> str:
    return cast("str", arguments.get(name, default))


def _headers(arguments: Arguments) -> tuple[tuple[str, str], ...]:
    return tuple(cast("dict[str, str]", arguments.get("headers", {})).items())


def _limits(ctx: ToolContext) -> RequestLimits:
    """Return limits with the seconds that are left for this call; without a limit if the call has no deadline."""
    return RequestLimits(seconds=max(0.001, ctx.deadline.at - time.monotonic()) if ctx.deadline else None)


def _request_with_body(arguments: Arguments) -> OutgoingRequest:
    """Return the request of `http_request`. A body without a content type gets one by its first character."""
    method, given, headers = _text(arguments, "method", "GET"), arguments.get("body", ""), _headers(arguments)
    body = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    if body and method in _READING_METHODS:
        raise ToolError("invalid_arguments", f"A {method} request has no body: use method 'POST' or leave out 'body'.")
    if body and not any(name.lower() == "content-type" for name, _ in headers):
        kind = "application/json" if body.lstrip()[:1] in ("{", "[") else "text/plain; charset=utf-8"
        headers = (*headers, ("Content-Type", kind))
    return OutgoingRequest(_text(arguments, "url"), method, headers, body.encode("utf-8", "replace"))


_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})


def _add_body(
    answer: JsonObject, fetched: Fetched, limits: RequestLimits, *, wants_markdown: bool = False
) -> JsonObject:
    """Return the answer with the body as text or Markdown. For a binary body, a warning names type and size instead."""
    answer["bytes"] = len(fetched.body)
    if fetched.truncated:
        answer |= {"truncated": True, "limit_bytes": limits.body_bytes, **_declared_size(fetched)}
        answer["warning"] = f"The body is longer than {limits.body_bytes} bytes; this is its beginning."
    text = _body_text(fetched)
    if text is None:
        return answer | {"body": "", "binary": True, "warning": _binary_warning(fetched)}
    if not (wants_markdown and text):
        return answer | {"body": text}
    markdown = late.markdown.html_to_markdown(text, fetched.url)
    if markdown.truncated:
        answer["markdown_truncated"] = True
    return answer | {"markdown": markdown.text}


def _body_text(fetched: Fetched) -> str | None:
    """Return the body as text; None for a binary body."""
    coding = fetched.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", "gzip", "deflate"):  # an encoding that our request did not offer
        return None
    return decode_text(fetched.body, fetched.headers.get("content-type", "")) if fetched.body else ""


def _declared_size(fetched: Fetched) -> JsonObject:
    """Return the size that the server gives for the whole body, as a field of the answer; empty when it is unknown."""
    size = fetched.headers.get("content-length", "")
    is_known = re.fullmatch("[0-9]{1,18}", size) and "content-encoding" not in fetched.headers
    return {"total_bytes": int(size)} if is_known else {}


def _binary_warning(fetched: Fetched) -> str:
    kind = fetched.headers.get("content-type") or "of unknown type"
    cut = " or more" if fetched.truncated else ""
    can_be_saved = 200 <= fetched.status < 300 and not fetched.truncated
    remedy = ": save_to saves it as a file" if can_be_saved else ""
    return f"The body is not text ({kind}, {len(fetched.body)} bytes{cut}) and is left out{remedy}."


def _server_error(fetched: Fetched, answer: JsonObject) -> ToolError:
    """Return the error of a 5xx status: with the headers, which may say when to try again, and the body's head."""
    text = str(answer["body"] or answer.get("warning", "")).strip()
    body = f"Body: {text[:1000]}{'…' if len(text) > 1000 else ''}" if text else "The body is empty."
    first = sorted(fetched.headers.items(), key=lambda header: header[0] != "retry-after")
    headers = "; ".join(f"{name}: {value}" for name, value in first)
    headers = headers if len(headers) <= _SHOWN_HEADERS else f"{headers[:_SHOWN_HEADERS]}…"
    return ToolError("network_error", f"HTTP {fetched.status} from {fetched.url}. Headers: {headers}. {body}")
