"""`/agui`: a run of a client of AG-UI whose model calls what the message says."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx2

from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope, script
from tests.interaction.doors.rest import http_client

_GO_ON = {"resume": [{"interruptId": "answered elsewhere", "status": "cancelled"}]}


class AguiDoor:
    """Begins a run on a new thread for each message. The person answers questions elsewhere."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, *calls: Asked) -> list[Envelope]:
        thread, found, names = uuid4().hex, dict[str, Envelope](), list[str]()
        more: dict[str, Any] = {}
        async with asyncio.timeout(60):
            while True:
                answer = await self._http.post(f"/agui/{calls[0].agent}", json=_run(calls, thread, more))
                assert answer.status_code == 200, answer.text
                events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
                names += [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
                told = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
                snapshots = [event["messages"] for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
                told += [message for messages in snapshots for message in messages if message["role"] == "tool"]
                found |= {one["toolCallId"]: json.loads(one["content"]) for one in told}
                assert events[-1]["type"] == "RUN_FINISHED", events[-1]
                if events[-1]["outcome"]["type"] != "interrupt":
                    return [found[name] for name in names]
                more = _GO_ON

    async def stop(self, asked: Asked, runs: asyncio.Event) -> None:
        async with self._http.stream("POST", "/agui", json=_run((asked,), uuid4().hex, {})):
            await runs.wait()  # closing the connection stops the run


def _run(calls: tuple[Asked, ...], thread: str, more: dict[str, Any]) -> dict[str, Any]:
    message = {"id": "1", "role": "user", "content": script(calls)}
    return {"threadId": thread, "runId": uuid4().hex, "messages": [message], **more}


@asynccontextmanager
async def open_agui(gateway: RunningGateway) -> AsyncIterator[AguiDoor]:
    async with http_client(gateway) as http:
        yield AguiDoor(http)
