"""Questions to the person at this terminal (SPEC P2, P5)."""

import asyncio
import contextlib
import sys
import termios
from typing import Final, TextIO

import msgspec

from handspan.core.clean import visible
from handspan.core.questions import Answer, Question, Questions
from handspan.engine.asking import RuleAnswers

_ANSWERS: Final = {
    "y": Answer("allow"),
    "a": Answer("allow", always=True),
    "n": Answer("deny"),
    "never": Answer("deny_forever", how_to_enable="the settings of this gateway"),
}


def questions_for(yes: bool) -> Questions:
    """Who answers: the rule that --yes is, the person at the terminal, or nobody."""
    if yes:
        return RuleAnswers(Answer("allow"))
    if sys.stdin.isatty() and sys.stderr.isatty():
        return TerminalQuestions(sys.stdin, sys.stderr)
    return RuleAnswers(Answer("expired"))


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
            self._write_to.write(_worded(question))
            try:
                async with asyncio.timeout(question.expires_in):
                    return await self._read_answer()
            except TimeoutError:
                self._write_to.write("\n(no answer: the call is refused)\n")
                return Answer("expired")

    async def _read_answer(self) -> Answer:
        while True:
            self._write_to.write("  [y]es, [a]lways, [n]o, never? ")
            self._write_to.flush()
            line = await self._line()
            if not line:
                return Answer("deny")
            answer = _ANSWERS.get(line.strip().lower()) or _ANSWERS.get(line.strip().lower()[:1])
            if answer is not None:
                return answer

    def _forget_typed(self) -> None:
        """What was typed before the question is no answer to it."""
        if self._read_from.isatty():
            with contextlib.suppress(termios.error):
                termios.tcflush(self._read_from.fileno(), termios.TCIFLUSH)

    async def _line(self) -> str:
        """The next line. Who is cancelled has read nothing: a later line is still there for whoever comes next."""
        if self._read_from.isatty():
            loop, typed = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self._read_from.fileno(), typed.set)
            try:
                await typed.wait()
            finally:
                loop.remove_reader(self._read_from.fileno())
        return self._read_from.readline()  # at a terminal a whole line is there now, or the end


def _worded(question: Question) -> str:
    arguments = msgspec.json.encode(question.arguments).decode() if question.arguments else ""
    shown = arguments if len(arguments) <= 1000 else f"{arguments[:1000]}… ({len(arguments)} characters)"
    tool = visible(f"{question.tool} {shown}".strip())  # a model's or a client's words must not steer the terminal
    if question.kind == "permission":
        return f"\n{tool}\nneeds the permission {question.subject!r}. Grant it?\n"
    return f"\n{tool}\n{visible(question.subject)} Run it?\n"
