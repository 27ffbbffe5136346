"""Questions of tools to a program: its callback answers them (SPEC P2, P5, P6)."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from handspan.agent.final_answer import FINAL_ANSWER
from handspan.core.bus import Bus, QuestionEnded, QuestionOpened
from handspan.core.errors import ErrorCode, InvalidAnswer, ToolError
from handspan.core.question_checks import check_answer
from handspan.core.questions import Answer, Opened, Question, QuestionKind, ignore_opened

AnswerQuestion: TypeAlias = Callable[[Question], Answer | bool | Awaitable[Answer | bool]]
"""Answers one question: True for yes, False for no, or an `Answer`. A plain function runs on a thread."""

_CODES: dict[QuestionKind, ErrorCode] = {"permission": "permission_denied", "approval": "approval_denied"}
_log = logging.getLogger(__name__)


class CallbackQuestions:
    """Asks the program's callback. Without a callback it refuses every question."""

    def __init__(self, callback: AnswerQuestion | None, bus: Bus) -> None:
        """`bus` gets an event for each question, so that `stream` shows it."""
        self._callback = callback
        self._bus = bus

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return the callback's answer; `expired` after the question's time. Raises `ToolError` when none fits."""
        if question.tool == FINAL_ANSWER:  # the program itself has asked for this answer
            return Answer("allow")
        if self._callback is None:
            raise _refusal(question, "this program answers no questions. Give Handspan a callback: questions=…")
        opened()
        self._bus.publish(QuestionOpened(question.owner, question))
        answer = None
        try:
            async with asyncio.timeout(question.expires_in):
                answer = await self._answer(self._callback, question)
        except TimeoutError:
            answer = Answer("expired")
        finally:
            about = (question.owner, question.session, question.call_id, question.id, question.kind)
            self._bus.publish(QuestionEnded(*about, None if answer is None else answer.decision))
        return answer

    async def _answer(self, callback: AnswerQuestion, question: Question) -> Answer:
        """Return the answer of the program's callback. Raises a refusal for everything that is no valid answer."""
        try:
            answer = await _call(callback, question)
        except (Exception, SystemExit) as error:  # the program's own code: it must not end the event loop
            _log.exception("The callback for questions failed")
            raise _refusal(question, f"the callback for questions failed ({type(error).__name__}: {error})") from error
        if isinstance(answer, bool):
            answer = Answer("allow" if answer else "deny")
        if not isinstance(answer, Answer):
            raise _refusal(question, f"the callback for questions gave {answer!r}: return True, False or an Answer")
        try:
            check_answer(question, answer)
        except InvalidAnswer as error:
            raise _refusal(question, str(error)) from None
        return answer


async def _call(callback: AnswerQuestion, question: Question) -> object:
    if inspect.iscoroutinefunction(callback):
        return await callback(question)
    answer = await asyncio.to_thread(callback, question)
    return await answer if inspect.isawaitable(answer) else answer


def _refusal(question: Question, reason: str) -> ToolError:
    text = f"The tool {question.tool!r} asks a person ({question.kind}: {question.subject}), but {reason}"
    return ToolError(_CODES.get(question.kind, "question_expired"), f"{text.removesuffix('.')}.")
