"""The way of one call, from a name and arguments to exactly one result (SPEC E1, E2).

It has two halves with a durable seam between them: `begin` goes from *find* to *started in the ledger*, the other
from an outcome to the finished record. `call` is begin, run, finish. A tool that answers `Pending` leaves in between;
its outcome comes later through `settle`, perhaps in another process.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path

from msgspec import UnsetType, structs

from handspan.core.artifacts import Artifacts
from handspan.core.bus import Bus
from handspan.core.calls import CallRecord, ToolCall
from handspan.core.errors import ToolError
from handspan.core.questions import Questions
from handspan.core.results import Failure, Pending, Success, ToolResult, succeed
from handspan.core.store import Ledger, NowOrLater
from handspan.core.values import Arguments
from handspan.engine.asking import QUESTION_TIMEOUT, Asking, Consent, OpenQuestions, Waiting
from handspan.engine.caller import Caller
from handspan.engine.crash import said
from handspan.engine.cut import RESULT_LIMIT, clip, cut
from handspan.engine.finding import find, still, valid
from handspan.engine.gates import Gates
from handspan.engine.hooks import HookedCall, Hooks
from handspan.engine.ledger import MemoryLedger
from handspan.engine.pending import PendingCalls
from handspan.engine.policy import ALLOW, Ask, Deny, ModePolicy, Policy, Verdict
from handspan.engine.records import CallAtWork, at_work, new_record, unread_record
from handspan.engine.running import Running, Started, expiry
from handspan.engine.telling import publish_when_stored
from handspan.engine.watchdog import Watchdog
from handspan.registry.entry import Entry

_log = logging.getLogger(__name__)


class Engine:
    """Gives every call exactly one result. Raises nothing but cancellation."""

    def __init__(
        self,
        artifacts: Artifacts,
        workspace: Path,
        *,
        policy: Policy | None = None,
        questions: Questions | None = None,
        question_timeout: float = QUESTION_TIMEOUT,
        hooks: Hooks | None = None,
        ledger: Ledger | None = None,
        gates: Gates | None = None,
        result_limit: int = RESULT_LIMIT,
        bus: Bus | None = None,
    ) -> None:
        """`bus` is told of every call that got its one result here, once the ledger has stored that."""
        self._artifacts = artifacts
        self._policy = policy or ModePolicy()
        self._asking = Asking(questions or OpenQuestions(), question_timeout)
        self._hooks = hooks or None  # no hooks, no stations: most houses have none
        self._ledger = ledger or MemoryLedger()
        self._result_limit = result_limit
        self._bus = bus
        gates = gates or Gates()
        self.running = Running(artifacts, workspace, gates)
        self.watchdog = Watchdog(gates.is_busy)
        self._pending = PendingCalls(self.settle)
        self._resuming: set[str] = set()
        self._asked: dict[str, asyncio.Future[None]] = {}
        """Calls that wait here for an answer, and go on by themselves when it comes."""

    # The way of one call.

    async def call(self, call: ToolCall, caller: Caller, started: Started | None = None) -> ToolResult | Pending:
        """The call's one result; `Pending` when it comes later. `started`: what `begin` gave for it already."""
        if started is None:
            begun = await self.begin(call, caller)
            if type(begun) is not Started:
                return begun
            started = begun
        record = started.record
        try:
            try:
                outcome = await self.running.run(started)
                if type(outcome) is Pending:
                    outcome = await self._suspend(record, outcome)
                    if type(outcome) is Pending:
                        return outcome
            except asyncio.CancelledError:
                await self._finish(record, _cancelled_late(record, record.early), started.began)
                raise
            except GeneratorExit:  # the task itself is taken down: nothing can be awaited any more
                publish_when_stored(self._bus, self._ledger.finish(record, _cancelled(record.name)), record)
                raise
            if type(outcome) is not Success or len(outcome.encoded) > self._result_limit or self._hooks is not None:
                outcome = await self._shape(record, outcome)
            written = self._store(record, outcome, started.began)
            is_first = written if type(written) is bool else await _once_written(written, record)
            return outcome if is_first else await self._first_result(record)
        finally:
            if record.early is not None:  # whoever brought it can learn what became of it
                record.early = None
                self._pending.done(record.id, record.result)

    async def begin(self, call: ToolCall, caller: Caller) -> Started | ToolResult | Pending:
        """The first half: from *find* to *started*. What does not get that far has its result here."""
        began = time.monotonic()
        entry = record = None
        try:
            entry = caller.box.find(call.name)  # find, available, enabled
            if entry is None:
                raise caller.box.refusal(call.name)
            arguments = valid(entry, call.arguments)
            if self._hooks is not None:
                call, entry, arguments = await self._before(self._hooks, call, entry, arguments, caller)
            record = new_record(call, caller, entry, arguments)
            started = Started(entry, arguments, caller, record, call.deadline, began, self._asking)
            verdict = self._policy.decide(entry.spec, call, caller)
            if verdict is not ALLOW or not entry.starts_at_once:
                if verdict is not ALLOW or entry.asks_first:  # permissions, approval
                    return await self._start_with_consent(started, verdict, call)
                if entry.suspends:
                    return started  # nothing is touched before the ledger lets it wait
                record.expires_at = expiry(entry, call.deadline, record.at)
            written = self._ledger.start(record)
            if written is not None:
                await written
            return started
        except ToolError as error:
            return await self._refuse(record or unread_record(call, caller, entry), Failure(error.code, error.message))
        except asyncio.CancelledError:
            await self._refuse(record or unread_record(call, caller, entry), _cancelled(call.name))
            raise
        except Exception as error:  # ours or not: a call without a verdict does not run, and has its result
            _log.exception("The call of %r could not begin", call.name)
            failure = Failure("internal_error", f"Tool {call.name!r} was not run: {said(error)}")
            return await self._refuse(record or unread_record(call, caller, entry), failure)

    async def _finish(self, record: CallRecord, result: ToolResult, began: float) -> ToolResult | None:
        """The second half: after-hooks, size limit, journal. None when the call has its result already."""
        result = await self._shape(record, result)
        written = self._store(record, result, began)
        is_first = written if type(written) is bool else await _once_written(written, record)
        return result if is_first else None

    async def _shape(self, record: CallRecord, result: ToolResult) -> ToolResult:
        """What after-hooks and the size limit make of a result. A small success without hooks needs none of it."""
        try:
            if self._hooks is not None:
                result = await self._after(self._hooks, record, result)
            if type(result) is not Success:
                return clip(result, self._result_limit)
            if len(result.encoded) <= self._result_limit:
                return result
            return await cut(result, self._artifacts, record.owner, record.session, record.name)
        except asyncio.CancelledError:  # the caller was cancelled: the call still has its result
            await self._refuse(record, _cancelled_late(record, result))
            raise

    def _store(self, record: CallRecord, result: ToolResult, began: float) -> NowOrLater[bool]:
        """Let the ledger keep the call's one result, and the bus tell of it; False when the call has one already."""
        if type(result) is Success:
            record.size += len(result.encoded)
        record.duration = time.monotonic() - began
        written = self._ledger.finish(record, result)
        return written if self._bus is None else publish_when_stored(self._bus, written, record)

    async def call_all(self, calls: Iterable[ToolCall], caller: Caller) -> list[ToolResult | Pending]:
        """The results of several calls that run side by side, in the order of the calls (SPEC E3)."""
        tasks = [asyncio.create_task(self.call(call, caller)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # every one of them gets its result first
            raise

    # Calls that wait: for an outcome from elsewhere, or for a person.

    async def settle(self, call_id: str, outcome: ToolResult) -> ToolResult | Pending | None:
        """Give a pending call its outcome: the call's result; None when it has one already, or never waited for one.

        `Pending` for a call whose tool is still at work here, and perhaps about to answer `Pending`: the outcome is
        kept for that moment, and dropped when the tool answers by itself. `result` tells what became of it. Nobody is
        made to wait here: it may be the tool itself that brings the outcome, or one whom the tool waits for.
        """
        found = await self._ledger.find(call_id)
        if isinstance(found, CallAtWork) and (found.state == "started" or found.early is not None):
            return self._pending.keep(found, _encoded(outcome))
        if found is None or found.state != "pending":
            return None
        record = structs.replace(found)  # two may settle at once: only the winner's words shall stand
        took = max(0.0, time.time() - record.at)  # it may have begun in another process: only the wall clock knows
        try:
            result = await self._finish(record, _encoded(outcome), time.monotonic() - took)
        except asyncio.CancelledError:  # it has its result all the same
            self._pending.done(call_id, record.result)
            raise
        if result is not None:
            self._pending.done(call_id, result)
        return result

    async def result(self, call_id: str) -> ToolResult | None:
        """The result of a call that is pending here, or has an outcome kept; None when it waits elsewhere."""
        result = await self._pending.result(call_id)
        if result is not None:
            return result
        record = await self._ledger.find(call_id)  # it may have come in the meantime
        return None if record is None or isinstance(record.result, UnsetType) else record.result

    async def resume(self, call_id: str, caller: Caller) -> ToolResult | Pending | None:
        """Go on with a call whose question was answered meanwhile; None when no such call waits for a person."""
        if call_id in self._resuming:  # two doors heard of the answer: one is enough
            return None
        self._resuming.add(call_id)
        try:
            if call_id in self._asked:  # it may hear the answer itself; if it does not, it is ours after that
                await asyncio.wait([self._asked[call_id]])
            return await self._resume(call_id, caller)
        finally:
            self._resuming.discard(call_id)

    async def _resume(self, call_id: str, caller: Caller) -> ToolResult | Pending | None:
        found = await self._ledger.find(call_id)
        if found is None or found.state != "accepted" or found.owner != caller.who.owner:
            return None
        record = at_work(found)
        began = time.monotonic()
        call = ToolCall(record.name, record.arguments, record.id)
        try:
            entry = find(call.name, caller)
            arguments = valid(entry, call.arguments)
            verdict = self._policy.decide(entry.spec, call, caller)
            started = await self._start_with_consent(
                Started(entry, arguments, caller, record, None, began, self._asking), verdict, call
            )
        except ToolError as error:
            return await self._refuse(record, Failure(error.code, error.message))
        return await self.call(call, caller, started) if isinstance(started, Started) else started

    async def _suspend(self, record: CallAtWork, pending: Pending) -> ToolResult | Pending:
        """Let the call wait, unless its outcome is there already, or comes while this is written."""
        if record.early is None:
            record.expires_at = None if pending.expires_in is None else time.time() + pending.expires_in
            self._pending.put(record.id, pending)
            try:
                await self._ledger.suspend(record)
            except ToolError as error:  # nobody could find it again: it ends here
                self._pending.keep(record, Failure(error.code, error.message))
            except BaseException:  # nobody waits any more: it ends here too
                self._pending.keep(record, _cancelled(record.name))
                raise
        return record.early or pending

    async def _first_result(self, record: CallRecord) -> ToolResult:
        kept = await self._ledger.find(record.id)
        assert kept is not None and not isinstance(kept.result, UnsetType)  # `finish` said that there is one
        return kept.result

    # Stations.

    async def _before(
        self, hooks: Hooks, call: ToolCall, entry: Entry, arguments: Arguments, caller: Caller
    ) -> tuple[ToolCall, Entry, Arguments]:
        """What the hooks leave of the call; when they changed it, it has gone through *find* to *hooks* again, once."""
        shown = HookedCall(call.id, entry.spec.name, arguments, caller.who.owner, caller.session, caller.agent.name)
        hooked = await hooks.before(shown, may_modify=True)
        if hooked is shown:
            return call, entry, arguments
        entry = find(hooked.name, caller)
        arguments = valid(entry, hooked.arguments)
        await hooks.before(hooked, may_modify=False)
        return ToolCall(hooked.name, arguments, call.id, call.deadline), entry, arguments

    async def _start_with_consent(self, started: Started, verdict: Verdict, call: ToolCall) -> Started | Pending:
        """Ask whoever has to be asked; then the call starts. `Pending` when the answer comes another day."""
        record = started.record
        if isinstance(verdict, Deny):
            raise ToolError("policy_denied", verdict.reason)
        if started.entry.is_new and not isinstance(verdict, Ask):
            verdict = Ask(f"{started.entry.spec.name!r} is new at {started.entry.origin}: nobody has used it yet.")
        approval = verdict.reason if isinstance(verdict, Ask) else None
        if record.state is not None or not self._asking.has_to_ask(started.entry, approval, started.caller):
            return await self._ask_and_start(started, verdict, call)
        await self._ledger.accept(record)  # whoever answers finds it, even if this process is gone by then
        over = self._asked[record.id] = asyncio.get_running_loop().create_future()
        try:
            return await self._ask_and_start(started, verdict, call)
        finally:
            del self._asked[record.id]
            over.set_result(None)

    async def _ask_and_start(self, started: Started, verdict: Verdict, call: ToolCall) -> Started | Pending:
        record = started.record
        try:
            consent = await self._consent(started, verdict, call)
        except Waiting:
            return Pending()
        if consent.waited:
            started.entry = still(started.entry, started.caller)
            record.tool = started.entry.facts
        if started.entry.is_new:  # whoever approved its first call agrees to it (T5)
            started.caller.box.accept(started.entry)
        record.arguments = started.arguments = consent.arguments
        started.deadline = started.deadline and started.deadline.later(consent.waited)
        if started.entry.outlives:
            record.expires_at = expiry(started.entry, started.deadline, time.time())
        written = self._ledger.start(record)
        if written is not None:
            await written
        return started

    async def _consent(self, started: Started, verdict: Verdict, call: ToolCall) -> Consent:
        """What those agreed to who had to be asked. A call that really has to ask is known to the ledger first."""
        entry, arguments, caller, record = started.entry, started.arguments, started.caller, started.record
        approval = verdict.reason if isinstance(verdict, Ask) else None
        is_new = record.state is None and self._asking.has_to_ask(entry, approval, caller)
        if is_new:
            await self._ledger.accept(record)  # whoever answers finds it, even if this process is gone by then
            self._resuming.add(record.id)  # while this one asks, no other goes on with it
        try:
            consent = await self._asking.permissions(entry, call, arguments, caller)
            if approval is None:
                return consent
            approved = await self._asking.approval(approval, entry, call, arguments, caller)
        finally:
            if is_new:
                self._resuming.discard(record.id)
        # What a person edited is checked like anything else.
        return Consent(valid(entry, approved.arguments), consent.waited + approved.waited)

    async def _refuse(self, record: CallRecord, failure: Failure) -> ToolResult:
        """A call that goes no further has its result too, and its place in the journal."""
        written = publish_when_stored(self._bus, self._ledger.finish(record, failure), record)
        if not isinstance(written, bool):
            await _once_written(written, record)
        return failure

    async def _after(self, hooks: Hooks, record: CallRecord, result: ToolResult) -> ToolResult:
        arguments = record.arguments if isinstance(record.arguments, Mapping) else {}
        shown = HookedCall(record.id, record.name, arguments, record.owner, record.session, record.agent)
        replaced = await hooks.after(shown, result)
        if replaced is result:
            return result
        record.true_result = result
        record.size += len(result.encoded) if isinstance(result, Success) else 0
        return _encoded(replaced)

    # Life.

    def open(self) -> None:
        """Begin to watch for tools that block the event loop."""
        self.watchdog.open()

    async def close(self) -> None:
        """Let threads, workers and clocks go. Pending calls stay open in the ledger."""
        self.watchdog.close()
        await self._pending.close()
        await self.running.close()


async def _once_written(written: Awaitable[bool], record: CallRecord) -> bool:
    """Whether this was the first result. When the ledger can't write, the caller gets its result all the same."""
    try:
        return await written
    except ToolError as error:
        _log.error("The result of the call %s (%s) could not be kept: %s", record.id, record.name, error.message)
        return True


def _cancelled(name: str) -> Failure:
    return Failure("cancelled", f"The call of {name!r} was cancelled.")


def _cancelled_late(record: CallRecord, result: ToolResult | None) -> Failure:
    """The result of a call that is cancelled; where the tool's answer is there already, the journal keeps it."""
    if result is None:
        return _cancelled(record.name)
    if isinstance(result, Failure):
        return result
    if isinstance(record.true_result, UnsetType):
        record.true_result = result
        record.size += len(result.encoded)
    return Failure("cancelled", f"The call of {record.name!r} was cancelled after the tool had run.")


def _encoded(result: ToolResult) -> ToolResult:
    """The result, serialised if it was not; one that can't be is a failure."""
    if isinstance(result, Failure) or result.encoded:
        return result
    try:
        return succeed(result.value, result.attachments)
    except ToolError as error:
        return Failure(error.code, error.message)
