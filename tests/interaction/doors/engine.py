"""The engine itself, as a program that holds the gateway calls it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.results import Failure, Success, encode_envelope
from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope


class EngineDoor:
    """Calls the engine in this process."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._app = gateway.gateway.parts.app

    async def call(self, *calls: Asked) -> list[Envelope]:
        return await asyncio.gather(*map(self._call, calls))

    async def stop(self, asked: Asked, runs: asyncio.Event) -> None:
        running = asyncio.create_task(self._call(asked))
        await runs.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def _call(self, asked: Asked) -> Envelope:
        caller = self._app.caller(await self._app.find_agent(asked.agent), OPERATOR)
        result = await self._app.engine.call(ToolCall(asked.tool, dict(asked.arguments), new_call_id()), caller)
        assert isinstance(result, Success | Failure), "it comes at once"
        envelope: Envelope = msgspec.json.decode(encode_envelope(result))
        return envelope


@asynccontextmanager
async def open_engine(gateway: RunningGateway) -> AsyncIterator[EngineDoor]:
    yield EngineDoor(gateway)
