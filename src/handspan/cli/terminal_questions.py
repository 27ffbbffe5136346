"""Questions to the person at this terminal: how they look, and what the typed answer means (SPEC P2, P5, P6)."""

import asyncio
import contextlib
import math
import os
import shlex
import sys
import termios
import time
from collections.abc import Awaitable, Callable
from typing import Final, TextIO, TypeAlias

import msgspec

from handspan.core.errors import InvalidAnswer, WireError
from handspan.core.question_checks import check_answer, is_text, options_of
from handspan.core.questions import Answer, Opened, Question, QuestionAction, Questions, ignore_opened, is_for_money
from handspan.core.values import Json, JsonObject, escape_invisible, strip_invisible
from handspan.engine.questions import RuleAnswers
from handspan.wire import strict_json

_YES: Final = dict.fromkeys(("y", "yes"), Answer("allow"))
_NO: Final = dict.fromkeys(("n", "no"), Answer("deny"))
_ANSWERS: Final = {
    **_YES,
    **_NO,
    **dict.fromkeys(("a", "always"), Answer("allow", always=True)),
    "never": Answer("deny_forever"),
}
"""Whole words: "abort" must not count as "always"."""
_MAX_SHOWN: Final = 1000
_ONCE: Final = {**_YES, **_NO, "never": Answer("deny")}
"""The answers to a question that no rule can remember."""
_CALL_PROMPT: Final = "  [y]es, this call; [a]lways; [n]o, not this call; or the word never? "
_EDIT_PROMPT: Final = "  [y]es, this call; [e]dit it first; [a]lways; [n]o, not this call; or never? "
_GRANT_PROMPT: Final = "  [y]es, this and later calls of this tool; [n]o, not this call; or the word never? "
RenderQuestion: TypeAlias = Callable[[Question], str]
EditArguments: TypeAlias = Callable[[Question, Callable[[str], Awaitable[str]]], Awaitable[JsonObject | None]]
"""Lets the person change the arguments of a call. The callable prompts for one line. None: not changed after all."""
_REACTION: Final = 5.0
"""Seconds in which a person may still type an answer to the question that was there before."""


def questions_for(yes: bool, edit: EditArguments | None = None, render: RenderQuestion | None = None) -> Questions:
    """Return what answers questions: always "yes" (--yes), the person at the terminal, or without a terminal none."""
    if yes:
        return RuleAnswers(Answer("allow"))
    if sys.stdin.isatty() and sys.stderr.isatty():
        return TerminalQuestions(sys.stdin, sys.stderr, edit=edit, render=render)
    return RuleAnswers(Answer("expired", reason="the command has no terminal to ask at (--yes answers every question)"))


def is_simple_terminal() -> bool:
    """Whether the terminal can do no more than write letters, line after line."""
    return os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")


async def ask_here(question: Question, questions: Questions) -> Answer:
    """Return what the person at this terminal answers. No answer is a no: the command waits for no other person."""
    answer = await questions.ask(question) or Answer("expired")
    if answer.decision != "expired":
        return answer
    return Answer("deny", reason=answer.reason or "no person answered in time")


