"""Asks a person before a dangerous or new tool runs: for a permission, for approval, or for an input (SPEC P).

The answers "always" and "never" are remembered in this process and, as rules, in the store.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

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

if TYPE_CHECKING:
    from handspan.engine.runner import Started

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

    def open_at_devices(self, owner: str) -> list[Question]:
        """Return the questions of this owner that are open at devices. Only the device takes the answer."""
        return [question for question in self._at_devices.values() if question.owner == owner]

    def has_to_ask(self, started: "Started", approval: str | None) -> bool:
        """Whether this call has to wait for a person. `approval`: why the call needs approval; None if it does not."""
        keys = [_key("permission", permission, started) for permission in started.entry.permissions_to_ask]
        if approval is not None:
            keys.append(_key("approval", approval, started))
        asks = started.entry.asks
        return (asks is not None and asks(started.arguments) is not None) or any(
            key not in self._remembered for key in keys
        )

    async def ask_permissions(self, started: "Started") -> float:
        """Ask for each permission that the tool needs and does not have. Return the seconds that this took.

        Raises `ToolError` when any is denied.
        """
        waited = 0.0
        for permission in started.entry.permissions_to_ask:
            answer, took = await self._ask("permission", permission, started)
            waited += took
            if answer.decision != "allow":
                raise _permission_error(answer, permission, started.entry)
        return waited

    async def ask_approval(self, reason: str, started: "Started") -> Consent:
        """Ask whether this call may run with exactly its arguments. Raises `ToolError` when the call may not run."""
        answer, waited = await self._ask("approval", reason, started)
        if answer.decision != "allow":
            raise _approval_error(answer, started.entry)
        edited = started.arguments if answer.arguments is None else answer.arguments
        return Consent(edited, edited != started.arguments, waited)

    async def ask_input(self, tool_question: ToolQuestion, started: "Started") -> tuple[Json, float]:
        """Return what the person answers before the call runs, and the seconds that this took.

        Raises `ToolError` when the person does not answer or says no.
        """
        question = self.make_question(started.entry.spec.fingerprint[:16], tool_question, started)
        check_question(question)
        question = clean_question(question)
        answer, waited = await _wait_for_answer(question, started, self._questions.ask)
        if answer.decision != "allow":
            raise _input_error(answer)
        check_answer(question, answer)
        return answer.value, waited

    def forget(self, tool: str, owner: str) -> None:
        """Forget what this owner answered about this tool with "always" or "never"."""
        for key in [key for key in self._remembered if (key[0], key[2]) == (owner, tool)]:
            del self._remembered[key]

    async def ask_for_tool(self, number: int, tool_question: ToolQuestion, started: "Started") -> Answer:
        """Return the answer, yes or no, to the question of a running tool.

        Raises `ToolError` when the question is invalid, `AnswerComesLater` when this process ends before the answer.
        """
        question = self.make_question(str(number), tool_question, started)
        try:
            check_question(question)
        except DefinitionError as error:
            raise ToolError("execution_failed", f"{error}.") from None
        question = clean_question(question)
        with _announce(question, started.caller) as opened:
            # A tool that runs can't wait for days.
            answer = await self._questions.ask(question, opened) or Answer("expired")
        check_answer(question, answer)
        return answer

    def make_question(
        self,
        number: str,
        tool_question: ToolQuestion,
        started: "Started",
        device: str = "",
    ) -> Question:
        """Return the question of a call. `number` distinguishes the questions of this kind that the call asks.

        The question's id is made from the call's id, the kind and `number`, so that a resumed call finds its answer.
        """
        spec, caller, call_id = started.entry.spec, started.caller, started.record.id
        unattended = caller.agent.unattended
        usual = self.expires_in if unattended is None else max(self.expires_in, unattended.question_seconds)
        return Question(
            id=f"{call_id}/{tool_question.kind}/{number}",
            kind=tool_question.kind,
            call_id=call_id,
            tool=spec.name,
            arguments=started.arguments,
            subject=tool_question.subject,
            owner=caller.who.owner,
            session=caller.session,
            fingerprint=spec.fingerprint,
            expires_in=usual if tool_question.expires_in is None else tool_question.expires_in,
            schema=tool_question.schema,
            action=tool_question.action,
            agent=caller.agent.name,
            device=device,
            for_admin=tool_question.for_admin,
            parameters=spec.parameters if tool_question.kind == "approval" else None,
        )

    async def _ask(self, kind: QuestionKind, subject: str, started: "Started") -> tuple[Answer, float]:
        """Return the answer of a person or of a rule, and the seconds that this took."""
        entry, key = started.entry, _key(kind, subject, started)
        known = self._remembered.get(key)
        if known is not None:
            return known, 0.0
        # P2: for a permission of a device, the prompt of its platform asks.
        device: Questions | None = entry.questions if kind == "permission" else None
        # The fingerprint is part of the number: an answer about another definition does not count.
        number = hashlib.sha256(f"{entry.spec.fingerprint}/{subject}".encode(errors="replace")).hexdigest()[:16]
        own_name = entry.origin.name if entry.origin.kind == "device" else OFFERING_CLIENT
        name = "" if device is None else own_name
        question = clean_question(self.make_question(number, ToolQuestion(kind, subject), started, device=name))
        asking = self._questions.ask if device is None else partial(self._ask_at, device)
        answer, waited = await _wait_for_answer(question, started, asking)
        if device is None and is_remembered(kind, answer):  # P2: a device remembers its answers itself
            lasting = Answer(answer.decision, always=True, how_to_enable=answer.how_to_enable, is_rule=True)
            self._remembered[key] = lasting
        return answer, waited

    async def _ask_at(self, device: Questions, question: Question, opened: Opened) -> Answer | None:
        self._at_devices[question.id] = question
        try:
            return await device.ask(question, opened)
        finally:
            self._at_devices.pop(question.id, None)


async def _wait_for_answer(
    question: Question, started: "Started", ask: Callable[[Question, Opened], Awaitable[Answer | None]]
) -> tuple[Answer, float]:
    """Return the answer, and the seconds that it took. Raises `AnswerComesLater` when it does not come now."""
    began = time.monotonic()
    with _announce(question, started.caller) as opened:
        answer = await ask(question, opened)
    if answer is None:
        raise AnswerComesLater
    return answer, time.monotonic() - began


@contextmanager
def _announce(question: Question, caller: Caller) -> Iterator[Opened]:
    """Yield what tells the caller about the question as soon as it can be answered.

    After `_MOMENT` progress says where which person is asked (P5).
    """
    later: list[asyncio.TimerHandle] = []

    def tell() -> None:
        caller.on_question(question)
        later.append(asyncio.get_running_loop().call_later(_MOMENT, caller.progress, waiting_note(question)))

    try:
        yield tell
    finally:
        for timer in later:
            timer.cancel()


def _key(kind: QuestionKind, subject: str, started: "Started") -> _Key:
    """Return the key of an answer. T5: an "always" holds for one definition of the tool; a changed tool asks again."""
    spec = started.entry.spec
    return started.caller.who.owner, kind, spec.name, spec.fingerprint, subject


def _permission_error(answer: Answer, permission: str, entry: Entry) -> ToolError:
    """Return what the model is told of a permission that was not granted: by a rule, in time, or by a person."""
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
    """Return what the model is told of a call that was not approved: by a rule, in time, or by a person."""
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
