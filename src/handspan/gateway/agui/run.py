"""`POST /agui` and `/agui/{agent}`: a run and its stream, from its request to its end (SPEC F4)."""

import asyncio
import contextlib
import logging
from typing import Final

from msgspec import UnsetType

from handspan.agent.result_marks import render_envelope
from handspan.core.events import Ended
from handspan.core.messages import UserMessage
from handspan.core.question_rights import person
from handspan.core.questions import Question
from handspan.gateway.agui.chat_request import read_chat_request
from handspan.gateway.agui.client_thread import ClientThread
from handspan.gateway.agui.envelope import error_line, refusal_of
from handspan.gateway.agui.interrupts import open_questions, read_answers
from handspan.gateway.agui.request import AguiRequest
from handspan.gateway.agui.teller import AguiTeller
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal, log_own_fault
from handspan.gateway.http.streams import EVENTS, HEARTBEAT_SECONDS, StreamedResponse
from handspan.gateway.runs.asked import calls_of
from handspan.gateway.runs.chats import ChatEnd, ChatRequest
from handspan.gateway.runs.entries import persons_messages
from handspan.gateway.runs.lines import LineReader, StreamLines
from handspan.gateway.runs.question_lines import page_address
from handspan.gateway.runs.runs import RunPlace
from handspan.wire.agui.run_input import RunInput, read_run_input

_HEADERS: Final = {"cache-control": "no-cache, no-transform"}
_FIRST_SECONDS: Final = 5.0
"""How long a stream waits for its first event, so that an error before it is an ordinary answer."""
_GATHER_SECONDS: Final = 0.5
"""How long a question waits for other calls of its round, which may end or ask, too: one interrupt has them all."""
_log = logging.getLogger(__name__)


async def begin_run(request: AguiRequest) -> AsgiResponse:
    """Return the stream of a run: a new one, or the same again under the client's key."""
    raw = await request.body()
    given = read_run_input(raw)
    chat = await read_chat_request(request, given)
    began: list[AguiRun] = []

    async def begin() -> StreamLines:
        lines = request.door.open_streams.open(request.token, error_line)
        began.append(AguiRun(request, given, chat, lines))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await lines.wait_for_first()
        began[-1].is_open = True
        return lines

    key = f"{request.agent}:{request.idempotency_key}" if request.idempotency_key else ""
    lines = await request.door.streams.answer(request.client.id, key, fingerprint(raw), begin)
    return StreamedResponse(
        LineReader(lines),
        EVENTS,
        _HEADERS,
        heartbeat=HEARTBEAT_SECONDS,
        on_leave=began[0].leave if began else None,
    )


