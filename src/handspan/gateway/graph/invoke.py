"""`invoke`: one request, one answer (graph.md 4)."""

import asyncio
from typing import Final

import msgspec

from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.asking import body_of
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.runs import GraphClient, RunState
from handspan.gateway.graph.state import state_of
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.refusals import Refusal
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import GraphMessage, InvokeAnswer
from handspan.wire.graph.requests import Asked

LONGEST: Final = 280.0
"""Seconds: clients give up after 300."""


_ENCODER: Final = msgspec.json.Encoder()


class Collected:
    """An `Out` that keeps the messages."""

    streams = False

    def __init__(self) -> None:
        self.messages: list[GraphMessage] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Nothing to do: the answer says it."""

    def message(self, message: GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """Keep it."""
        self.messages.append(message)

    def update(self, data: JsonObject) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""


async def invoke(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> msgspec.Raw:
    """What came of it, when the run has ended or waits for the client."""
    body = await body_of(request)
    key = request.headers.get("idempotency-key", "")[:200]
    if key:
        answer = await doors.answers.answer(
            client.id,
            key,
            fingerprint(body),
            lambda: _begin(doors, client, graph.read_asked(body)),  # a body that can't be read does not use up its key
        )
        return msgspec.Raw(answer)
    asked, out = graph.read_asked(body), Collected()
    running = asyncio.create_task(doors.runs.run(client, asked, out))
    return msgspec.Raw(await _answer(doors, client, asked, out, running))


async def _begin(doors: GraphDoors, client: GraphClient, asked: Asked) -> bytes:
    out = Collected()
    return await _answer(doors, client, asked, out, asyncio.create_task(doors.runs.run(client, asked, out)))


async def _answer(
    doors: GraphDoors, client: GraphClient, asked: Asked, out: Collected, running: asyncio.Task[RunState]
) -> bytes:
    """The answer of a run that has begun. The run goes on if the client goes, or waits too long."""
    doors.runs.keep(running)
    await asyncio.wait([running], timeout=LONGEST)
    if not running.done():
        text = "The run is still at work: look into its thread later (/v1/threads/…/messages), or stop it."
        raise Refusal(504, "GRAPH_TIMEOUT", text)
    meta = running.result().meta
    if asked.response_granularity == "low":
        return _ENCODER.encode(InvokeAnswer(messages=out.messages, meta=meta))
    state = await state_of(doors, client, meta.thread_id)
    is_full = asked.response_granularity == "full"
    answer = InvokeAnswer(messages=out.messages, state=state if is_full else None, context=state.context, meta=meta)
    return _ENCODER.encode(answer)
