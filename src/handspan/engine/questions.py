"""Asks a person before a dangerous or new tool runs: for a permission, for approval, or for an input (SPEC P).

The answers "always" and "never" are remembered in this process and, as rules, in the store.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from handspan.core.calls import ToolCall
from handspan.core.errors import DefinitionError, ErrorCode, ToolError
from handspan.core.question_checks import check_answer, check_question, clean_question, is_remembered
from handspan.core.questions import (
    OFFERING_CLIENT,
    Answer,
    Decision,
    Opened,
    Question,
    QuestionKind,
    Questions,
    ToolQuestion,
    ignore_opened,
    waiting_note,
)
from handspan.core.values import Arguments, Json, strip_invisible
from handspan.engine.caller import Caller
from handspan.registry.entry import Entry

QUESTION_TIMEOUT = 300.0
_MOMENT: Final = 0.25
"""Seconds until the caller gets progress that names the person who is asked. A rule or a device may answer before."""

_Key: TypeAlias = tuple[str, QuestionKind, str, str, str]
"""Owner, kind, tool, fingerprint of its definition, subject of the question."""


class AnswerComesLater(Exception):
    """The question is stored and has no answer yet: the call waits, perhaps for days, or without this process."""


class Consent(Struct, frozen=True):
    """A person's yes to a call."""

    arguments: Arguments
    """The arguments that the person agreed to: those of the call, or as the person edited them."""
    is_edited: bool = False
    """Whether the person edited the arguments."""
    waited: float = 0.0
    """Seconds that the person took. They do not count against the call's deadline."""


class Asker:
    """Asks a person before a call runs, and remembers answers that shall hold for later calls."""

    def __init__(self, questions: Questions, expires_in: float = QUESTION_TIMEOUT) -> None:
        self._questions = questions
        self.expires_in = expires_in
        """Seconds that a question waits, unless it has its own time."""
        self._remembered: dict[_Key, Answer] = {}
        """What the person allows always, or never: the rules that this process knows. The store has all rules."""
        self._at_devices: dict[str, Question] = {}
        """The questions that are open at devices, by id."""

    def asked_at_devices(self, owner: str) -> list[Question]:
        """Return the questions of this owner that are open at devices."""
        return [question for question in self._at_devices.values() if question.owner == owner]

    def has_to_ask(self, entry: Entry, approval: str | None, caller: Caller) -> bool:
        """Whether this call has to wait for a person. `approval`: why the call needs approval; None if it does not."""
        keys = [_key("permission", permission, entry, caller) for permission in entry.permissions_to_ask]
        if approval is not None:
            keys.append(_key("approval", approval, entry, caller))
        return entry.asks is not None or any(key not in self._remembered for key in keys)

    async def ask_permissions(self, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller) -> Consent:
        """Ask for each permission that the tool needs and does not have. Raises `ToolError` when any is denied."""
        waited = 0.0
        for permission in entry.permissions_to_ask:
            answer, took = await self._ask("permission", permission, entry, call, arguments=arguments, caller=caller)
            waited += took
            if answer.decision != "allow":
                raise _permission_error(answer, permission, entry)
        return Consent(arguments, waited=waited)

    async def ask_approval(
        self, reason: str, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller
    ) -> Consent:
        """Ask whether this call may run with exactly these arguments. Raises `ToolError` when the call may not run."""
        answer, waited = await self._ask("approval", reason, entry, call, arguments=arguments, caller=caller)
        if answer.decision != "allow":
            raise _approval_error(answer, entry)
        edited = arguments if answer.arguments is None else answer.arguments
        return Consent(edited, edited != arguments, waited)

    async def ask_input(
        self, asked: ToolQuestion, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller
    ) -> tuple[Json, float]:
        """Return what the person answers before the call runs, and the seconds that this took.

        Raises `ToolError` when the person does not answer or says no.
        """
        question = self.make_question(
            entry.spec.fingerprint[:16], asked, entry, call.id, arguments=arguments, caller=caller
        )
        check_question(question)
        question = clean_question(question)
        began = time.monotonic()
        with _announce(question, caller) as opened:
            answer = await self._questions.ask(question, opened)
        if answer is None:
            raise AnswerComesLater
        if answer.decision != "allow":
            raise _input_error(answer)
        check_answer(question, answer)
        return answer.value, time.monotonic() - began

    def forget(self, tool: str, owner: str) -> None:
        """Forget what this owner answered about this tool."""
        for key in [key for key in self._remembered if (key[0], key[2]) == (owner, tool)]:
            del self._remembered[key]

    async def ask_for_tool(self, question: Question, caller: Caller) -> Answer:
        """Return the answer, yes or no, to the question of a running tool.

        Raises `ToolError` when the question is invalid, `AnswerComesLater` when this process ends before the answer.
        """
        try:
            check_question(question)
        except DefinitionError as error:
            raise ToolError("execution_failed", f"{error}.") from None
        question = clean_question(question)
        with _announce(question, caller) as opened:
            # A tool that runs can't wait for days.
            answer = await self._questions.ask(question, opened) or Answer("expired")
        check_answer(question, answer)
        return answer

    def make_question(
        self,
        number: str,
        asked: ToolQuestion,
        entry: Entry,
        call_id: str,
        arguments: Arguments,
        caller: Caller,
        device: str = "",
    ) -> Question:
        """Return the question of a call. `number` distinguishes the questions of this kind that the call asks.

        The question's id is made from the call's id, the kind and `number`, so that a resumed call finds its answer.
        """
        return Question(
            id=f"{call_id}/{asked.kind}/{number}",
            kind=asked.kind,
            call_id=call_id,
            tool=entry.spec.name,
            arguments=arguments,
            subject=asked.subject,
            owner=caller.who.owner,
            session=caller.session,
            fingerprint=entry.spec.fingerprint,
            expires_in=self.expires_in if asked.expires_in is None else asked.expires_in,
            schema=asked.schema,
            action=asked.action,
            agent=caller.agent.name,
            device=device,
            for_admin=asked.for_admin,
            parameters=entry.spec.parameters if asked.kind == "approval" else None,
        )

    async def _ask(
        self, kind: QuestionKind, subject: str, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller
    ) -> tuple[Answer, float]:
        """Return the answer of a person or of a rule, and the seconds that this took."""
        key = _key(kind, subject, entry, caller)
        known = self._remembered.get(key)
        if known is not None:
            return known, 0.0
        # P2: for a permission of a device, the prompt of its platform asks.
        device: Questions | None = entry.questions if kind == "permission" else None
        # The fingerprint is part of the number: an answer about another definition does not count.
        number = hashlib.sha256(f"{entry.spec.fingerprint}/{subject}".encode(errors="replace")).hexdigest()[:16]
        name = "" if device is None else _device_name(entry)
        asked = ToolQuestion(kind, subject)
        question = clean_question(
            self.make_question(number, asked, entry, call.id, arguments=arguments, caller=caller, device=name)
        )
        began = time.monotonic()
        with _announce(question, caller) as opened:
            asking = self._questions.ask if device is None else partial(self._ask_at, device)
            answer = await asking(question, opened)
        if answer is None:
            raise AnswerComesLater
        if device is None and is_remembered(kind, answer):  # P2: a device remembers its answers itself
            lasting = Answer(answer.decision, always=True, how_to_enable=answer.how_to_enable, is_rule=True)
            self._remembered[key] = lasting
        return answer, time.monotonic() - began

    async def _ask_at(self, device: Questions, question: Question, opened: Opened) -> Answer | None:
        self._at_devices[question.id] = question
        try:
            return await device.ask(question, opened)
        finally:
            self._at_devices.pop(question.id, None)


