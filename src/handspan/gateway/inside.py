"""A gateway inside this process, without a port: for commands that find no running gateway.

Requests are ASGI calls; a chat is an ASGI WebSocket whose two ends pass messages in memory. No server and no WebSocket
library is loaded: that would take longer than the command itself. Several processes may use the same state folder: the
store's leases keep them apart.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from starlette.types import Receive, Send

from handspan.config.settings import Settings
from handspan.core.principals import OPERATOR
from handspan.core.tasks import Tasks
from handspan.gateway.clients.transport import EXTENSION, Receiver
from handspan.gateway.entry.auth import INSIDE, Admitted
from handspan.gateway.gateway import Gateway

URL: Final = "http://127.0.0.1"
"""The address in requests. Nothing listens there."""
_HEAD: Final = {
    "type": "",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "client": ("127.0.0.1", 0),
    "root_path": "",
}
_ABNORMAL: Final = 1006
"""The close code of a connection that broke off."""
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


class InsideListener(Protocol):
    """The client's listener for messages of a chat."""

    def on_message(self, data: bytes) -> None:
        """Take a message of the gateway. Must not block."""
        ...


class InsideGateway:
    """Opens a gateway for this process alone: `open`, then requests and connections, then `close`."""

    def __init__(self, settings: Settings, config_folder: Path | None = None, *, model: str = "") -> None:
        """`model`, if given, answers for every agent."""
        self._gateway = Gateway(settings, config_folder, model=model, is_inside=True)
        self._prefix = settings.gateway.path_prefix
        self._connections = Tasks()

    async def open(self) -> None:
        """Make the gateway ready for requests."""
        await self._gateway.open()

    async def close(self) -> None:
        """End the connections, then the gateway."""
        await self._connections.close()
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
            await self._gateway.app.mcp.settle(_SERVER_SECONDS)
        exchange = _Exchange(body, on_line)
        scope = self._scope("http", path, headers) | {"method": method}
        await self._gateway.asgi(scope, exchange.receive, exchange.send)
        return InsideAnswer(exchange.status, b"".join(exchange.pieces))

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator["InsideStream"]:
        """Send a request as the operator, and yield its response while it comes. Leaving the block cancels the rest.

        The first request starts the MCP servers, and no request waits for them.
        """
        await self._gateway.app.mcp.settle(0)
        stream = InsideStream(body)
        scope = self._scope("http", path, headers) | {"method": method}
        task = asyncio.create_task(self._serve(scope, stream.receive, stream.send))
        task.add_done_callback(stream.end)
        try:
            await stream.has_begun
            yield stream
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def connect(self, url: str) -> "InsideSocket":
        """Return a WebSocket connection to this address, made as the operator."""
        await self._gateway.app.mcp.settle(_SERVER_SECONDS)
        parts, end = urlsplit(url), GatewayEnd()
        end.is_accepted = asyncio.get_running_loop().create_future()
        scope = self._scope("websocket", f"{parts.path}?{parts.query}", {}) | {"scheme": "ws", "subprotocols": []}
        scope["extensions"][EXTENSION] = end
        self._connections.start(self._serve(scope, end.receive, end.answer))
        await end.is_accepted
        return end.client

    async def _serve(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await self._gateway.asgi(scope, receive, send)

    def _scope(self, kind: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        given = [(b"host", b"127.0.0.1"), *((k.lower().encode(), v.encode("latin-1")) for k, v in headers.items())]
        raw, _, query = (self._prefix + path).partition("?")
        admitted = Admitted(OPERATOR, "", "header")
        return _HEAD | {
            "type": kind,
            "scheme": "http",
            "path": unquote(raw),
            "raw_path": raw.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": given,
            "server": ("127.0.0.1", None),
            "extensions": {INSIDE: admitted},
            "state": {},
        }


def _give_once(body: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    """Return ASGI's `receive` of a request with this body.

    A client in this process does not go away: the second call waits until it is cancelled.
    """
    bodies = [body]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    return receive


class _Exchange:
    """One request and its answer, as ASGI passes them."""

    def __init__(self, body: bytes, on_line: Callable[[bytes], None] | None) -> None:
        self.status = 0
        self.pieces: list[bytes] = []
        self.receive = _give_once(body)
        self._on_line = on_line

    async def send(self, message: Any) -> None:
        """Take the status, or a piece of the answer. An event of a stream is never cut in two."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self._on_line is None or self.status != 200:
            self.pieces.append(message.get("body", b""))
        else:
            for line in message.get("body", b"").splitlines(keepends=True):
                self._on_line(line)


class InsideStream:
    """The response to one request, while it comes."""

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.receive = _give_once(body)
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

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
        if not self.has_begun.done():
            error = None if task.cancelled() else task.exception()
            self.has_begun.set_exception(error or RuntimeError("The gateway ended the request without a response."))
        self._pieces.put_nowait(None)

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of the body as they come."""
        rest = b""
        while (piece := await self._pieces.get()) is not None:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode()
        if rest:
            yield rest.decode()


class GatewayEnd:
    """The gateway's end of a connection in memory; `client` is the client's end."""

    backlog_limit = 0

    def __init__(self) -> None:
        self.client = InsideSocket(self)
        self.is_accepted: asyncio.Future[None]
        self._receiver: Receiver | None = None
        self._is_over = False

    async def receive(self) -> dict[str, Any]:
        """Return the one message that comes through ASGI. All others go to the receiver directly."""
        return {"type": "websocket.connect"}

    async def answer(self, message: Any) -> None:
        """Take the gateway's decision: the connection is accepted, or refused."""
        if not self.is_accepted.done():
            self.is_accepted.set_result(None)
        if message["type"] != "websocket.accept":
            self.client.end(_ABNORMAL, "refused")

    def let_in(self, message_bytes: Callable[[], int]) -> None:
        """Do nothing: messages of this process have no limit."""

    def take(self, receiver: Receiver) -> None:
        """Give every message to `receiver` from now on."""
        self._receiver = receiver

    def send_text(self, data: bytes) -> None:
        """Send a message to the client."""
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self.client.deliver, data)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End the connection."""
        self.end(code, reason)

    def abort(self) -> None:
        """End the connection."""
        self.end(_ABNORMAL, "")

    def pause(self, seconds: float) -> None:
        """Do nothing: a client in this process is not slowed down."""

    def deliver(self, data: bytes) -> None:
        """Give a message of the client to the gateway."""
        if self._receiver is not None and not self._is_over:
            self._receiver.on_message(data)

    def end(self, code: int, reason: str) -> None:
        """End the connection, and tell both ends once."""
        if not self._is_over:
            self._is_over = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self.client.end, code, reason)
            if self._receiver is not None:
                loop.call_soon(self._receiver.on_close, code)


class InsideSocket:
    """The client's end of a connection in memory."""

    paused = False
    close_exc: Exception | None = None

    def __init__(self, other: GatewayEnd) -> None:
        self._other = other
        self._listener: InsideListener | None = None
        self._early: list[bytes] = []
        """Messages that came before there was a listener."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the listener gets nothing more."""
        self.close_code: int | None = None
        self.close_reason: str | None = None

    def listen(self, listener: InsideListener) -> None:
        """Give every message to this listener, first those that came before it."""
        self._listener = listener
        early, self._early = self._early, []
        for data in early:
            self.deliver(data)

    def deliver(self, data: bytes) -> None:
        """Give a message of the gateway to the listener; keep it while there is none."""
        if self._listener is None:
            self._early.append(data)
        elif not self.over.done():
            self._listener.on_message(data)

    def send_text(self, data: bytes) -> bool:
        """Send a message to the gateway. Return False when the connection is over."""
        if self.over.done():
            return False
        asyncio.get_running_loop().call_soon(self._other.deliver, data)
        return True

    async def wait_writable(self) -> None:
        """Return at once: the gateway takes every message when it is sent."""

    async def close(self, code: int = 1000) -> None:
        """End the connection."""
        self._other.end(code, "")
        await self.over

    def end(self, code: int, reason: str) -> None:
        """Note that the connection is over, and why."""
        if not self.over.done():
            self.close_code, self.close_reason = code, reason
            self.over.set_result(None)
