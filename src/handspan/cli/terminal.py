"""Questions to the person at this terminal (SPEC P2, P5, P6)."""

import asyncio
import contextlib
import sys
import termios
from typing import Final, TextIO

from handspan.cli.question_text import prompt_for_value, read_value, render_question
from handspan.core.errors import InvalidAnswer
from handspan.core.question_checks import check_answer
from handspan.core.questions import Answer, Question, Questions
from handspan.core.values import strip_invisible
from handspan.engine.questions import RuleAnswers

_ANSWERS: Final = {
    "y": Answer("allow"),
    "a": Answer("allow", always=True),
    "n": Answer("deny"),
    "never": Answer("deny_forever", how_to_enable="the settings of this gateway"),
}
_ONCE: Final = {"y": _ANSWERS["y"], "n": _ANSWERS["n"]}


def questions_for(yes: bool) -> Questions:
    """What answers: the rule that --yes is, the person at the terminal, or a rule that leaves it unanswered."""
    if yes:
        return RuleAnswers(Answer("allow"))
    if sys.stdin.isatty() and sys.stderr.isatty():
        return TerminalQuestions(sys.stdin, sys.stderr)
    return RuleAnswers(Answer("expired"))


async def ask_here(question: Question, questions: Questions) -> Answer:
    """What the person here answers. No answer is a no: the command waits for no other person."""
    answer = await questions.ask(question)
    return Answer("deny") if answer is None or answer.decision == "expired" else answer


class TerminalQuestions:
    """Asks on a terminal, one question after another."""

    def __init__(self, read_from: TextIO, write_to: TextIO) -> None:
        self._read_from = read_from
        self._write_to = write_to
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """What the person types; `expired` when they type nothing in time."""
        async with self._one_at_a_time:
            self._forget_typed()
            self._write_to.write(render_question(question))
            try:
                async with asyncio.timeout(question.expires_in):
                    return await (
                        self._read_answer(question) if question.schema is None else self._read_value(question)
                    )
            except TimeoutError:
                self._write_to.write("\n(no answer: the call is refused)\n")
                return Answer("expired")

    async def _read_answer(self, question: Question) -> Answer:
        is_login = question.kind == "login"  # it is about this once
        answers, prompt = (_ONCE, "  [y]es, [n]o? ") if is_login else (_ANSWERS, "  [y]es, [a]lways, [n]o, never? ")
        while True:
            line = await self._prompt(prompt)
            if not line:
                return Answer("deny")
            answer = answers.get(line.strip().lower()) or answers.get(line.strip().lower()[:1])
            if answer is not None:
                return answer

    async def _read_value(self, question: Question) -> Answer:
        """What the person types, until it fits."""
        while typed := (await self._prompt(prompt_for_value(question))).strip():
            try:
                answer = Answer("allow", value=read_value(question, typed))
                check_answer(question, answer)
                return answer
            except InvalidAnswer as error:
                self._write_to.write(f"  {strip_invisible(str(error))}\n")
        return Answer("deny")

    async def _prompt(self, prompt: str) -> str:
        """The line that is typed; empty at the end of the input."""
        self._write_to.write(prompt)
        self._write_to.flush()
        return await self._line()

    def _forget_typed(self) -> None:
        """What was typed before the question is no answer to it."""
        if self._read_from.isatty():
            with contextlib.suppress(termios.error):
                termios.tcflush(self._read_from.fileno(), termios.TCIFLUSH)

    async def _line(self) -> str:
        """The next line. A reader that is cancelled has read nothing: a later line is there for the next reader."""
        if self._read_from.isatty():
            loop, typed = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self._read_from.fileno(), typed.set)
            try:
                await typed.wait()
            finally:
                loop.remove_reader(self._read_from.fileno())
        return self._read_from.readline()  # at a terminal a whole line is there now, or the end