class AguiRun:
    """The run of one request. It is stopped when the client closes the connection, the cancel of this protocol."""

    def __init__(self, request: AguiRequest, given: RunInput, chat: ChatRequest, lines: StreamLines) -> None:
        self._request, self._given, self._chat, self._lines = request, given, chat, lines
        self._chats, self._client, self._parts = request.door.chats, request.client, request.parts
        self._session = self._chats.session_for(self._client, chat)
        self._thread = ClientThread(self._session, given.sent, persons_messages(chat.entries))
        page = page_address(self._parts.settings.gateway, request.asgi)
        self._teller = AguiTeller(lines.put, given, self._thread, who=self._client.who, page=page)
        self.is_open = False
        """Whether the response has begun: from then on, an error is an event of the stream."""
        self._is_at_work = self._is_left = self._is_joined = False
        self._parts.runs().start(self._run())

    def leave(self) -> None:
        """Stop the run: the client is gone. A client with a key for its request can come back, so its run goes on."""
        if self._teller.is_over or self._request.idempotency_key:
            return
        self._is_left = True
        if self._is_at_work:
            self._parts.runs().start(self._parts.sessions.abort_anywhere(self._session, self._client.owner))

    async def _run(self) -> None:
        """Run the request, and write its stream to the last event."""
        asking = asyncio.create_task(self._watch())
        try:
            if self._given.resume or not await self._ask_again():
                end = await self._run_chat()
                if end.ended.reason == "error":
                    self._teller.fail(_failure(end.ended))
                elif not self._teller.is_over:
                    if self._is_joined:  # results may have come before this request heard of the run
                        self._teller.tell_missed(await self._chats.look(self._client, end.session))
                    self._teller.finish(end)
        except Exception as error:  # any error: the client gets it
            self._fail(error)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            self._lines.end()

    async def _run_chat(self) -> ChatEnd:
        """Say what is new, or go on with the turn that waits: the same messages again then ask for nothing else."""
        says = self._chat.entries and isinstance(self._chat.entries[-1], UserMessage)
        if self._given.resume and not says:
            end = await self._chats.follow(self._client, self._chat, self._listen, also_over=True)
            if end is not None:
                return end
        return await self._chats.run(self._client, self._chat, self._listen)

    def _fail(self, error: Exception) -> None:
        if not self.is_open and not self._teller.has_begun:
            self._lines.refuse(error)
            return
        refusal = refusal_of(error)
        log_own_fault(_log, "A run of AG-UI failed", error, refusal)
        self._teller.fail(refusal)

    async def _listen(self, place: RunPlace) -> AguiTeller:
        """Return the listener of the run, once the answers of the client are given."""
        if self._is_left:
            raise Refusal(499, "client_gone", "The client has closed the connection.")
        if self._is_at_work:
            return self._teller
        questions = await open_questions(self._request, place.session) if self._given.resume else []
        answers = read_answers(questions, self._client.who, self._given.resume or ())
        messages = await self._chats.look(self._client, place.session) if place.resumes else ()
        session = self._parts.sessions.find(place.session, self._client.owner)
        self._is_at_work = True
        self._teller.join(None if session is None else session.conversation)
        self._is_joined = place.resumes
        if place.resumes:
            self._teller.show(messages)
        self._teller.note_open({one.call_id: one.id for one in questions if one.id not in answers})
        for question_id, answer in answers.items():  # the last step: no event of the call may be missed
            await self._parts.questions.answer(question_id, answer, person(self._client.who))
        return self._teller

    # Questions: the stream ends with them, and the run waits for their answers.

    async def _ask_again(self) -> bool:
        """End the stream with the questions that are open, and say nothing new. Return False when there are none."""
        questions = await open_questions(self._request, self._session)
        if questions:
            self._teller.show(await self._chats.look(self._client, self._session))
            await self._interrupt(questions)
        return bool(questions)

    async def _watch(self) -> None:
        """Watch the questions; the client is told what fails there."""
        try:
            await self._watch_questions()
        except Exception as error:  # any error: the stream would stay open without a word
            self._fail(error)
            self._lines.end()

    async def _watch_questions(self) -> None:
        """End the stream when the run can't go on without an answer."""
        while not self._teller.is_over:
            await self._teller.asks.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GATHER_SECONDS):
                    await self._teller.only_asks.wait()
            questions = await open_questions(self._request, self._session)
            if questions:
                await self._interrupt(questions)
            else:
                self._teller.note_open({})

    async def _interrupt(self, questions: list[Question]) -> None:
        messages = await self._chats.look(self._client, self._session)
        for call in calls_of(messages[-1] if messages else None):
            record = await self._parts.store.ledger.find(call.id)
            if record is not None and not isinstance(record.result, UnsetType):
                self._thread.add_result(call.id, render_envelope(record.result))
        if not self._teller.is_over:
            self._teller.interrupt(questions, messages)
            self._lines.end()


def _failure(ended: Ended) -> Refusal:
    """Return why a run has failed, in words of the gateway's own."""
    code = "run_failed" if isinstance(ended.fault, UnsetType) else ended.fault.code
    return Refusal(502, code, ended.text or "The run failed.")
