"""`/ws/chat`: a chat whose model calls what the message says."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope, script


class WsDoor:
    """Talks to each agent over a connection of its own."""

    def __init__(self, gateway: RunningGateway, stack: AsyncExitStack) -> None:
        self._gateway = gateway
        self._stack = stack
        self._chats: dict[str, ClientConnection] = {}

    async def call(self, *calls: Asked) -> list[Envelope]:
        chat = await self._chat(calls[0].agent)
        await chat.send(json.dumps({"type": "message", "content": script(calls)}))
        done = await _until(chat, "done")
        envelopes: list[Envelope] = json.loads(done["full_response"])
        return envelopes

    async def stop(self, asked: Asked, runs: asyncio.Event) -> None:
        chat = await self._chat(asked.agent)
        await chat.send(json.dumps({"type": "message", "content": script((asked,))}))
        await runs.wait()
        await chat.send(json.dumps({"type": "abort"}))
        await _until(chat, "aborted")

    async def _chat(self, agent: str) -> ClientConnection:
        if agent not in self._chats:
            headers = {"Authorization": f"Bearer {self._gateway.token}"}
            url = f"{self._gateway.ws_url}?persona={agent}"
            opening = connect(url, additional_headers=headers, proxy=None)
            chat = self._chats[agent] = await self._stack.enter_async_context(opening)
            await chat.send(json.dumps({"type": "connect", "v": 1}))
            await _until(chat, "connected")
        return self._chats[agent]


async def _until(chat: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of this type."""
    while True:
        frame: dict[str, Any] = json.loads(await chat.recv())
        assert frame["type"] != "error", frame
        if frame["type"] == kind:
            return frame


@asynccontextmanager
async def open_ws(gateway: RunningGateway) -> AsyncIterator[WsDoor]:
    async with AsyncExitStack() as stack:
        yield WsDoor(gateway, stack)
