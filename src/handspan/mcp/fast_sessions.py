"""The short way of `fast_calls.py` for `tools/call` in the older era, where a client has a session with the library.

The library keeps the sessions, and answers all their other requests. A call takes the short way when its client can't
be asked anything, wants no progress, and has used the library in the last minute. So the library sees that the session
is in use, and we know that the library has not ended the session. In this era, a call goes on when its connection
breaks, and a notification cancels it.
"""

import asyncio
import time
from typing import Any, Final, Literal

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http import REQUEST_CANCELLED
from msgspec import UNSET, Struct, UnsetType, field

from handspan.core.context import no_progress
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json, JsonObject
from handspan.mcp.answers import encode_result, failure_meta
from handspan.mcp.fast_response import ClientWatch, PlainResponse
from handspan.mcp.offer import ClientRequest, McpOffer
from handspan.mcp.shell import Scope, Send

SESSION: Final = b"mcp-session-id"
_TRUSTED_SECONDS: Final = 60.0
"""How long after a request to the library a session counts as alive. The library ends idle ones after 30 minutes."""
_MAX_SESSIONS: Final = 1000


class _SessionMeta(Struct, frozen=True):
    progress: Json | UnsetType = field(name="progressToken", default=UNSET)


class _SessionParams(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: JsonObject = {}
    meta: _SessionMeta = field(name="_meta", default=_SessionMeta())


class SessionCall(Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="tools/call"):
    """A call of the older era."""

    jsonrpc: Literal["2.0"]
    id: int | str
    params: _SessionParams


class _CancelParams(Struct, frozen=True):
    request: int | str = field(name="requestId")


class SessionCancel(Struct, frozen=True, tag_field="method", tag="notifications/cancelled"):
    """The notification that cancels a call."""

    jsonrpc: Literal["2.0"]
    params: _CancelParams


_decoder: Final = msgspec.json.Decoder(SessionCall | SessionCancel)


class _PlainSession(Struct):
    """What a request of the session has to match, and when the library last used the session."""

    client: str
    version: bytes
    used_at: float


class FastSessions:
    """The sessions whose calls may take the short way, and the calls that do so now."""

    def __init__(self, offer: McpOffer) -> None:
        self._offer = offer
        self._sessions: dict[str, _PlainSession] = {}
        self._running: dict[tuple[str, int | str], asyncio.Task[Any]] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()

    def add(self, session: str, client: str, version: str) -> None:
        """Note that the library has just used this session, and that its client can't be asked anything."""
        self._sessions.pop(session, None)
        self._sessions[session] = _PlainSession(client, version.encode(), time.monotonic())
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def forget(self, session: str) -> None:
        """Note that the client ends this session."""
        self._sessions.pop(session, None)

    def find(self, scope: Scope) -> str:
        """Return the id of the session if this request may take the short way; else an empty text."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        found = {name: value for name, value in headers if name in _EXPECTED}
        session = found.get(SESSION, b"").decode("latin-1")
        known = self._sessions.get(session)
        if known is None or known.client != client_of(scope) or time.monotonic() - known.used_at > _TRUSTED_SECONDS:
            return ""
        is_whole = sum(name in _EXPECTED for name, _ in headers) == len(_EXPECTED)
        return session if is_whole and found == {**_EXPECTED, SESSION: found[SESSION], _VERSION: known.version} else ""

    async def answer(self, session: str, body: bytes, scope: Scope, send: Send) -> bool:
        """Answer this message of the session. Return False, with nothing done, when the library has to answer it."""
        try:
            message = _decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if isinstance(message, SessionCancel):
            return await self._cancel((session, message.params.request), send)
        if message.params.meta.progress is not UNSET or (session, message.id) in self._running:
            return False
        await self._call((session, message.id), message, scope, PlainResponse(send))
        return True

    async def _call(self, key: tuple[str, int | str], call: SessionCall, scope: Scope, response: PlainResponse) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running[key] = task
        watch = ClientWatch(response)
        answer: JsonObject = {"jsonrpc": "2.0", "id": call.id}
        try:
            request = ClientRequest(scope, no_progress, None)
            result = await self._offer.call_tool(call.params.name, call.params.arguments, request)
            answer["result"] = encode_session_result(result)
        except asyncio.CancelledError:
            if task not in self._cancelled:
                raise
            task.uncancel()
            answer["error"] = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        finally:
            watch.end()
            del self._running[key]
            self._cancelled.discard(task)
        await response.end(msgspec.json.encode(answer))

    async def _cancel(self, key: tuple[str, int | str], send: Send) -> bool:
        """Cancel a call that took the short way. Return False when there is no such call."""
        task = self._running.get(key)
        if task is None:
            return False
        self._cancelled.add(task)
        task.cancel()
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return True


_VERSION: Final = b"mcp-protocol-version"
_EXPECTED: Final = {
    SESSION: b"",
    _VERSION: b"",
    b"content-type": b"application/json",
    b"accept": b"application/json, text/event-stream",
}
"""The headers of a plain request. The session's own values take the place of the empty ones."""


def client_of(scope: Scope) -> str:
    """Return the id of the client that authentication found; empty without authentication."""
    user = scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else ""


def encode_session_result(result: ToolResult) -> JsonObject:
    """Return the result as the library writes it in the older era."""
    if not isinstance(result, Failure) and (result.attachments or result.notice):
        whole: JsonObject = encode_result(result, is_modern=False).model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"result_type"}
        )
        return whole
    value: Json = result.message if isinstance(result, Failure) else result.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    encoded: JsonObject = {"content": [{"type": "text", "text": text}], "isError": isinstance(result, Failure)}
    if isinstance(result, Failure):
        encoded["_meta"] = failure_meta(result)
    elif isinstance(value, dict):
        encoded["structuredContent"] = value
    return encoded
