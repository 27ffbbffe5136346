"""A short way for the most frequent request: `tools/call` in the newer era, without progress and without questions.

The SDK ("the library" below) runs such a request through five models and a group of tasks. Here the request is read
once, and answered in its own task. Every request that is not exactly of this form goes to the library, which also
answers with the errors.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import UNSET, Struct, UnsetType, field

from handspan.core.context import no_progress
from handspan.core.fast import IS_FAST
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json, JsonObject
from handspan.mcp.answers import encode_result, failure_meta, is_structured
from handspan.mcp.asgi import AsgiApp, Receive, Scope, Send
from handspan.mcp.fast_response import ClientWatch, PlainResponse
from handspan.mcp.offer import ClientRequest, McpOffer

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"


class _ClientInfo(Struct, frozen=True):
    name: str
    version: str


class _Capabilities(Struct, frozen=True):
    elicitation: JsonObject | UnsetType | None = UNSET


class _Meta(Struct, frozen=True):
    version: str = field(name="io.modelcontextprotocol/protocolVersion")
    capabilities: _Capabilities = field(name="io.modelcontextprotocol/clientCapabilities")
    client: _ClientInfo | UnsetType = field(name="io.modelcontextprotocol/clientInfo", default=UNSET)
    progress: Json | UnsetType = field(name="progressToken", default=UNSET)


class _Params(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    meta: _Meta = field(name="_meta")
    arguments: JsonObject = {}


class PlainCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A `tools/call` that this module can answer."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


_decoder: Final = msgspec.json.Decoder(PlainCall)


class FastCalls:
    """Answers plain calls (`PlainCall`), and leaves all other requests to the library."""

    def __init__(
        self, offer: McpOffer, library: AsgiApp, server: Mapping[str, Json], is_plain: Callable[[str], bool]
    ) -> None:
        """`server` is what each result says about the server.

        `is_plain` gets the name of a tool. It returns True if all its arguments stand in the body alone: a tool may ask
        that a header repeats one.
        """
        self._offer = offer
        self._is_plain = is_plain
        self._library = library
        self._meta = {SERVER_INFO_META_KEY: dict(server)}

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A header names the method: the newer era requires that."""
        if not IS_FAST or scope["method"] != "POST" or (_METHOD, b"tools/call") not in scope["headers"]:
            await self._library(scope, receive, send)
            return
        message = await receive()
        body = b"" if message.get("more_body") else message.get("body", b"")
        if not await self._answer_call(body, scope, receive, send):
            await self._library(scope, _put_back(message, receive), send)

    async def _answer_call(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a plain call. Return False, with nothing done, when the library has to answer it."""
        call = _read(scope["headers"], body)
        if call is None or not self._is_plain(call.params.name):
            return False
        response = PlainResponse(send)
        with suppress(_Disconnected):
            request = ClientRequest(scope, no_progress, None)
            work = self._offer.call_tool(call.params.name, call.params.arguments, request)
            result = await _while_connected(work, receive, response)
            meta = {**failure_meta(result), **self._meta} if isinstance(result, Failure) else self._meta
            answer = {"jsonrpc": "2.0", "id": call.id, "result": {**encode_plain(result), "_meta": meta}}
            await response.end(msgspec.json.encode(answer))
        return True


def _read(headers: list[tuple[bytes, bytes]], body: bytes) -> PlainCall | None:
    """Return the call; None when it is not plain, or when the library has to refuse it."""
    try:
        call = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    meta = call.params.meta
    expected = {
        _VERSION: meta.version.encode(),
        _METHOD: b"tools/call",
        _NAME: call.params.name.encode(),
        b"content-type": b"application/json",
        b"accept": b"application/json, text/event-stream",
    }
    found = [(name, value) for name, value in headers if name in expected]
    is_plain = meta.version in MODERN_PROTOCOL_VERSIONS and call.params.name.isascii()
    has_extras = meta.progress is not UNSET or meta.capabilities.elicitation is not UNSET
    return call if is_plain and not has_extras and len(found) == len(expected) and dict(found) == expected else None


def _put_back(message: Mapping[str, Any], receive: Receive) -> Receive:
    """Return a `receive` that begins with this message."""
    first: list[Any] = [message]

    async def receive_again() -> Any:
        return first.pop() if first else await receive()

    return receive_again


def encode_plain(result: ToolResult) -> JsonObject:
    """Return the result as the library writes it."""
    if not isinstance(result, Failure) and (result.attachments or result.notice):
        whole: JsonObject = encode_result(result, is_modern=True).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        return {**whole, "resultType": "complete"}
    value: Json = result.message if isinstance(result, Failure) else result.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    encoded: JsonObject = {
        "content": [{"type": "text", "text": text}],
        "isError": isinstance(result, Failure),
        "resultType": "complete",
    }
    if is_structured(value):
        encoded["structuredContent"] = value
    return encoded


class _Disconnected(Exception):
    """The client has closed the connection."""


async def _while_connected(work: Awaitable[ToolResult], receive: Receive, response: PlainResponse) -> ToolResult:
    """Return the outcome of `work`. Cancel it and raise `_Disconnected` when the client leaves meanwhile."""
    task = asyncio.current_task()
    assert task is not None
    watch = ClientWatch(response, receive, task.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.has_left:
            task.uncancel()
            raise _Disconnected from None
        raise
    finally:
        watch.end()