class TerminalQuestions:
    """Asks on a terminal, one question after another. A question that is cancelled is taken back visibly."""

    def __init__(
        self,
        read_from: TextIO,
        write_to: TextIO,
        *,
        grants_once: bool = False,
        edit: EditArguments | None = None,
        render: RenderQuestion | None = None,
    ) -> None:
        """`grants_once`: a permission is granted for one call. A gateway remembers permissions that it asks for (P2).

        `edit` lets the person change the arguments before an approval. `render` returns the lines before the prompt.
        """
        self._edit = edit
        self._render = render or render_question
        self._read_from = read_from
        self._write_to = write_to
        self._grants_once = grants_once
        self._one_at_a_time = asyncio.Lock()
        self._taken_back_at = -math.inf
        self._is_doubtful = False
        """Whether the next line may be meant for the question before, which was taken back."""

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return what the person types; `expired` when they type nothing in time."""
        opened()
        async with self._one_at_a_time:
            if self._read_from.isatty():
                with contextlib.suppress(termios.error):  # what was typed before the question is no answer
                    termios.tcflush(self._read_from.fileno(), termios.TCIFLUSH)
            self._is_doubtful = time.monotonic() - self._taken_back_at < _REACTION
            self._write_to.write(self._render(question))
            try:
                async with asyncio.timeout(question.expires_in):
                    return await (
                        self._read_answer(question) if question.schema is None else self._read_value(question)
                    )
            except TimeoutError:
                self._write_to.write("\n(no answer: the call is refused)\n")
                return Answer("expired")
            except asyncio.CancelledError:
                self._taken_back_at = time.monotonic()
                self._write_to.write("\n(this question is over: it was answered elsewhere, or its call has ended)\n")
                self._write_to.flush()
                raise

    def note_typed(self) -> None:
        """Note that the person has typed something since the last question: the next line answers the next question."""
        self._taken_back_at = -math.inf

    async def _read_answer(self, question: Question) -> Answer:
        """Ask until a known answer is typed, and return it. The end of the input denies."""
        answers, prompt = _ANSWERS, _CALL_PROMPT
        edit = self._edit if question.kind == "approval" else None
        if edit is not None:
            prompt = _EDIT_PROMPT
        elif question.kind == "login":  # a login has no rule for later
            answers, prompt = _ONCE, "  [y]es, [n]o? "
        elif question.kind == "permission" and not self._grants_once:
            prompt = _GRANT_PROMPT
        while line := await self._prompt(prompt):
            typed = line.strip().lower()
            if edit is not None and typed in ("e", "edit"):
                edited = await edit(question, self._prompt)
                if edited is not None:
                    return Answer("allow", arguments=edited)
            elif (answer := answers.get(typed)) is not None:
                return answer
        return Answer("deny")

    async def _read_value(self, question: Question) -> Answer:
        """Ask until the typed value fits, and return it. An empty line denies."""
        while typed := (await self._prompt(prompt_for_value(question))).strip():
            try:
                answer = Answer("allow", value=read_value(question, typed))
                check_answer(question, answer)
                return answer
            except InvalidAnswer as error:
                self._write_to.write(f"  {strip_invisible(str(error))}\n")
        return Answer("deny")

    async def _prompt(self, prompt: str) -> str:
        """Return the line that is typed; empty at the end of the input."""
        while True:
            self._write_to.write(prompt)
            self._write_to.flush()
            line = await self._line()
            if not self._is_doubtful or time.monotonic() - self._taken_back_at >= _REACTION:
                return line
            self._is_doubtful = False
            self._write_to.write("  (The question before this one is over. Please answer this one again.)\n")

    async def _line(self) -> str:
        """Return the next line. A cancelled read has taken nothing, so the next read gets the line."""
        if self._read_from.isatty():
            loop, typed = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self._read_from.fileno(), typed.set)
            try:
                await typed.wait()
            finally:
                loop.remove_reader(self._read_from.fileno())
        return self._read_from.readline()  # at a terminal a whole line is there now, or the end


def render_question(question: Question) -> str:
    """Return the lines that come before the prompt. Words of others must not control the terminal."""
    call, subject, action = _call_line(question), strip_invisible(question.subject), question.action or QuestionAction()
    match question.kind:
        case "permission":
            return f"\n{call}\nIt needs the permission {subject!r}. Grant it?\n"
        case "approval":
            return f"\n{call}\n{subject} Run it?\n"
        case "input":
            return f"\n{call}\n{subject}\n{_render_schema(question.schema or {})}"
        case "login":
            start = f"  Open {strip_invisible(action.url)}\n" if action.url else ""
            if action.intent:  # the device does it, and this terminal waits for the answer
                start = f"  To start it, in another terminal: handspan questions start {shlex.quote(question.id)}\n"
            hint = f"{strip_invisible(action.hint)}\n" if action.hint else ""
            return f"\n{call}\n{subject}\n{start}{hint}Are you logged in?\n"
        case "trust":
            old = "  (there was none)\n" if action.old is None else _indent(action.old)
            return f"\n{call}\n{subject}\nBefore:\n{old}Now:\n{_indent(action.new or {})}Trust it?\n"


def _call_line(question: Question) -> str:
    """Return which tool asks, with exactly its arguments: an invisible character is shown by its code."""
    arguments = f" {_short(question.arguments)}" if question.arguments else ""
    tool = strip_invisible(question.tool)
    if is_for_money(question):
        return f"Money for the agent {strip_invisible(question.agent)!r}" if question.agent else "Money"
    if question.agent:
        return f"The agent {strip_invisible(question.agent)!r} calls {tool}{arguments}"
    return f"A call of {tool}{arguments}" if question.call_id else f"{tool}{arguments}"


def prompt_for_value(question: Question) -> str:
    """Return what to type, in a few words."""
    schema = question.schema or {}
    form = "Your answer" if is_text(schema) else "JSON of this form"
    return f"  {'a number of the list' if options_of(schema) else form} (empty: no answer)? "


def read_value(question: Question, typed: str) -> Json:
    """Return the value that the person means. Raises `InvalidAnswer` when it can't be read; checks no schema."""
    schema = question.schema or {}
    if options := options_of(schema):
        if typed.isdecimal() and 0 < int(typed) <= len(options):
            return options[int(typed) - 1]
        return typed
    if is_text(schema):
        return typed
    try:
        return strict_json.parse(typed.encode())
    except WireError as error:
        raise InvalidAnswer(str(error)) from None


def _render_schema(schema: JsonObject) -> str:
    if options := options_of(schema):
        return "".join(f"  {number}. {_option(option)}\n" for number, option in enumerate(options, 1))
    return "" if is_text(schema) else _indent(schema)


def _option(option: Json) -> str:
    if isinstance(option, bool):
        return "yes" if option else "no"
    return strip_invisible(option) if isinstance(option, str) else _short(option)


def _indent(value: JsonObject) -> str:
    """Return JSON in indented lines. A long text is cut, and says so."""
    text = escape_invisible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    return "".join(f"  {line}\n" for line in _shorten(text).split("\n"))


def _short(value: object) -> str:
    return _shorten(escape_invisible(msgspec.json.encode(value).decode()))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"
