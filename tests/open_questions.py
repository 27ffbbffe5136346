"""Questions in memory, for tests of the engine alone (SPEC P3, P5)."""

import asyncio

from handspan.core.question_checks import check_answer
from handspan.core.questions import Answer, Opened, Question, ignore_opened


class OpenQuestions:
    """Questions in memory. Each waits until it expires; the first answer wins (P3, P5)."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    def open_for(self, owner: str) -> list[Question]:
        """Return the open questions of this owner."""
        return [question for question, _ in self._open.values() if question.owner == owner]

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return the answer; `expired` when none came. A second caller with this question gets the same answer."""
        _, answer = self._open.get(question.id, (question, None))
        if answer is not None:
            opened()
            return await asyncio.shield(answer)
        answer = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, answer)
        opened()
        try:
            async with asyncio.timeout(question.expires_in):
                return await asyncio.shield(answer)
        except TimeoutError:
            # An answer that came at the same moment counts: the method `answer` has returned True for it.
            return answer.result() if answer.done() else Answer("expired")
        finally:
            del self._open[question.id]
            if not answer.done():
                answer.set_result(Answer("expired"))

    def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        """Answer a question of this owner. Return False when this owner has no such open question.

        Raises `InvalidAnswer` when the value does not fit the question, which then stays open.
        """
        question, waiting = self._open.get(question_id, (None, None))
        if question is None or waiting is None or question.owner != owner or waiting.done():
            return False
        check_answer(question, answer)
        waiting.set_result(answer)
        return True
