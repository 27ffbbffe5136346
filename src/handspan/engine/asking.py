"""Asking a person: for a permission, for approval, for what a tool wants to know; and remembering it (SPEC P)."""

import asyncio
import time
from typing import TypeAlias

from msgspec import Struct

from handspan.core.calls import ToolCall
from handspan.core.errors import DefinitionError, ErrorCode, ToolError
from handspan.core.question_checks import check_answer, check_question
from handspan.core.questions import Answer, Decision, Question, QuestionKind, Questions
from handspan.core.values import Arguments
from handspan.engine.caller import Caller
from handspan.registry.entry import Entry

QUESTION_TIMEOUT = 300.0

_Key: TypeAlias = tuple[str, QuestionKind, str, str, str]
"""Owner, kind, tool, its definition, and what was asked about it."""


class Waiting(Exception):
    """The question is kept and nobody has answered yet: the call waits, perhaps for days."""


class Consent(Struct, frozen=True):
    """The person agreed."""

    arguments: Arguments
    """What was agreed to: the call's own, or what the person made of them."""
    waited: float = 0.0
    """Seconds that the person took; they do not count against the call."""


class Asking:
    """Asks through the door that was given, and asks nobody twice who said "always"."""

    def __init__(self, questions: Questions, expires_in: float = QUESTION_TIMEOUT) -> None:
        self._questions = questions
        self.expires_in = expires_in
        """Seconds that a question waits which does not say how long."""
        self._remembered: dict[_Key, Answer] = {}

    def has_to_ask(self, entry: Entry, approval: str | None, caller: Caller) -> bool:
        """Whether this call has to wait for somebody: for a permission, or for approval where that has a reason."""
        keys = [_key("permission", permission, entry, caller) for permission in entry.permissions_to_ask]
        if approval is not None:
            keys.append(_key("approval", approval, entry, caller))
        return any(key not in self._remembered for key in keys)

    async def permissions(self, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller) -> Consent:
        """Ask for each permission that the tool needs and nobody granted yet; `ToolError` when one is denied."""
        waited = 0.0
        for permission in entry.permissions_to_ask:
            answer, took = await self._ask("permission", permission, entry, call, arguments, caller)
            waited += took
            if answer.decision != "allow":
                raise _refused(answer, permission)
        return Consent(arguments, waited)

    async def approval(
        self, reason: str, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller
    ) -> Consent:
        """Ask whether this call may run with exactly these arguments; `ToolError` when it may not."""
        answer, waited = await self._ask("approval", reason, entry, call, arguments, caller)
        if answer.decision != "allow":
            raise _not_approved(answer, entry)
        return Consent(arguments if answer.arguments is None else answer.arguments, waited)

    def forget(self, tool: str, owner: str) -> None:
        """Ask this owner about this tool again."""
        for key in [key for key in self._remembered if (key[0], key[2]) == (owner, tool)]:
            del self._remembered[key]

    async def ask_for_tool(self, question: Question, caller: Caller) -> Answer:
        """The answer to a question of a tool that runs, a no too. Raises `ToolError` when nobody could answer it."""
        try:
            check_question(question)
        except DefinitionError as error:
            raise ToolError("execution_failed", f"{error}.") from None
        caller.asked(question)
        answer = await self._questions.ask(question) or Answer("expired")  # a call that runs can't wait for another day
        check_answer(question, answer)
        return answer

    async def _ask(
        self, kind: QuestionKind, subject: str, entry: Entry, call: ToolCall, arguments: Arguments, caller: Caller
    ) -> tuple[Answer, float]:
        spec, key = entry.spec, _key(kind, subject, entry, caller)
        known = self._remembered.get(key)
        if known is not None:
            return known, 0.0
        question = Question(
            # The definition is part of it: what was said of another one is no answer.
            id=f"{call.id}/{kind}/{spec.fingerprint[:16]}/{subject}",
            kind=kind,
            call_id=call.id,
            tool=spec.name,
            arguments=arguments,
            subject=subject,
            owner=caller.who.owner,
            session=caller.session,
            fingerprint=spec.fingerprint,
            expires_in=self.expires_in,
        )
        began = time.monotonic()
        caller.asked(question)
        # P2: on a device the platform's own prompt asks, where the tool's person is.
        there: Questions | None = entry.questions if kind == "permission" else None
        answer = await (self._questions if there is None else there).ask(question)
        if answer is None:
            raise Waiting
        if there is not None and answer.decision != "allow":
            return answer, time.monotonic() - began  # the device remembers its own "no", and may forget it (P2)
        if answer.decision == "deny_forever" or (answer.always and answer.decision != "expired"):
            self._remembered[key] = Answer(answer.decision, always=True, how_to_enable=answer.how_to_enable)
        elif kind == "permission" and answer.decision == "allow":
            self._remembered[key] = answer  # P2: a grant is remembered, a single "no" is not
        return answer, time.monotonic() - began