@contextmanager
def _announce(question: Question, caller: Caller) -> Iterator[Opened]:
    """Yield what tells the caller about the question as soon as it can be answered.

    After `_MOMENT` progress says where which person is asked (P5).
    """
    later: list[asyncio.TimerHandle] = []

    def tell() -> None:
        caller.asked(question)
        later.append(asyncio.get_running_loop().call_later(_MOMENT, caller.progress, waiting_note(question)))

    try:
        yield tell
    finally:
        for timer in later:
            timer.cancel()


def _device_name(entry: Entry) -> str:
    return entry.origin.name if entry.origin.kind == "device" else OFFERING_CLIENT


def _key(kind: QuestionKind, subject: str, entry: Entry, caller: Caller) -> _Key:
    """Return the key of an answer. T5: an "always" holds for one definition of the tool; a changed tool asks again."""
    return caller.who.owner, kind, entry.spec.name, entry.spec.fingerprint, subject


def _permission_error(answer: Answer, permission: str, entry: Entry) -> ToolError:
    codes: dict[Decision, ErrorCode] = {"deny_forever": "permission_denied_forever", "expired": "question_expired"}
    code = codes.get(answer.decision, "permission_denied")
    if answer.is_rule:
        return ToolError(code, _rule_text(f"The permission {permission!r} is refused", answer, entry))
    if answer.decision == "expired":
        asked = "could be asked" if answer.reason else "answered"
        text = f"No person {asked} whether the permission {permission!r} is granted, so this call is refused"
        return ToolError(code, f"{text}{_because(answer)}.")
    by = "" if answer.reason else " by the user"  # with a reason, a client may have said no in place of its person
    text = f"Permission {permission!r} was denied{by}{' for this call' if by and answer.decision == 'deny' else ''}"
    if answer.decision == "deny_forever":
        enable = answer.how_to_enable or "the settings of the device or the gateway"
        text += f", who does not want to be asked again: it can be enabled in {enable}"
    return ToolError(code, f"{text}{_because(answer)}.")


def _approval_error(answer: Answer, entry: Entry) -> ToolError:
    name = entry.spec.name
    if answer.is_rule:
        return ToolError("approval_denied", _rule_text(f"The call of {name!r} is refused", answer, entry))
    if answer.decision != "expired":
        text = (
            f"The call of {name!r} was not approved"
            if answer.reason
            else f"The user did not approve the call of {name!r}"
        )
        return ToolError("approval_denied", f"{text}, so it did not run{_because(answer)}.")
    could = f"could be asked to approve the call of {name!r}"
    text = f"No person {could if answer.reason else f'approved the call of {name!r} in time'}, so it did not run"
    return ToolError("question_expired", f"{text}{_because(answer)}.")


def _rule_text(refused: str, answer: Answer, entry: Entry) -> str:
    """Return the text of a refusal by a rule."""
    text = f'{refused} by a rule of the user ("never"); the user was not asked again. '
    if answer.how_to_enable:
        text += f"It can be enabled in {answer.how_to_enable}. "
    return f"{text}`handspan rules forget {entry.spec.name}` takes the rule back."


def _because(answer: Answer) -> str:
    return f": {strip_invisible(answer.reason).removesuffix('.')}" if answer.reason else ""


def _input_error(answer: Answer) -> ToolError:
    if answer.decision == "expired":
        return ToolError("question_expired", "No person answered the question in time. Go on without the answer.")
    return ToolError("approval_denied", "The person does not want to answer this question. Go on without the answer.")


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


class RuleAnswers:
    """Gives every question the same answer, without asking a person."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return the rule's answer. Where a yes alone is not enough, return `expired`.

        A rule has no value to answer with and can't log in.
        """
        needs_more_than_yes = question.kind == "login" or question.schema is not None
        return Answer("expired") if needs_more_than_yes and self._answer.decision == "allow" else self._answer
