"""Questions to the people of this gateway: kept in the store, and waited for here (SPEC P3, P5; ws.md 3.8).

A call that asks waits until somebody answers, or the question's own time is over. When the gateway dies meanwhile, the
question stays; who answers it later lets the call go on in the new life. A question without a call stays open when the
source that asked is cancelled: asked again under the same id, it gives the answer that came meanwhile.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from handspan.core.bus import Bus, QuestionEnded, QuestionOpened
from handspan.core.question_checks import check_answer, check_question
from handspan.core.questions import FIRST_KINDS, Answer, Question
from handspan.core.store import QuestionBook

Asked: TypeAlias = Callable[[Question], None]
"""Lets the call of an answered question go on. Never blocks."""

_LATER: Final = 1.0
"""Seconds after which the store is asked again whether a question's time is over: its clock decides."""


class _Waiting:
    """A question that calls of this process wait for."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_kept = asyncio.Event()
        self.woken = asyncio.Event()


class AwaitedQuestions:
    """Asks people, wherever they are; the first answer wins, also across a restart."""

    def __init__(self, bus: Bus) -> None:
        """`bus` is told of every question that can be answered, and when it can't be any more."""
        self._bus = bus
        self._waiting: dict[str, _Waiting] = {}
        self._given_up: dict[str, float] = {}
        """Questions that their tools wait for no more, and when each is over in the store too."""
        self._kept: QuestionBook
        self._answered: Asked

    def open(self, kept: QuestionBook, answered: Asked) -> None:
        """Keep questions there. `answered` hears of those that nobody waits for any more: their calls have to go on."""
        self._kept = kept
        self._answered = answered

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """What this owner could answer now; `expires_in` is what is left of it."""
        found = await self._kept.open_for(owner=owner, session=session)
        return [question for question in found if question.id not in self._given_up] if self._given_up else found

    async def ask(self, question: Question) -> Answer:
        """What the person said, now or before; `expired` when nobody said anything in time.

        Raises `DefinitionError` for a question without a call that nobody could answer; the engine has checked others.
        """
        if not question.call_id:
            check_question(question)
        waiting = self._waiting.setdefault(question.id, _Waiting())  # at once: who answers now is not too early
        waiting.calls += 1
        self._given_up.pop(question.id, None)
        answer: Answer | None = None
        try:
            try:
                answer = await self._kept.ask(question)
            finally:
                waiting.is_kept.set()
            answer = answer or await self._wait(question, waiting)
            return answer
        finally:
            waiting.calls -= 1
            if not waiting.calls:
                del self._waiting[question.id]
                if answer is None and question.call_id and question.kind not in FIRST_KINDS:
                    self._give_up(question)

    async def answer(self, question_id: str, answer: Answer, *, owner: str, by: str = "") -> bool:
        """Answer a question of one's own; False when it is not open any more, or is somebody else's.

        `by` is a word of the one who answers; whoever hears that the question is over hears it too. Raises
        `InvalidAnswer` when the value does not fit; the question stays open.
        """
        waiting = self._waiting.get(question_id)
        if waiting is not None:
            await waiting.is_kept.wait()
        question = next((one for one in await self.open_for(owner=owner) if one.id == question_id), None)
        if question is None:
            return False
        check_answer(question, answer)
        if not await self._kept.answer(question_id, answer, owner=owner):
            return False
        waiting = self._waiting.get(question_id)
        self._tell_closed(question, answer, by)
        if waiting is None:
            self._answered(question)
        else:
            waiting.woken.set()
        return True

    async def _wait(self, question: Question, waiting: _Waiting) -> Answer:
        self._bus.publish(QuestionOpened(question.owner, question))
        seconds, answer = question.expires_in, None
        try:
            while answer is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await waiting.woken.wait()
                answer = await self._kept.ask(question)  # the store knows: who was told "taken" was not late
                seconds = _LATER
            return answer
        finally:
            is_given_up = answer is None and bool(question.call_id)
            if not waiting.woken.is_set() and (answer or is_given_up):  # nobody else says so
                self._tell_closed(question, answer, "")

    def _give_up(self, question: Question) -> None:
        """Take no answer for it any more: the tool that asked may run on, and the store closes it only with the call.

        A call that has not begun, and waits for a permission or for approval, ends with its question.
        """
        now = time.monotonic()
        while self._given_up and self._given_up[oldest := next(iter(self._given_up))] <= now:
            del self._given_up[oldest]
        self._given_up[question.id] = now + question.expires_in

    def _tell_closed(self, question: Question, answer: Answer | None, by: str) -> None:
        decision = None if answer is None else answer.decision
        about = (question.owner, question.session, question.call_id, question.id, question.kind)
        self._bus.publish(QuestionEnded(*about, decision, by))
