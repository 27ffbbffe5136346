"""The open questions of the gateway: stored, and their answers waited for (SPEC P3, P5; ws.md 3.8).

A call that asks waits until a person answers or the question expires. If the gateway stops or dies meanwhile, the
question stays open: an answer to the next process resumes the call. A question without a call stays open when the
source that asked is cancelled; asked again under the same id, it returns the answer that came meanwhile.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from handspan.core.bus import LoginRequested, QuestionEnded, QuestionOpened
from handspan.core.errors import InvalidAnswer
from handspan.core.nodes import Nodes
from handspan.core.question_checks import check_answer, check_question, clean_question
from handspan.core.question_rights import AnsweringClient
from handspan.core.questions import FIRST_KINDS, Answer, Opened, Question, ignore_opened
from handspan.core.store import QuestionBook
from handspan.core.tasks import wait_for
from handspan.engine.questions import AnswerComesLater

ResumeCall: TypeAlias = Callable[[Question], None]
"""Resumes the call of an answered question. Never blocks."""
CanHandOver: TypeAlias = Callable[[str], bool]
"""Whether the call of this id can wait for its answer without this process."""

_CHECK_SECONDS: Final = 1.0
"""Seconds between two checks whether a question has expired in the store: the store's clock decides."""


class _Waiting(Struct):
    """A question for which calls of this process wait."""

    calls: int = 0
    """How many calls wait."""
    is_stored: asyncio.Event = field(default_factory=asyncio.Event)
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the calls have to look at the question again."""
    is_answered: bool = False
    """Whether a person has answered here, or the question was withdrawn: its end is published."""
    is_withdrawn: bool = False


class AwaitedQuestions:
    """Asks people over all their clients. The first answer counts, also across a restart."""

    def __init__(self, nodes: Nodes, book: QuestionBook, resume: ResumeCall) -> None:
        """All nodes learn when a question can be answered, and when it no longer can.

        `book` stores the questions. `resume` gets each answered question whose call no longer waits here.
        """
        self._nodes = nodes
        self._bus = nodes.bus
        self._book = book
        self._resume = resume
        self._waiting: dict[str, _Waiting] = {}
        self._given_up: dict[str, float] = {}
        """Questions whose tools were cancelled, and when each expires in the store too."""
        self._can_hand_over: CanHandOver = lambda _: False
        self._stops = False

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """Return all open questions of this owner; `expires_in` is the time that is left."""
        found = await self._book.open_for(owner=owner, session=session)
        return [question for question in found if question.id not in self._given_up] if self._given_up else found

    async def visible_to(self, answerer: AnsweringClient, session: str | None = None) -> Sequence[Question]:
        """Return the questions that this client may see and answer now."""
        found = await self.open_for(owner=answerer.owner, session=session)
        return [question for question in found if answerer.may_answer(question)]

    def hand_over(self, can_hand_over: CanHandOver) -> None:
        """Let calls wait without this process, now and from now on: the gateway stops. Their questions stay open."""
        self._can_hand_over = can_hand_over
        self._stops = True
        for waiting in self._waiting.values():
            waiting.has_changed.set()

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return the person's answer, given now or before; `expired` without an answer in time.

        Raises `AnswerComesLater` when the call waits without this process, and `DefinitionError` for an invalid
        question without a call; the engine checks the questions of calls.
        """
        if not question.call_id:
            check_question(question)
            question = clean_question(question)
        # First: an answer may come before the question is stored.
        waiting = self._waiting.setdefault(question.id, _Waiting())
        waiting.calls += 1
        self._given_up.pop(question.id, None)
        answer: Answer | None = None
        try:
            try:
                answer = await self._book.ask(question, opened)
            finally:
                waiting.is_stored.set()
            if answer is None:
                answer = await self._wait(question, waiting)
            return answer
        finally:
            waiting.calls -= 1
            if not waiting.calls:
                del self._waiting[question.id]
                if answer is None and self._is_over_with_call(question) and question.kind not in FIRST_KINDS:
                    self._give_up(question)

    async def answer(self, question_id: str, answer: Answer, answerer: AnsweringClient, *, by: str = "") -> bool:
        """Answer a question. Return False when it is not open, or this client may not answer it.

        `by` is an id of the client that answers; the event of the question's end has it. Raises `InvalidAnswer` when
        the value or the edited arguments do not fit; the question stays open then.
        """
        waiting = self._waiting.get(question_id)
        if waiting is not None:
            await waiting.is_stored.wait()
        question = await self._find(question_id, answerer)
        if question is None:
            return False
        check_answer(question, answer)
        if not await self._book.answer(question_id, answer, owner=answerer.owner):
            return False
        waiting = self._waiting.get(question_id)
        self._publish_end(question, answer, by)
        if waiting is None:
            self._resume(question)
        else:
            waiting.is_answered = True
            waiting.has_changed.set()
        return True

    def withdraw(self, questions: Sequence[Question]) -> None:
        """End these questions: their call has its result, and the store accepts no answer to them any more."""
        for question in questions:
            waiting = self._waiting.get(question.id)
            if waiting is not None:
                waiting.is_withdrawn = waiting.is_answered = True
                waiting.has_changed.set()
            self._publish_end(question, None, "")

    async def take_back(self, question: Question) -> None:
        """End a question without a call that has no answer: the part that asked it has gone on."""
        if await self._book.take_back(question.id, owner=question.owner):
            if (waiting := self._waiting.get(question.id)) is not None:
                waiting.is_answered = True
                waiting.has_changed.set()
            self._publish_end(question, None, "")

    def wake(self, question_id: str) -> None:
        """Look for the answer of a question: another node says that there is one."""
        waiting = self._waiting.get(question_id)
        if waiting is not None:
            waiting.has_changed.set()

    async def start_login(self, question_id: str, answerer: AnsweringClient) -> bool:
        """Let the device start the login that this question asks for. The question stays open.

        Returns False when it is not open, or this client may not answer it. Raises `InvalidAnswer` for a question whose
        login no device can start.
        """
        question = await self._find(question_id, answerer)
        if question is None:
            return False
        if question.kind != "login" or question.action is None or not question.action.intent or not question.call_id:
            raise InvalidAnswer("No device can start this: do what the question says, and answer it then.")
        self._bus.publish(LoginRequested(answerer.owner, question_id, question.call_id))
        return True

    async def _find(self, question_id: str, answerer: AnsweringClient) -> Question | None:
        return next((one for one in await self.visible_to(answerer) if one.id == question_id), None)

    async def _wait(self, question: Question, waiting: _Waiting) -> Answer:
        """Publish that the question is open, and return its answer. The store decides when it has expired.

        When the wait ends without an answer, the question is over or stays open for another process (`_ends_here`).
        """
        self._bus.publish(QuestionOpened(question.owner, replace(question, parameters=None)))
        seconds, answer = question.expires_in, None
        try:
            while answer is None:
                if self._can_hand_over(question.call_id) or (self._stops and _is_of_request(question)):
                    raise AnswerComesLater
                await wait_for(min(seconds, self._nodes.poll_seconds), waiting.has_changed)
                if not waiting.is_answered:  # else each call that waits has to see it
                    waiting.has_changed.clear()
                # The store decides whether an answer was in time.
                answer = Answer("expired") if waiting.is_withdrawn else await self._book.ask(question)
                seconds = _CHECK_SECONDS
            return answer
        finally:
            if self._ends_here(question, waiting, answer):
                self._publish_end(question, answer, "")

    def _ends_here(self, question: Question, waiting: _Waiting, answer: Answer | None) -> bool:
        """Whether the end of this wait is the end of the question, and no other part has published it."""
        if waiting.is_answered:  # `answer` or `withdraw` has published it
            return False
        return answer is not None or self._is_over_with_call(question)

    def _is_over_with_call(self, question: Question) -> bool:
        """Whether the question ends when its call no longer waits here: it has a call, which can't wait elsewhere."""
        return bool(question.call_id) and not self._can_hand_over(question.call_id)

    def _give_up(self, question: Question) -> None:
        """Accept no answer to the question. The tool that asked may run on; the store closes it with the call.

        Questions for permission or approval are not given up: their calls end with them.
        """
        now = time.monotonic()
        while self._given_up and self._given_up[oldest := next(iter(self._given_up))] <= now:
            del self._given_up[oldest]
        self._given_up[question.id] = now + question.expires_in

    def _publish_end(self, question: Question, answer: Answer | None, by: str) -> None:
        decision = None if answer is None else answer.decision
        about = (question.owner, question.session, question.call_id, question.id, question.kind)
        self._bus.publish(QuestionEnded(*about, decision, by))


def _is_of_request(question: Question) -> bool:
    """Whether a request to a model of a turn waits for this question: it ends with its process."""
    return bool(question.session) and not question.call_id
