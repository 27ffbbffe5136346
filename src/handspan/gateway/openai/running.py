"""A run that a request of OpenAI's API waits for, as a whole answer or as a stream (SPEC F2, F6)."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from handspan.core.events import Ended
from handspan.core.questions import Question
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal, log_own_fault
from handspan.gateway.http.streams import EVENTS, HEARTBEAT_SECONDS, StreamedResponse
from handspan.gateway.openai.envelope import NO_RETRY, failure_of, refusal_of
from handspan.gateway.openai.request import OpenAiRequest
from handspan.gateway.openai.teller import RunTeller, Sink
from handspan.gateway.runs.chats import ChatEnd, ChatRequest
from handspan.gateway.runs.lines import LineReader, StreamLines
from handspan.gateway.runs.runs import RunPlace
from handspan.gateway.runs.usage import UsageMeter

_STREAM_HEADERS: Final = {"cache-control": "no-cache, no-transform"}
_FIRST_SECONDS: Final = 5.0
"""How long a stream waits for its first line, so that an error before it is an ordinary answer."""
_log = logging.getLogger(__name__)


class StreamSink(Sink, Protocol):
    """Writes the events of one stream."""

    def finish(self, end: ChatEnd, meter: UsageMeter, *, has_form: bool) -> None:
        """Write the last events."""

    def fail(self, refusal: Refusal) -> None:
        """Write an error, which ends the stream."""


class AtEnd(Protocol):
    """What has to be done at the end of a run, before its request is answered."""

    async def __call__(self, run: "RunningChat", end: ChatEnd | Exception) -> None:
        """Take the end of the run, or what went wrong."""


class RunningChat:
    """The run of one request. It goes on when the request ends, unless its client leaves a chat without a key."""

    def __init__(
        self, request: OpenAiRequest, chat: ChatRequest, sink: Sink, *, in_stream: bool, at_end: AtEnd | None = None
    ) -> None:
        """`at_end` is called with the end of the run, before its request is answered."""
        settings = request.parts.app.settings
        self.request, self.chat = request, chat
        self.teller = RunTeller(
            sink,
            UsageMeter(),
            page=request.page,
            tells_questions=in_stream,
            shows_activity=settings.fronts.openai.activity == "text",
            answer=chat.wishes.answer,
        )
        self.has_form = True
        """Whether the answer has the form that the client wants."""
        self.is_open = False
        """Whether the response has begun: from then on, an error is an event of the stream."""
        self.is_detached = False
        """Whether the run goes on when its client leaves, whatever chat it is."""
        self._at_end = at_end
        self._session = ""
        self._is_left = False
        self.task = request.parts.runs().start(self._run())

    async def _run(self) -> ChatEnd | Exception:
        """Return the end of the run, told to its last word; or what went wrong, which the request answers."""
        end = await self._run_to_end()
        if self._at_end is not None:
            try:
                await self._at_end(self, end)
            except Exception as error:  # any error: the client gets it
                return self._as_refusal(error)
        return end

    async def _run_to_end(self) -> ChatEnd | Exception:
        """Run the chat, and return how it ended, or the error for the client."""
        try:
            end = await self.request.door.chats.run(self.request.client, self.chat, self._listen)
        except Exception as error:  # any error: the client gets it
            return self._as_refusal(error)
        if end.ended.reason == "error":
            return failure_of(end.ended, has_run=self.teller.has_run)
        self.has_form = self.teller.finish(end)
        return end

    async def _listen(self, place: RunPlace) -> RunTeller:
        if self._is_left:
            raise Refusal(499, "client_gone", "The client has closed the connection.")
        self._session = place.session
        return self.teller

    def _as_refusal(self, error: Exception) -> Exception:
        if not self.teller.has_run:
            return error
        refusal = refusal_of(error)
        log_own_fault(_log, "A run of OpenAI's API failed", error, refusal)
        refusal.headers.update(NO_RETRY)
        return refusal

    @property
    def ends_with_client(self) -> bool:
        """Whether the run ends when the client closes its connection: it has no other way to cancel it."""
        is_brief = not self.chat.key and not self.chat.session
        return is_brief and not self.request.idempotency_key and not self.is_detached

    def leave(self) -> None:
        """Note that the client is gone."""
        if self.ends_with_client and not self.task.done():
            self._is_left = True
            if self._session:
                parts, owner = self.request.parts, self.request.client.owner
                parts.runs().start(parts.sessions.abort_anywhere(self._session, owner))

    def write(self, lines: StreamLines, sink: StreamSink) -> None:
        """Write the end of the run to its stream, when it has come."""
        self.request.parts.runs().start(self._write_end(lines, sink))

    async def _write_end(self, lines: StreamLines, sink: StreamSink) -> None:
        """Wait for the end of the run, write it into the stream, and end the stream."""
        try:
            end = await self.task
            if isinstance(end, ChatEnd):
                sink.finish(end, self.teller.meter, has_form=self.has_form)
            elif self.is_open or self.teller.has_run:
                refusal = refusal_of(end)
                log_own_fault(_log, "A run of OpenAI's API failed", end, refusal)
                sink.fail(refusal)
            else:
                lines.refuse(end)
        finally:
            lines.end()


async def wait_whole(run: RunningChat) -> ChatEnd:
    """Return the end of a run for a whole answer. Raises what went wrong.

    A question that no person answers in time ends the answer: it says where to answer, or that this was given up
    (SPEC F6).
    """
    asked = asyncio.Event()
    run.teller.on_question = asked.set
    watching = asyncio.create_task(_watch(run))
    try:
        question = await _wait_for_end(run, asked)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    if question is not None:
        if run.chat.key:
            run.teller.leave_question(question)
            run.request.door.chats.owe(run.request.client, run.chat)
        else:  # no client can ask for it later
            run.teller.give_up_question(question, run.request.parts.app.settings.fronts.wait)
            await _end_question(run, question)
        return ChatEnd("", Ended("done"))
    end = run.task.result()
    if isinstance(end, ChatEnd):
        return end
    raise end


async def _end_question(run: RunningChat, question: Question) -> None:
    questions = run.request.parts.questions
    if question.call_id:
        questions.withdraw([question])
    else:
        await questions.take_back(question)


async def _wait_for_end(run: RunningChat, asked: asyncio.Event) -> Question | None:
    """Wait for the end of the run, or for a question that stays open too long; return that question."""
    seconds = run.request.parts.app.settings.fronts.wait
    waiting = asyncio.create_task(asked.wait())
    try:
        while not run.task.done():
            question = run.teller.question
            if question is not None:
                await asyncio.wait([run.task], timeout=seconds)
                if not run.task.done() and run.teller.question is question:
                    return question
                continue
            if waiting.done():
                asked.clear()
                waiting = asyncio.create_task(asked.wait())
            await asyncio.wait([run.task, waiting], return_when=asyncio.FIRST_COMPLETED)
        return None
    finally:
        waiting.cancel()


async def _watch(run: RunningChat) -> None:
    """Tell the run when its client disconnects."""
    await run.request.asgi.wait_for_disconnect()
    run.leave()


async def stream_lines(
    request: OpenAiRequest,
    raw: bytes,
    headers: Mapping[str, str],
    begin: Callable[[], Awaitable[tuple[StreamLines, RunningChat]]],
) -> AsgiResponse:
    """Return the response of a stream: a new one, or the same again under the client's key."""
    began: list[RunningChat] = []

    async def begin_stream() -> StreamLines:
        lines, run = await begin()
        began.append(run)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await lines.wait_for_first()
        run.is_open = True
        return lines

    streams: Callable[..., Awaitable[StreamLines]] = request.door.streams.answer
    lines = await streams(request.client.id, request.idempotency_key, request.fingerprint(raw), begin_stream)
    return StreamedResponse(
        LineReader(lines),
        EVENTS,
        {**_STREAM_HEADERS, **headers},
        heartbeat=HEARTBEAT_SECONDS,
        on_leave=began[0].leave if began else None,
    )
