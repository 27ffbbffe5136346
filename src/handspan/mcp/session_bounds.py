"""How many sessions of the older era may be open: in all, and for each client (SPEC S7).

The library keeps the sessions, and refuses every further one when there are too many. So one client could lock out all
others. Here the library may open any number, and the oldest session that no request uses is ended for each new one.
"""

import logging
import time
from collections import Counter
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import Struct

from handspan.mcp.asgi import AsgiApp, Receive, Scope, Send

_log = logging.getLogger(__name__)
_SESSION: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_OLDER: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


class _OpenSession(Struct):
    """A session that the library keeps."""

    client: str
    user: Any
    """What the library knows the client by."""
    used_at: float
    requests: int = 0
    """How many requests use it now: calls, and the stream of notifications."""


class SessionLimits(Struct, frozen=True):
    """How many sessions may be open, and for how long an unused one is kept."""

    most: int
    by_client: int
    idle_timeout: float
    """Seconds."""


class SessionBounds:
    """Passes requests on to the library, and ends sessions when there are too many."""

    def __init__(self, library: AsgiApp, limits: SessionLimits) -> None:
        self._library = library
        self._limits = limits
        self._sessions: dict[str, _OpenSession] = {}
        """The open sessions, the one that was unused for the longest time first."""
        self._warned: set[str] = set()
        """The clients of which the log says that they have too many sessions."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = dict(scope["headers"])
        session = headers.get(_SESSION, b"").decode("latin-1")
        if session:
            await self._use(session, scope, receive, send)
        elif scope["method"] == "POST" and headers.get(_VERSION, b"") in (b"", *_OLDER):
            await self._open(scope, receive, send)
        else:
            await self._library(scope, receive, send)

    async def _use(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request of a session, and note that the session is used meanwhile."""
        session = self._sessions.get(name)
        if session is None or session.client != client_of(scope):
            await self._library(scope, receive, send)
            return
        session.requests += 1
        try:
            await self._library(scope, receive, send)
        finally:
            session.requests -= 1
            session.used_at = time.monotonic()
            if self._sessions.pop(name, None) is not None and scope["method"] != "DELETE":
                self._sessions[name] = session

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that opens a session, and note the session when the library has opened it."""
        session = _OpenSession(client_of(scope), scope.get("user"), time.monotonic(), requests=1)

        async def note(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                name = dict(message["headers"]).get(_SESSION, b"").decode("latin-1")
                if name:
                    self._sessions[name] = session
                    await self._trim(session.client, scope)
            await send(message)

        try:
            await self._library(scope, receive, note)
        finally:
            session.requests -= 1

    async def _trim(self, client: str, scope: Scope) -> None:
        """End sessions until there are no more than allowed."""
        self._drop_expired()
        while self._counts()[client] > self._limits.by_client:
            self._warn(client)
            await self._end(self._find_oldest(client), scope)
        while (counts := self._counts()).total() > self._limits.most:
            # The client with the most sessions loses one: a new client always gets in.
            await self._end(self._find_oldest(counts.most_common(1)[0][0]), scope)

    def _counts(self) -> Counter[str]:
        """Return how many sessions each client has. Counted anew each time: others may end meanwhile."""
        return Counter(session.client for session in self._sessions.values())

    def _find_oldest(self, client: str) -> str:
        """Return the client's oldest session that no request uses, else the oldest."""
        names = [name for name, session in self._sessions.items() if session.client == client]
        return next((name for name in names if not self._sessions[name].requests), names[0])

    def _drop_expired(self) -> None:
        """Forget the sessions that the library has ended because nothing used them."""
        since = time.monotonic() - self._limits.idle_timeout
        self._sessions = {name: one for name, one in self._sessions.items() if one.requests or one.used_at >= since}

    async def _end(self, name: str, scope: Scope) -> None:
        """End a session as its client would: by a request to the library."""
        session = self._sessions.pop(name)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def drop(message: Any) -> None:
            pass

        headers = [(_SESSION, name.encode("latin-1")), (b"host", dict(scope["headers"]).get(b"host", b""))]
        await self._library({**scope, "method": "DELETE", "headers": headers, "user": session.user}, receive, drop)

    def _warn(self, client: str) -> None:
        if client not in self._warned:
            if len(self._warned) >= self._limits.most:
                self._warned.clear()
            self._warned.add(client)
            text = "An MCP client (token %s) opens more than %d sessions: the oldest unused one ends for each new one"
            _log.warning(text, client[:12] or "none", self._limits.by_client)


def client_of(scope: Scope) -> str:
    """Return the id of the client that authentication found; empty without authentication."""
    user = scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else ""
