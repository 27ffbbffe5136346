"""`/v1/graph`: a run of a page whose model calls what the message says."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope, script
from tests.interaction.doors.rest import http_client


class GraphDoor:
    """Begins a run on a new thread for each message."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, *calls: Asked) -> list[Envelope]:
        answer = await self._http.post("/v1/graph/invoke", json=_run(calls, {}))
        assert answer.status_code == 200, answer.text
        last = answer.json()["data"]["messages"][-1]
        envelopes: list[Envelope] = json.loads(last["content"][0]["text"])
        return envelopes

    async def stop(self, asked: Asked, runs: asyncio.Event) -> None:
        thread = {"thread_id": "stopped"}
        running = asyncio.create_task(self._http.post("/v1/graph/invoke", json=_run((asked,), thread)))
        await runs.wait()
        stopped = await self._http.post("/v1/graph/stop", json=thread)
        assert stopped.status_code == 200, stopped.text
        await running


def _run(calls: tuple[Asked, ...], config: dict[str, str]) -> dict[str, Any]:
    message = {"role": "user", "message_id": "0", "content": [{"type": "text", "text": script(calls)}]}
    return {"messages": [message], "config": {"agent": calls[0].agent, **config}}


@asynccontextmanager
async def open_graph(gateway: RunningGateway) -> AsyncIterator[GraphDoor]:
    async with http_client(gateway) as http:
        yield GraphDoor(http)
