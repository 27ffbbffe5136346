"""The routes of runs: `setup`, `invoke`, `stream`, `answer`, `stop`, `fix` (graph.md 3.2, 4, 6, 7)."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from handspan.core.errors import StoreError, ToolError
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.chunks import ChunkWriter, RunLocation, error_chunk
from handspan.gateway.graph.request import GraphRequest
from handspan.gateway.graph.threads import state_of
from handspan.gateway.http.idempotency import Replays, fingerprint
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.streams import LINES, StreamedResponse
from handspan.gateway.runs.lines import LineReader, StreamLines
from handspan.wire.graph import answers as wire
from handspan.wire.graph import reading as graph
from handspan.wire.graph.requests import AnswerBody, RunRequest

ANSWER_SECONDS: Final = 280.0
"""How long `invoke` waits for its run: clients give up after 300 seconds."""
_STREAM_HEADERS: Final = {"cache-control": "no-cache, no-transform"}
_ENCODER: Final = msgspec.json.Encoder()
_T = TypeVar("_T")


async def set_up(request: GraphRequest) -> wire.SetupAnswer:
    """Store the tools that the client has."""
    offered = graph.read_setup(await request.body())
    await request.graph.tool_sets.set_up(request.client.id, offered)
    text = f"Added tools to nodes: {sorted({tool.node_name for tool in offered})}"
    count = len({(tool.node_name, tool.name) for tool in offered})
    return wire.SetupAnswer(message=text, registered_tools=count, details=text)


class CollectedMessages:
    """Collects the messages of a run for one answer. Implements `RunOutput`."""

    streams = False

    def __init__(self) -> None:
        self.messages: list[wire.GraphMessage] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Do nothing: the answer names the thread and the run."""

    def message(self, message: wire.GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """Add the message."""
        self.messages.append(message)

    def update(self, data: JsonObject) -> None:
        """Do nothing."""

    def question(self, data: JsonObject) -> None:
        """Do nothing: one answer at the end brings no question in time."""

    def end(self) -> None:
        """Do nothing."""


async def invoke(request: GraphRequest) -> msgspec.Raw:
    """Return the answer of a run, once the run has ended or waits for the client."""
    body = await request.body()
    answer = await _replay(request, request.graph.answers, body, partial(_answer, request))
    return msgspec.Raw(answer)


async def _replay(
    request: GraphRequest, replays: Replays[_T], body: bytes, begin: Callable[[RunRequest], Awaitable[_T]]
) -> _T:
    """Return the answer to this request, which may have come before under its key."""
    # The body is read in the lambda: a wrong one does not use up its key.
    return await replays.answer(
        request.client.id, _key(request), fingerprint(body), lambda: begin(graph.read_run_request(body))
    )


def _key(request: GraphRequest) -> str:
    return request.asgi.headers.get("idempotency-key", "")[:200]


async def _answer(request: GraphRequest, run_request: RunRequest) -> bytes:
    """Begin a run and return its answer. The run goes on when the client disconnects or the answer takes too long."""
    runs, out = request.graph.runs, CollectedMessages()
    running = asyncio.create_task(runs.run(request.client, run_request, out))
    runs.hold(running)
    await asyncio.wait([running], timeout=ANSWER_SECONDS)
    if not running.done():
        text = "The run is still at work: look into its thread later (/v1/threads/…/messages), or stop it."
        raise Refusal(504, "GRAPH_TIMEOUT", text)
    meta = running.result()
    if run_request.response_granularity == "low":
        return _ENCODER.encode(wire.InvokeAnswer(messages=out.messages, meta=meta))
    state = await state_of(request.graph, request.client, meta.thread_id)
    is_full = run_request.response_granularity == "full"
    answer = wire.InvokeAnswer(
        messages=out.messages, state=state if is_full else None, context=state.context, meta=meta
    )
    return _ENCODER.encode(answer)


async def stream(request: GraphRequest) -> AsgiResponse:
    """Return the events of a run as lines of JSON. An error before the first line is an ordinary answer."""
    place = RunLocation()
    token = request.asgi.scope["state"]["admitted"].token
    lines = request.graph.open_streams.open(token, partial(error_chunk, place=place))
    body = await request.body()
    lines.raise_error()
    begin = partial(_begin_stream, request, lines, place)
    stored = await _replay(request, request.graph.streams, body, begin)
    return StreamedResponse(LineReader(stored), LINES, _STREAM_HEADERS, piece_seconds=None)


async def _begin_stream(
    request: GraphRequest, lines: StreamLines, place: RunLocation, run_request: RunRequest
) -> StreamLines:
    """Start the run, and return its lines when the first one has come. Raises the error that came instead."""
    request.graph.runs.start(_run_stream(request, lines, place, run_request))
    await lines.wait_for_first()
    return lines


async def _run_stream(request: GraphRequest, lines: StreamLines, place: RunLocation, run_request: RunRequest) -> None:
    """Run the request and write its chunks, to the last one."""
    client, granularity = request.client, run_request.response_granularity
    chunks = ChunkWriter(granularity, lines.put, place=place, questions=run_request.questions)
    try:
        meta = await request.graph.runs.run(client, run_request, chunks)
        chunks.finish(meta, await state_of(request.graph, client, meta.thread_id) if chunks.wants_state else None)
    except Exception as error:  # any error: the reader gets it, and then the end
        if chunks.has_begun:
            chunks.fail(error)
        else:
            lines.refuse(error)
        if isinstance(error, StoreError):
            request.graph.streams.forget(client.id, _key(request))  # the same request may then run again (graph.md 5.6)
    finally:
        lines.end()


async def stop(request: GraphRequest) -> wire.StopAnswer:
    """End the run of a thread, at work or suspended."""
    thread = graph.read_stop(await request.body())
    was_running = await request.graph.runs.stop(request.client, thread)
    reason = "stopped" if was_running else "not-running"
    text = "The run was stopped." if was_running else "Nothing runs in this thread."
    return wire.StopAnswer(message=text, thread_id=thread, running=was_running, reason=reason)


async def answer(request: GraphRequest) -> wire.AnswerTaken:
    """Answer a question of the client's owner. The first answer counts."""
    body = await request.read(AnswerBody)
    given = Answer(body.decision, body.always, body.arguments, value=body.value, reason=body.reason)
    is_taken = await request.parts.questions.answer(body.question_id, given, person(request.client.who))
    text = "The answer counts." if is_taken else "The question is not open: it was answered, or its time is over."
    return wire.AnswerTaken(message=text, question_id=body.question_id, accepted=is_taken)


async def fix(request: GraphRequest) -> wire.FixAnswer:
    """Close the open calls of a thread: no client will answer them."""
    thread = graph.read_stop(await request.body())
    if request.parts.sessions.state(thread, request.owner) is not None:
        text = "A run is at work in this thread: stop it, or wait for its end."
        return wire.FixAnswer(message=text, removed_count=0, state=await _state(request, thread))
    waiting = await request.store.ledger.open_calls(owner=request.owner, session=thread)  # of every client
    count = sum(record.tool.answered_by == "request" for record in waiting)
    closed = count if await request.graph.runs.stop(request.client, thread) else 0
    state = await _state(request, thread)
    return wire.FixAnswer(message=f"Closed {closed} open calls.", removed_count=closed, state=state)


async def _state(request: GraphRequest, thread: str) -> wire.GraphState | None:
    """Return the state of the thread. None: the owner has no such thread."""
    try:
        return await state_of(request.graph, request.client, thread)
    except ToolError as error:
        if error.code == "file_not_found":
            return None
        raise
