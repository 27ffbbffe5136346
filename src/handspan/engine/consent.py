"""The stations where a person may be asked before a call starts: permissions, input and approval (SPEC P1 to P5)."""

import asyncio
import time
from typing import Final

from handspan.core.calls import ToolCall
from handspan.core.errors import ToolError
from handspan.core.questions import QuestionKind
from handspan.core.results import Pending
from handspan.core.store import Ledger
from handspan.core.values import Arguments
from handspan.engine.caller import Caller, read_arguments, recheck_approved
from handspan.engine.hooks import hooked_call
from handspan.engine.policy import Ask, Deny, Policy, Verdict
from handspan.engine.questions import AnswerComesLater, Asker, Consent
from handspan.engine.records import find_facts
from handspan.engine.results import OpenWork
from handspan.engine.runner import Started, find_expiry
from handspan.registry.entry import Entry

_CHANGED_AFTER_APPROVAL: Final = (
    "A hook wants to change the arguments that the user gave with the approval, so the call did not run: "
    "call again with the arguments that the user wants."
)


class Consents:
    """Gets the consent that a call needs, and starts the call."""

    def __init__(self, policy: Policy, asker: Asker, ledger: Ledger, open_work: OpenWork) -> None:
        self._policy = policy
        self._asker = asker
        self._ledger = ledger
        self._open_work = open_work
        self.waiting: dict[str, asyncio.Future[None]] = {}
        """Calls of this process that wait for a person, by id. Each future is done when the wait is over."""

    def find_needed(self, entry: Entry, caller: Caller) -> list[tuple[QuestionKind, str]]:
        """Return the kind and the subject of each question that a call of this tool asks. A rule may answer it."""
        verdict = self._policy.decide(entry.spec, ToolCall(entry.spec.name, {}, ""), caller)
        asked: list[tuple[QuestionKind, str]] = [("permission", one) for one in entry.permissions_to_ask]
        approval = _find_reason(entry, verdict)
        if approval is not None:
            asked.append(("approval", approval))
        return asked

    async def start(self, started: Started, verdict: Verdict, call: ToolCall) -> Started | Pending:
        """Ask for consent if that is needed, then start the call. Return `Pending` when the answer comes later.

        Raises `ToolError` when the policy or the person refuses the call.
        """
        record = started.record
        if isinstance(verdict, Deny):
            raise ToolError("policy_denied", verdict.reason)
        approval = _find_reason(started.entry, verdict)
        if record.state is not None or not self._asker.has_to_ask(started, approval):
            return await self._ask_and_start(started, approval, call)
        await self._ledger.accept(record)  # the answer finds the call, even after the end of this process
        over = self.waiting[record.id] = asyncio.get_running_loop().create_future()
        try:
            return await self._ask_and_start(started, approval, call)
        finally:
            del self.waiting[record.id]
            over.set_result(None)

    async def _ask_and_start(self, started: Started, approval: str | None, call: ToolCall) -> Started | Pending:
        """Ask for permissions and, if `approval` has a reason, for approval; then start the call."""
        record, asked_at = started.record, time.monotonic()
        try:
            consent = await self._consent(started, approval)
        except AnswerComesLater:
            return Pending()
        finally:
            if record.state is not None:  # a person was asked
                took = time.monotonic() - asked_at
                record.waited += took
                started.began += took
        if consent.waited:
            started.entry = recheck_approved(started.entry, started.caller)
            record.tool = find_facts(started.entry, record.tool.request)
        if consent.is_edited:
            await self._check_edited(started, call, consent.arguments)
        if started.entry.is_new:  # T5: the person who approves the first call agrees to the tool
            started.caller.box.accept(started.entry)
        record.arguments = started.arguments = consent.arguments
        record.is_edited = consent.is_edited
        started.deadline = started.deadline and started.deadline.later(consent.waited)
        if started.entry.outlives:
            record.expires_at = find_expiry(started.entry, started.deadline, self._ledger.now())
        written = self._ledger.start(record)
        if written is not None:
            with self._open_work:
                await written
        return started

    async def _consent(self, started: Started, approval: str | None) -> Consent:
        """Return what the person agreed to. Raises `ToolError` when the person did not agree."""
        entry, arguments = started.entry, started.arguments
        waited = await self._asker.ask_permissions(started)
        if entry.asks is not None and (question := entry.asks(arguments)) is not None:
            started.answer, took = await self._asker.ask_input(question, started)
            waited += took
        if approval is None:
            return Consent(arguments, waited=waited)
        approved = await self._asker.ask_approval(approval, started)
        # Arguments that a person edited are checked like all others.
        return Consent(read_arguments(entry, approved.arguments), approved.is_edited, waited + approved.waited)

    async def _check_edited(self, started: Started, call: ToolCall, arguments: Arguments) -> None:
        """Raise `ToolError` when hooks or the policy refuse arguments that a person edited: both see them first now."""
        entry, caller, hooks = started.entry, started.caller, started.record.hooks
        if hooks is not None:
            edited = hooked_call(call.id, entry, arguments, caller, is_changed=True)
            hooked = await hooks.before(edited, may_modify=True)
            if (hooked.name, hooked.arguments) != (edited.name, edited.arguments):
                raise ToolError("hook_cancelled", _CHANGED_AFTER_APPROVAL)
        verdict = self._policy.decide(entry.spec_for(arguments), ToolCall(call.name, arguments, call.id), caller)
        if isinstance(verdict, Deny):
            raise ToolError("policy_denied", verdict.reason)


def _find_reason(entry: Entry, verdict: Verdict) -> str | None:
    """Return why a person has to approve a call of this tool; None if no approval is needed."""
    if isinstance(verdict, Ask) and entry.asks is None:  # a tool that asks the person itself needs no other question
        return verdict.reason
    return f"{entry.spec.name!r} is new at {entry.origin}: no person has approved it yet." if entry.is_new else None
