"""A real gateway on a loopback port, and clients of it that speak raw frames."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from handspan.config.load import load_settings
from handspan.core.values import Json
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server
from handspan.models.model import Model
from tests.waiting import WAIT


class Client:
    """A client over raw frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.start: dict[str, Any] = {}
        """`session_start` and `connected`, as one."""

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(msgspec.json.encode({"type": kind, **fields}), text=True)

    async def hears(self) -> dict[str, Any]:
        frame: dict[str, Any] = msgspec.json.decode(await asyncio.wait_for(self.socket.recv(), WAIT))
        return frame

    async def hears_until(self, kind: str) -> list[dict[str, Any]]:
        """All frames up to the first of this type."""
        heard: list[dict[str, Any]] = []
        while not heard or heard[-1]["type"] != kind:
            heard.append(await self.hears())
        return heard

    async def hears_of(self, kind: str) -> dict[str, Any]:
        return (await self.hears_until(kind))[-1]

    async def connected(self, *capabilities: str, **fields: Any) -> dict[str, Any]:
        """`session_start` and `connected`, as one."""
        start = await self.hears()
        assert start["type"] == "session_start"
        await self.send("connect", v=1, capabilities=list(capabilities), **fields)
        self.start = {**start, **await self.hears()}
        return self.start

    async def offers(self, *tools: Json) -> dict[str, Any]:
        await self.send("register_tools", tools=list(tools))
        return await self.hears_of("tools_registered")

    async def closed(self) -> int:
        """The code with which the gateway closes."""
        try:
            while True:
                await asyncio.wait_for(self.socket.recv(), WAIT)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    def drop(self) -> None:
        """Be gone, without a word."""
        self.socket.transport.abort()


class Place:
    """A gateway that runs."""

    def __init__(self, gateway: Gateway, server: Server) -> None:
        self.gateway = gateway
        self.url = server.url
        self.ws = server.url.replace("http", "ws", 1) + "/ws/chat"
        self._device_token = ""

    async def device_token(self) -> str:
        """The operator's token that is good for devices and for nothing else: the same one each time."""
        self._device_token = self._device_token or await self.gateway.parts.auth.issue("operator", ("device",))
        return self._device_token

    @contextlib.asynccontextmanager
    async def client(self, query: str = "", token: str | None = None) -> AsyncIterator[Client]:
        shown = self.gateway.operator_token if token is None else token
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        async with connect(f"{self.ws}{query}", additional_headers=headers, compression=None, proxy=None) as socket:
            yield Client(socket)


@contextlib.asynccontextmanager
async def running(
    folder: Path, model: str | Model = "offline", config_folder: Path | None = None, **gateway: Json
) -> AsyncIterator[Place]:
    """A gateway over this folder; what it keeps stays there for the next one."""
    overrides: dict[str, Json] = {
        "workspace": str(folder / "workspace"),
        "state": str(folder / "state"),
        "gateway": {"port": 0, **gateway},
    }
    settings = load_settings(None, {"HOME": str(folder)}, overrides)
    made = Gateway(settings, config_folder, model=model)
    server = Server(made, settings.gateway)
    await asyncio.wait_for(server.open(), WAIT)
    try:
        yield Place(made, server)
    finally:
        await asyncio.wait_for(server.close(), WAIT)
