"""A gateway inside this process, without a port: for commands that find no running gateway.

Requests are ASGI calls; a chat calls its session (`inside_chat.py`). No server, no WebSocket library and no client is
loaded: that would take longer than the command itself. Several processes may use the same state folder: the store's
leases keep them apart.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct

from handspan.config.settings import Settings
from handspan.core.principals import OPERATOR
from handspan.core.records import SessionKind
from handspan.gateway.entry.auth import INSIDE, Admitted
from handspan.gateway.gateway import Gateway
from handspan.gateway.inside_chat import InsideChat
from handspan.wire.ws_chat_frames import ChannelMessage

URL: Final = "http://127.0.0.1"
"""The address in requests. Nothing listens there."""
_HEAD: Final = {
    "type": "http",
    "scheme": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "client": ("127.0.0.1", 0),
    "root_path": "",
}
_NEED_SERVERS: Final = ("/api/tools", "/api/mcp", "/api/sources", "/api/doctor")
"""Paths whose answers depend on MCP servers."""
_WAITS: Final = "/login/wait"
"""The end of a path that is asked again and again while a person logs in: servers need not be tried each time."""
_SERVER_SECONDS: Final = 10.0
"""How long a command waits for MCP servers. A gateway that runs never waits, but a command has only this moment."""


class InsideAnswer(Struct, frozen=True):
    """The answer to one request."""

    status: int
    body: bytes


class InsideGateway:
    """Opens a gateway for this process alone: `open`, then requests and chats, then `close`."""

    def __init__(self, settings: Settings, config_folder: Path | None = None, *, model: str = "") -> None:
        """`model`, if given, answers for every agent."""
        self._gateway = Gateway(settings, config_folder, model=model, is_inside=True)
        self._prefix = settings.gateway.path_prefix

    async def open(self) -> None:
        """Make the gateway ready for requests."""
        await self._gateway.open()

    async def close(self) -> None:
        """Close the gateway."""
        await self._gateway.close()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        on_line: Callable[[bytes], None] | None = None,
    ) -> InsideAnswer:
        """Return the answer to a request of the operator. If `on_line` is given, it gets the lines of a success."""
        if path.startswith(_NEED_SERVERS) and not path.endswith(_WAITS):
            await self._gateway.parts.app.mcp.settle(_SERVER_SECONDS)
        pieces: list[bytes] = []
        async with self._begin(method, path, headers, body) as response:
            async for piece in response.pieces():
                if on_line is None or response.status != 200:
                    pieces.append(piece)
                else:  # an event of a stream is never cut in two
                    for line in piece.splitlines(keepends=True):
                        on_line(line)
            if response.cut_off_by is not None:
                raise response.cut_off_by
        return InsideAnswer(response.status, b"".join(pieces))

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator["InsideStream"]:
        """Send a request as the operator, and yield its response while it comes. Leaving the block cancels the rest.

        The first request starts the MCP servers, and no request waits for them.
        """
        await self._gateway.parts.app.mcp.settle(0)
        async with self._begin(method, path, headers, body) as response:
            yield response

    @asynccontextmanager
    async def _begin(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator["InsideStream"]:
        """Open a block in which the request runs; its response has begun. The end of the block ends the request."""
        stream = InsideStream(body)
        scope = self._scope(method, path, headers)
        task = asyncio.ensure_future(self._gateway.asgi(scope, stream.receive, stream.send))
        task.add_done_callback(stream.end)
        try:
            await stream.has_begun
            yield stream
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def chat(
        self,
        session_id: str,
        agent: str,
        on_message: Callable[[ChannelMessage], None],
        kind: SessionKind = "chat",
    ) -> AsyncGenerator[InsideChat]:
        """Yield this session, or a new one of this kind, as a chat of the operator, with this agent or its own.

        `on_message` gets what agents write to the person. Raises `SessionRefused`.
        """
        await self._gateway.parts.app.mcp.settle(_SERVER_SECONDS)
        parts = self._gateway.parts
        bound = await parts.sessions.bind(session_id or None, OPERATOR, agent=agent, kind=kind)
        release = parts.sessions.announce(bound, OPERATOR.owner)
        chat = InsideChat(parts, bound, on_message)
        release()  # the chat listens to the session now
        try:
            yield chat
        finally:
            chat.close()

    def _scope(self, method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the ASGI scope of a request by the operator."""
        given = [(b"host", b"127.0.0.1"), *((k.lower().encode(), v.encode("latin-1")) for k, v in headers.items())]
        raw, _, query = (self._prefix + path).partition("?")
        admitted = Admitted(OPERATOR, "", "header")
        return _HEAD | {
            "method": method,
            "path": unquote(raw),
            "raw_path": raw.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": given,
            "server": ("127.0.0.1", None),
            "extensions": {INSIDE: admitted},
            "state": {},
        }


class InsideStream:
    """The response to one request, while it comes."""

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.cut_off_by: BaseException | None = None
        """Why the response ended before it was whole."""
        self._bodies = [body]
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def receive(self) -> dict[str, Any]:
        """Return the body. A client in this process does not go away: the second call waits until it is cancelled."""
        if not self._bodies:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": self._bodies.pop(), "more_body": False}

    async def send(self, message: Any) -> None:
        """Take the head of the response, or a piece of its body."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]
            }
            self.has_begun.set_result(None)
        else:
            self._pieces.put_nowait(message.get("body", b""))

    def end(self, task: "asyncio.Task[None]") -> None:
        """Note that nothing more comes. The reader gets an exception if the response has not begun."""
        self.cut_off_by = None if task.cancelled() else task.exception()
        if not self.has_begun.done():
            error = self.cut_off_by or RuntimeError("The gateway ended the request without a response.")
            self.has_begun.set_exception(error)
        self._pieces.put_nowait(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body as they come."""
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of the body as they come."""
        rest = b""
        async for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode()
        if rest:
            yield rest.decode()