def _key(kind: QuestionKind, subject: str, entry: Entry, caller: Caller) -> _Key:
    """An "always" is for this tool as it is now: a changed definition is asked for again (T5)."""
    return caller.who.owner, kind, entry.spec.name, entry.spec.fingerprint, subject


def _refused(answer: Answer, permission: str) -> ToolError:
    codes: dict[Decision, ErrorCode] = {"deny_forever": "permission_denied_forever", "expired": "question_expired"}
    text = f"Permission {permission!r} was denied by the user"
    if answer.decision == "deny_forever":
        enable = answer.how_to_enable or "the settings of the device or the gateway"
        text += f", who does not want to be asked again: it can be enabled in {enable}"
    elif answer.decision == "expired":
        text = f"Nobody answered whether the permission {permission!r} is granted, so this call is refused"
    return ToolError(codes.get(answer.decision, "permission_denied"), f"{text}.")


def _not_approved(answer: Answer, entry: Entry) -> ToolError:
    if answer.decision == "expired":
        return ToolError(
            "question_expired", f"Nobody approved the call of {entry.spec.name!r} in time, so it did not run."
        )
    return ToolError("approval_denied", f"The user did not approve the call of {entry.spec.name!r}, so it did not run.")


class OpenQuestions:
    """Questions that wait for whoever comes, up to their own time; the first answer wins (P3, P5)."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    def open_for(self, owner: str) -> list[Question]:
        """What this owner could answer now."""
        return [question for question, _ in self._open.values() if question.owner == owner]

    async def ask(self, question: Question) -> Answer:
        """The answer, or `expired` when none came. Whoever asks the same question meanwhile gets the same answer."""
        _, answer = self._open.get(question.id, (question, None))
        if answer is not None:
            return await asyncio.shield(answer)
        answer = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, answer)
        try:
            async with asyncio.timeout(question.expires_in):
                return await asyncio.shield(answer)
        except TimeoutError:
            return answer.result() if answer.done() else Answer("expired")  # who was told "yes, taken" was not late
        finally:
            del self._open[question.id]
            if not answer.done():
                answer.set_result(Answer("expired"))

    def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        """Answer a question of one's own; False when it is not open any more, or is somebody else's.

        Raises `InvalidAnswer` when the value does not fit; the question stays open.
        """
        question, waiting = self._open.get(question_id, (None, None))
        if question is None or waiting is None or question.owner != owner or waiting.done():
            return False
        check_answer(question, answer)
        waiting.set_result(answer)
        return True


class RuleAnswers:
    """Answers every question in the same way, as a rule says; nobody is asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def ask(self, question: Question) -> Answer:
        """The rule's answer; `expired` to what a bare yes can't answer: a rule has no value, and logs in nowhere."""
        is_more_than_a_word = question.kind == "login" or question.schema is not None
        return Answer("expired") if is_more_than_a_word and self._answer.decision == "allow" else self._answer
