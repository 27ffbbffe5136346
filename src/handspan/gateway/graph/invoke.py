"""The routes of runs: `setup`, `invoke`, `stream`, `answer`, `stop`, `fix` (graph.md 3.2, 4, 6, 7)."""

import asyncio
from typing import Final

import msgspec

from handspan.core.errors import InvalidAnswer, StoreError, ToolError
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.chunks import ChunkWriter
from handspan.gateway.graph.envelope import read_body_bytes
from handspan.gateway.graph.lines import LineReader, StreamLines
from handspan.gateway.graph.parts import GraphParts
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.graph.threads import state_of
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.streams import LINES, StreamedResponse
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import (
    AnswerTaken,
    FixAnswer,
    GraphMessage,
    GraphState,
    InvokeAnswer,
    SetupAnswer,
    StopAnswer,
)
from handspan.wire.graph.reading import read_body
from handspan.wire.graph.requests import AnswerBody, RunRequest

ANSWER_SECONDS: Final = 280.0
"""How long `invoke` waits for its run: clients give up after 300 seconds."""
_STREAM_HEADERS: Final = {"cache-control": "no-cache, no-transform"}
_ENCODER: Final = msgspec.json.Encoder()


async def set_up(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> SetupAnswer:
    """Store the tools that the client has."""
    offered = graph.read_setup(await read_body_bytes(request))
    await parts.tool_sets.set_up(client.id, offered)
    text = f"Added tools to nodes: {sorted({tool.node_name for tool in offered})}"
    count = len({(tool.node_name, tool.name) for tool in offered})
    return SetupAnswer(message=text, registered_tools=count, details=text)


class CollectedMessages:
    """Collects the messages of a run for one answer. Implements `RunOutput`."""

    streams = False

    def __init__(self) -> None:
        self.messages: list[GraphMessage] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Do nothing: the answer names the thread and the run."""

    def message(self, message: GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """Add the message."""
        self.messages.append(message)

    def update(self, data: JsonObject) -> None:
        """Do nothing."""

    def question(self, data: JsonObject) -> None:
        """Do nothing: one answer at the end brings no question in time."""

    def end(self) -> None:
        """Do nothing."""


async def invoke(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> msgspec.Raw:
    """Return the answer of a run, once the run has ended or waits for the client."""
    body = await read_body_bytes(request)
    key = request.headers.get("idempotency-key", "")[:200]
    if not key:
        return msgspec.Raw(await _answer(parts, client, graph.read_run_request(body)))
    answer = await parts.answers.answer(
        client.id,
        key,
        fingerprint(body),
        # The body is read in here: a wrong one does not use up its key.
        lambda: _answer(parts, client, graph.read_run_request(body)),
    )
    return msgspec.Raw(answer)


async def _answer(parts: GraphParts, client: GraphClient, run_request: RunRequest) -> bytes:
    """Begin a run and return its answer. The run goes on when the client disconnects or the answer takes too long."""
    out = CollectedMessages()
    running = asyncio.create_task(parts.runs.run(client, run_request, out))
    parts.runs.hold(running)
    await asyncio.wait([running], timeout=ANSWER_SECONDS)
    if not running.done():
        text = "The run is still at work: look into its thread later (/v1/threads/…/messages), or stop it."
        raise Refusal(504, "GRAPH_TIMEOUT", text)
    meta = running.result().meta
    if run_request.response_granularity == "low":
        return _ENCODER.encode(InvokeAnswer(messages=out.messages, meta=meta))
    state = await state_of(parts, client, meta.thread_id)
    is_full = run_request.response_granularity == "full"
    answer = InvokeAnswer(messages=out.messages, state=state if is_full else None, context=state.context, meta=meta)
    return _ENCODER.encode(answer)


async def stream(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> AsgiResponse:
    """Return the events of a run as lines of JSON. An error before the first line is an ordinary answer."""
    lines = parts.open_streams.open(request.scope["state"]["admitted"].token)
    body = await read_body_bytes(request)
    lines.raise_error()
    key = request.headers.get("idempotency-key", "")[:200]
    stored = await parts.streams.answer(
        client.id,
        key,
        fingerprint(body),
        lambda: _begin_stream(parts, client, graph.read_run_request(body), lines, key),
    )
    return StreamedResponse(LineReader(stored), LINES, _STREAM_HEADERS, piece_seconds=None)


async def _begin_stream(
    parts: GraphParts, client: GraphClient, run_request: RunRequest, lines: StreamLines, key: str
) -> StreamLines:
    """Start the run, and return its lines when the first one has come. Raises the error that came instead."""
    parts.runs.start(_run_stream(parts, client, run_request, lines, key))
    await lines.wait_for_first()
    return lines


async def _run_stream(
    parts: GraphParts, client: GraphClient, run_request: RunRequest, lines: StreamLines, key: str
) -> None:
    """Run the request and write its chunks, to the last one."""
    granularity = run_request.response_granularity
    chunks = ChunkWriter(granularity, lines.put, place=lines.place, questions=run_request.questions)
    try:
        run = await parts.runs.run(client, run_request, chunks)
        chunks.finish(run, await state_of(parts, client, run.meta.thread_id) if chunks.wants_state else None)
    except Exception as error:  # any error: the reader gets it, and then the end
        if chunks.has_begun:
            chunks.fail(error)
        else:
            lines.error = error
        if isinstance(error, StoreError):
            parts.streams.forget(client.id, key)  # the same request may then run again (graph.md 5.6)
    finally:
        lines.end()


async def stop(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> StopAnswer:
    """End the run of a thread, at work or suspended."""
    thread = graph.read_stop(await read_body_bytes(request))
    was_running = await parts.runs.stop(client, thread)
    reason = "stopped" if was_running else "not-running"
    text = "The run was stopped." if was_running else "Nothing runs in this thread."
    return StopAnswer(message=text, thread_id=thread, running=was_running, reason=reason)


async def answer(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> AnswerTaken:
    """Answer a question of the client's owner. The first answer counts."""
    body = read_body(await read_body_bytes(request), AnswerBody)
    given = Answer(body.decision, body.always, body.arguments, value=body.value, reason=body.reason)
    try:
        is_taken = await parts.gateway.questions.answer(body.question_id, given, person(client.who))
    except InvalidAnswer as error:
        raise Refusal(422, "VALIDATION_ERROR", str(error)) from None
    text = "The answer counts." if is_taken else "The question is not open: it was answered, or its time is over."
    return AnswerTaken(message=text, question_id=body.question_id, accepted=is_taken)


async def fix(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> FixAnswer:
    """Close the open calls of a thread: no client will answer them."""
    thread = graph.read_stop(await read_body_bytes(request))
    if parts.gateway.sessions.state(thread, client.who.owner) is not None:
        text = "A run is at work in this thread: stop it, or wait for its end."
        return FixAnswer(message=text, removed_count=0, state=await _state(parts, client, thread))
    waiting = await parts.gateway.store.ledger.open_calls(owner=client.who.owner, session=thread)  # of every client
    count = sum(record.tool.answered_by == "request" for record in waiting)
    closed = count if await parts.runs.stop(client, thread) else 0
    state = await _state(parts, client, thread)
    return FixAnswer(message=f"Closed {closed} open calls.", removed_count=closed, state=state)


async def _state(parts: GraphParts, client: GraphClient, thread: str) -> GraphState | None:
    """Return the state of the thread. None: the owner has no such thread."""
    try:
        return await state_of(parts, client, thread)
    except ToolError as error:
        if error.code == "file_not_found":
            return None
        raise
