"""A small thing to serve: real tokens, a socket that echoes, work that takes a while. Also runs as a process."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.gateway.clients.socket import SocketProtocol
from handspan.gateway.clients.transport import EXTENSION
from handspan.gateway.entry.auth import Auth
from handspan.gateway.http.refusals import Refusal, send_refusal, send_whole
from handspan.gateway.one_node import OneNode
from handspan.gateway.paths import below_prefix
from handspan.gateway.serving.server import find_uvloop, serve
from tests.gateway.entry.entering import Guarded
from tests.stores import open_store


class Echo:
    """The other end of a socket."""

    def __init__(self, socket: SocketProtocol) -> None:
        self._socket = socket

    def on_message(self, data: bytes) -> None:
        self._socket.send_text(data)

    def on_close(self, code: int) -> None:
        """Nothing is left to do."""


class SmallGateway:
    """Servable. Paths: /health, /who, /work (ends when it drains), /hang (ends when it is cut off), /fail, /ws/chat,
    /endless (an answer that no client reads to its end), /body (which it notes the length of)."""

    leaving_seconds = 0.0

    def __init__(self, state: Path, gateway: GatewaySettings, *words: str) -> None:
        """`words`: `--hang` never drains, `--never-open` never opens, `--twice` gets SIGTERM again when it drains."""
        self._store = open_store(state)
        settings = Settings(state / "workspace", state, gateway=gateway)
        self.auth = Auth(settings, self._store.tokens, OneNode(state))
        guarded: ASGIApp = Guarded(self._answer, self.auth)
        prefix = gateway.path_prefix
        self._app: ASGIApp = below_prefix(guarded, prefix) if prefix else guarded
        self.asgi: ASGIApp = self._count
        self._draining = asyncio.Event()
        self._words = words
        self.story: list[str] = []
        self.requests = 0
        """How many requests and sockets have come, also those that are refused."""
        self.bodies: list[int] = []
        """The lengths of the bodies that came to /body."""

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        await self._app(scope, receive, send)

    async def open(self, url: str = "") -> None:
        await self._store.open()
        await self.auth.open()
        if "--never-open" in self._words:
            print("opens", flush=True)  # noqa: T201 - this is how the test hears of it
            try:
                await asyncio.Event().wait()
            finally:
                await self._store.close()
        self.story.append("open")

    async def leave(self) -> None:
        """There are no other nodes."""

    async def drain(self, seconds: float) -> None:
        self.story.append("drain")
        self._draining.set()
        if "--hang" in self._words:
            await asyncio.Event().wait()
        if "--twice" in self._words:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05 if "--twice" in self._words else 0)  # a signal is heard after a turn of the loop

    async def close(self) -> None:
        self.story.append("close")
        await self._store.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._meet(scope, receive, send)
            return
        match scope["path"].removeprefix(scope["root_path"]):
            case "/work":
                await self._draining.wait()
                await send_whole(send, 200, [], b"done")
            case "/hang":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                await asyncio.Event().wait()
            case "/endless":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                for _ in range(10_000):
                    await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
            case "/body":
                self.bodies.append(await _read_body(receive))
                await send_whole(send, 200, [])
            case "/fail" | "/v1/fail":
                raise RuntimeError("a fault")
            case "/fail/late":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                raise RuntimeError("a late fault")
            case _:
                await send_whole(send, 200, [], b"hello")

    async def _meet(self, scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.auth.admit(scope)
        except Refusal as refused:
            await send_refusal(refused, scope, send)
            return
        await send({"type": "websocket.accept"})
        socket = cast(SocketProtocol, scope["extensions"][EXTENSION])
        socket.take(Echo(socket))


async def _read_body(receive: Receive) -> int:
    """The number of its bytes."""
    length, has_more = 0, True
    while has_more:
        message = await receive()
        length, has_more = length + len(message.get("body", b"")), message.get("more_body", False)
    return length


def main(state: Path, *words: str) -> None:
    """Serve until a signal comes; everything that is logged goes to standard error."""
    logging.basicConfig(level=logging.DEBUG)
    settings = GatewaySettings(port=0)

    async def run() -> None:
        gateway = SmallGateway(state, settings, *words)

        def on_ready(url: str) -> None:
            print(url, gateway.auth.operator_token, flush=True)  # noqa: T201 - this is how the test hears of it

        with contextlib.suppress(asyncio.CancelledError):
            await serve(gateway, settings, on_ready=on_ready)

    with asyncio.Runner(loop_factory=find_uvloop()) as runner:
        runner.run(run())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
