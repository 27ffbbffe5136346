"""The floors of the remote figures: a message to the other end of a connection and back, with nothing around it.

Both begin at the server, as calls of a device's tools do, and both are served by uvicorn's websockets-sansio with the
settings of the gateway. `PlainEcho` is an ASGI application as anybody would write it; `SeamEcho` sits behind the same
seam as the gateway's own connections, so what is above it is the engine and the protocol alone.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import uvicorn

from handspan.config.load import load_settings
from handspan.gateway.clients.transport import EXTENSION, Socket
from handspan.gateway.serving.server import Server

ARGUMENTS = {"text": "x" * 150}
MESSAGE = msgspec.json.encode(
    {"type": "tool_call_request", "id": "550e8400-e29b-41d4-a716-446655440000", "name": "tool_0", "args": ARGUMENTS}
)
TEXT = MESSAGE.decode()


class PlainEcho:
    """One connection of uvicorn's own protocol, through `receive` and `send`."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._receive: Any = None
        self._send: Any = None

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """As an ASGI application."""
        await receive()
        self._receive, self._send = receive, send
        await send({"type": "websocket.accept"})
        await self._over.wait()

    async def call(self) -> None:
        """One message there and back."""
        await self._send({"type": "websocket.send", "text": TEXT})
        await self._receive()

    def close(self) -> None:
        """Let the connection end."""
        self._over.set()


class SeamEcho:
    """One connection that was taken over after its handshake."""

    def __init__(self) -> None:
        self._socket: Socket | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """As an ASGI application."""
        await receive()
        await send({"type": "websocket.accept"})
        taken = scope["extensions"][EXTENSION]
        taken.take(self)
        self._socket = taken

    def on_message(self, data: bytes) -> None:
        """A message is back."""
        self._waiting.pop(0).set_result(None)

    def on_close(self, code: int) -> None:
        """Nothing to do."""

    async def call(self) -> None:
        """One message there and back."""
        assert self._socket is not None
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._socket.send_text(MESSAGE)
        await answer


class _Only:
    """Something to serve that is only an application."""

    leaving_seconds = 0.0

    def __init__(self, asgi: Any) -> None:
        self.asgi = asgi

    async def open(self, url: str = "") -> None: ...

    async def leave(self) -> None:
        """There are no other nodes."""

    async def drain(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


@contextlib.asynccontextmanager
async def plain_echo() -> AsyncIterator[tuple[PlainEcho, str]]:
    """The echo that uvicorn alone serves, and where."""
    echo = PlainEcho()
    config = uvicorn.Config(
        echo.app, port=0, http="httptools", ws="websockets-sansio", ws_per_message_deflate=False, lifespan="off",
        interface="asgi3", log_config=None, log_level="warning", access_log=False,
    )  # fmt: skip
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield echo, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/ws/chat"
    finally:
        echo.close()
        await server.shutdown()


@contextlib.asynccontextmanager
async def seam_echo() -> AsyncIterator[tuple[SeamEcho, str]]:
    """The echo behind the gateway's own seam, and where."""
    echo = SeamEcho()
    settings = load_settings(None, {"HOME": "/nonexistent"}, {"gateway": {"port": 0}}).gateway
    server = Server(_Only(echo.app), settings)
    await server.open()
    try:
        yield echo, f"{server.url}/ws/chat"
    finally:
        await server.close()
