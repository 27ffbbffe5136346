"""The way of one call, from a name and arguments to exactly one result (SPEC E1, E2).

The way has two halves, and the ledger keeps the state between them. `begin` goes from *find* to *started in the
ledger*; `_finish` goes from an outcome to the finished record. `call` does both halves, and runs the tool between them.
A call whose tool returns `Pending` stops there: its outcome comes later through `settle`, perhaps in another process.
"""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from msgspec import UNSET, UnsetType, structs

from handspan.core.artifacts import Artifacts
from handspan.core.bus import Bus
from handspan.core.calls import CallRecord, ToolCall, can_wait
from handspan.core.errors import StoreError, ToolError
from handspan.core.questions import Answer, Questions
from handspan.core.results import Failure, Pending, Success, ToolResult, add_edit_notice
from handspan.core.store import Ledger
from handspan.engine.caller import Caller, find_tool, read_arguments
from handspan.engine.concurrency import SlotsByOrigin
from handspan.engine.consent import Consents
from handspan.engine.hooks import Hooks, run_after_hooks, run_before_hooks
from handspan.engine.outcome import describe_error, encode_result, unknown_outcome
from handspan.engine.policy import ALLOW, ModePolicy, Policy
from handspan.engine.questions import QUESTION_TIMEOUT, Asker, RuleAnswers
from handspan.engine.records import CallAtWork, PendingCalls, new_record, take_over
from handspan.engine.result_limit import RESULT_LIMIT, ResultCutter, cut_message
from handspan.engine.results import OpenWork, Results
from handspan.engine.runner import Runner, Started, closed_error, find_expiry
from handspan.engine.watchdog import BlockerKind, Watchdog
from handspan.registry.entry import Entry

_log = logging.getLogger(__name__)
_LAST_SECONDS: Final = 3.0
"""How long `close` waits for calls to end: long enough for the grace time of a tool and the ledger's writes."""


class Engine:
    """Gives every call exactly one result. Raises nothing but cancellation."""

    def __init__(
        self,
        artifacts: Artifacts,
        workspace: Path,
        *,
        ledger: Ledger,
        policy: Policy | None = None,
        questions: Questions | None = None,
        question_timeout: float = QUESTION_TIMEOUT,
        hooks: Hooks | None = None,
        slots: SlotsByOrigin | None = None,
        result_limit: int = RESULT_LIMIT,
        result_preview: int = RESULT_LIMIT,
        bus: Bus | None = None,
    ) -> None:
        """`result_preview`: bytes that a model gets of a result above `result_limit`.

        `bus` gets a `CallCompleted` for each call, once the ledger has stored its result.
        """
        self._artifacts = artifacts
        self._policy = policy or ModePolicy()
        self.asker = Asker(questions or RuleAnswers(Answer("expired")), question_timeout)
        self._hooks = hooks or None  # None skips the stations of hooks: most gateways have no hooks
        self._replaced_hooks: list[Hooks] = []
        """Hooks of former settings. A call may still wait for them, so they are closed only with the engine."""
        self._ledger = ledger
        self._result_limit = result_limit
        self._result_preview = min(result_preview, result_limit)
        self.slots = slots = slots or SlotsByOrigin()
        self.runner = Runner(artifacts, workspace, slots)
        self.watchdog = Watchdog(slots.is_busy, self._find_working)
        self._pending = PendingCalls(self.settle)
        self._resuming: set[str] = set()
        """The ids of calls that `resume` continues now."""
        self._open_work = OpenWork()
        """Calls that have begun to run, or get their outcome, and have no stored result yet."""
        self._results = Results(self._ledger, bus, lambda: self.runner.is_stopped)
        self.consents = Consents(self._policy, self.asker, self._ledger, self._open_work)
        self.is_stopping = False
        """Whether the program ends: the results of cancelled calls say so."""
        self.hands_over = False
        """Whether the gateway stops in order: calls that can wait without this process are handed over to the next."""

    # The way of one call.

    async def call(self, call: ToolCall, caller: Caller, started: Started | None = None) -> ToolResult | Pending:
        """Return the call's one result; `Pending` when it comes later. `started`: what `begin` has returned."""
        if started is None:
            begun = await self.begin(call, caller)
            if not isinstance(begun, Started):
                return begun
            started = begun
        record, open_work = started.record, self._open_work
        open_work.count += 1
        try:
            try:
                outcome = await self.runner.run(started)
                if started.is_handed_over and (not started.entry.outlives or isinstance(outcome, Pending)):
                    return Pending()  # the ledger has the call as it is: the next process goes on from there
                if isinstance(outcome, Pending):
                    outcome = await self._suspend(record, outcome)
                    if isinstance(outcome, Pending):
                        return outcome
            except asyncio.CancelledError:
                await self._finish_cancelled(started)
                raise
            except GeneratorExit:  # the task itself is closed: nothing can be awaited any more
                self._results.write(record, self._cancellation(record.name))
                raise
            is_plain = isinstance(outcome, Success) and len(outcome.encoded) <= self._result_limit
            if not is_plain or record.hooks is not None or record.is_edited:
                outcome = await self._shape(record, outcome)
            written = self._results.store(record, outcome, started.began)
            answer = outcome if written is True else await self._results.wait(written, record, outcome)
            return answer if answer is not None else await self._results.find_first(record)
        finally:
            if record.early is not None:  # the caller of `settle` may wait in `result`
                record.early = None
                self._pending.finish(record.id, record.result)
            open_work.count -= 1
            open_work.notify()

    async def begin(self, call: ToolCall, caller: Caller) -> Started | ToolResult | Pending:
        """Go from *find* to *started*. Return a result when the call ends before that.

        Return `Pending` when the answer of a person comes later.
        """
        began = time.monotonic()
        entry = record = None
        try:
            if self.runner.is_stopped:  # the store is about to be closed
                raise closed_error(call.name)
            entry = find_tool(call.name, caller)  # find, available, enabled
            arguments = read_arguments(entry, call.arguments)
            hooks = self._hooks
            if hooks is not None:
                call, entry, arguments = await run_before_hooks(hooks, call, entry, arguments, caller=caller)
            record = new_record(call, caller, entry, arguments, at=self._ledger.now())
            record.hooks = hooks
            started = Started(entry, arguments, caller, record, deadline=call.deadline, began=began, asker=self.asker)
            spec = entry.spec if entry.is_read_only is None else entry.spec_for(arguments)
            verdict = self._policy.decide(spec, call, caller)
            if verdict is not ALLOW or not entry.starts_at_once:
                if verdict is not ALLOW or entry.asks_first:  # permissions, approval
                    return await self.consents.start(started, verdict, call)
                if entry.suspends:
                    return started  # the ledger writes the call once, when it suspends: no tool is touched before
                record.expires_at = find_expiry(entry, call.deadline, record.at)
            written = self._ledger.start(record)
            if written is not None:
                with self._open_work:
                    await written
            return started
        except asyncio.CancelledError:
            is_accepted = record is not None and record.state == "accepted"
            if not (is_accepted and caller.goes_on_elsewhere()):  # else the next process has its question
                await self._results.refuse(
                    record or self._refused_call(call, caller, entry), self._cancellation(call.name)
                )
            raise
        except Exception as error:  # even an error of a hook or the policy: a call without a verdict does not run
            failure = self._describe_refusal(call.name, error)
            return await self._results.refuse(record or self._refused_call(call, caller, entry), failure)

    async def refuse(self, call: ToolCall, caller: Caller, failure: Failure) -> ToolResult:
        """Give a call that its caller does not want to run this failure as its result, also in the journal."""
        return await self._results.refuse(self._refused_call(call, caller, caller.box.find(call.name)), failure)

    def _refused_call(self, call: ToolCall, caller: Caller, entry: Entry | None) -> CallAtWork:
        """Return the record of a call that was refused early, with the beginning of its arguments."""
        entry, raw = entry or caller.box.find_refused(call.name), call.arguments  # a tool that may not be used is named
        arguments = raw[:4096] if isinstance(raw, (bytes, str)) else raw
        return new_record(call, caller, entry, arguments, at=self._ledger.now())

    def _describe_refusal(self, name: str, error: Exception) -> Failure:
        """Return the result of a call that could not begin because of this error."""
        match error:
            case StoreError() if self.runner.is_stopped:
                return unknown_outcome(name)  # the call may be stored all the same, and nothing will correct that
            case StoreError():
                text = f"Tool {name!r} was not run: {error.message} It is safe to call it again."
                return Failure("interrupted", text)
            case ToolError():
                return Failure(error.code, error.message)
        _log.exception("The call of %r could not begin", name)
        return Failure("internal_error", f"Tool {name!r} was not run: {describe_error(error)}")

    async def _finish_cancelled(self, started: Started) -> None:
        """Give a call whose caller was cancelled its result, unless it stays open for another process."""
        if not started.stays_open():
            record = started.record
            await self._finish(record, self._late_cancellation(record, record.early), started.began)

    async def _finish(self, record: CallRecord, result: ToolResult, began: float) -> ToolResult | None:
        """Go from the outcome to the journal and return the result. Return None when the call has a result already."""
        result = await self._shape(record, result)
        written = self._results.store(record, result, began)
        return result if written is True else await self._results.wait(written, record, result)

    async def _shape(self, record: CallRecord, result: ToolResult) -> ToolResult:
        """Return the result after the after-hooks and the size limit. A small success without hooks needs neither."""
        try:
            hooks = record.hooks if isinstance(record, CallAtWork) else self._hooks
            if hooks is not None:
                result = await run_after_hooks(hooks, record, result)
            if not isinstance(result, Success):
                result = cut_message(result, self._result_limit)
            elif len(result.encoded) > self._result_limit:
                room = self._result_preview
                cutter = ResultCutter(self._artifacts, record.owner, record.session, record.name, room=room)
                result = await cutter.limit(result)
            if record.is_edited:  # P5: the model is told which arguments the tool ran with
                result = add_edit_notice(result, record.arguments)
            return result
        except asyncio.CancelledError:  # the caller was cancelled: the call still gets its result
            await self._results.refuse(record, self._late_cancellation(record, result))
            raise

    # Calls that wait for an outcome from elsewhere, or for a person.

    async def settle(self, call_id: str, outcome: ToolResult) -> ToolResult | Pending | None:
        """Give a pending call its outcome and return its result. Return None when it has a result, or never waited.

        Return `Pending` when the tool still runs in this process: it may be about to return `Pending`. The outcome is
        kept for that moment, and dropped when the tool returns a result itself. `result` waits for the end of such a
        call. `settle` does not wait for it: its caller may be the tool itself, or a task that the tool waits for.
        """
        found = await self._ledger.find(call_id)
        if isinstance(found, CallAtWork) and (found.state == "started" or found.early is not None):
            return self._pending.keep_early(found, encode_result(outcome))
        if found is None or found.state != "pending":
            if found is not None and found.state == "done":  # by another process, or as too late: tell who waits here
                self._pending.finish(call_id, found.result)
            return None
        record = structs.replace(found)  # two callers may settle at once: a copy keeps their writes apart
        # Another process may have begun the call: only the ledger's clock is the same in both.
        took = max(0.0, self._ledger.now() - record.at - record.waited)
        try:
            with self._open_work:
                result = await self._finish(record, encode_result(outcome), time.monotonic() - took)
        except asyncio.CancelledError:  # the call got its result all the same
            self._pending.finish(call_id, record.result)
            raise
        if result is not None:
            self._pending.finish(call_id, result)
        return result

    async def cancel(self, call_id: str) -> None:
        """Cancel a call that waits for an outcome from elsewhere, or since an earlier process for a person."""
        found = await self._ledger.find(call_id)
        if found is not None and found.state == "accepted":
            await self._results.refuse(structs.replace(found), self._cancellation(found.name))
        elif found is not None:
            await self.settle(call_id, self._cancellation(found.name))

    def look_again(self, call_id: str) -> None:
        """Let `result` return what the ledger has: another process settled the call, or waits for it from now on."""
        self._pending.finish(call_id, UNSET)

    async def prolong(self, record: CallRecord, seconds: float) -> None:
        """Let a pending call expire after so many seconds from now."""
        self._pending.prolong(record.id, seconds)
        await self._ledger.suspend(structs.replace(record, expires_at=self._ledger.now() + seconds))

    def can_hand_over(self, call_id: str) -> bool:
        """Whether a call that asks a person now can wait for the answer without this process."""
        started = self.runner.find(call_id)
        if started is not None:
            return can_wait(started.record, is_asking=True)
        return call_id in self.consents.waiting or call_id in self._resuming

    async def result(self, call_id: str) -> ToolResult | None:
        """Wait for the result of a call that is pending in this process. For another call, return what is stored."""
        result = await self._pending.result(call_id)
        if result is not None:
            return result
        record = await self._ledger.find(call_id)  # the result may have come meanwhile
        return None if record is None or isinstance(record.result, UnsetType) else record.result

    async def resume(self, call_id: str, caller: Caller) -> ToolResult | Pending | None:
        """Continue a call whose question was answered. Return its result; None when no such call waits for a person."""
        if call_id in self._resuming:  # another door resumes it already
            return None
        self._resuming.add(call_id)
        try:
            if call_id in self.consents.waiting:  # the waiting call may get the answer; only else we resume it
                await asyncio.wait([self.consents.waiting[call_id]])
            return await self._resume(call_id, caller)
        finally:
            self._resuming.discard(call_id)

    async def _resume(self, call_id: str, caller: Caller) -> ToolResult | Pending | None:
        """Go on with a call that waited for a person: check it anew, and run it if that is allowed now.

        Return None if the call is not open any more, or another owner's.
        """
        found = await self._ledger.find(call_id)
        if found is None or found.state != "accepted" or found.owner != caller.who.owner:
            return None
        record = take_over(found, self._hooks)
        record.waited = max(0.0, self._ledger.now() - record.at)
        began = time.monotonic()
        call = ToolCall(record.name, record.arguments, record.id)
        try:
            entry = find_tool(call.name, caller)
            arguments = read_arguments(entry, call.arguments)
            verdict = self._policy.decide(entry.spec_for(arguments), call, caller)
            resumed = Started(entry, arguments, caller, record, deadline=None, began=began, asker=self.asker)
            started = await self.consents.start(resumed, verdict, call)
        except ToolError as error:
            return await self._results.refuse(record, self._describe_refusal(record.name, error))
        return await self.call(call, caller, started) if isinstance(started, Started) else started

    async def _suspend(self, record: CallAtWork, pending: Pending) -> ToolResult | Pending:
        """Let the call wait. Return its outcome if that has come already, or comes while the ledger writes."""
        if record.early is None:
            record.expires_at = None if pending.expires_in is None else self._ledger.now() + pending.expires_in
            self._pending.add(record.id, pending)
            try:
                await self._ledger.suspend(record)
            except ToolError as error:  # no outcome could find the call again: the call ends now, and no client has it
                self._pending.keep_early(record, self._describe_refusal(record.name, error))
            except BaseException:  # the caller was cancelled: the call ends, too
                self._pending.keep_early(record, self._cancellation(record.name))
                raise
            if pending.begin is not None and record.early is None:
                pending.begin()
        return record.early or pending

    def _cancellation(self, name: str) -> Failure:
        why = ": the gateway was stopped" if self.is_stopping else ""
        return Failure("cancelled", f"The call of {name!r} was cancelled{why}.")

    def _late_cancellation(self, record: CallRecord, result: ToolResult | None) -> Failure:
        """Return the result of a cancelled call. If the tool has a success already, the record keeps that, too."""
        if result is None:
            return self._cancellation(record.name)
        if isinstance(result, Failure):
            return result
        if isinstance(record.true_result, UnsetType):
            record.true_result = result
            record.size += len(result.encoded)
        return Failure("cancelled", f"The call of {record.name!r} was cancelled after the tool had run.")

    # Opening and closing.

    def open(self) -> None:
        """Begin to watch for tools that block the event loop."""
        self.watchdog.open()

    def _find_working(self) -> tuple[BlockerKind, str] | None:
        """Return the kind and the name of the code that runs on the event loop now. Another thread calls this."""
        if (hooks := self._hooks) is not None and hooks.working:
            return "The hook", hooks.working
        return ("Tool", self.runner.reaper.working) if self.runner.reaper.working else None

    @property
    def has_hooks(self) -> bool:
        """Whether there are hooks. With hooks, a call may run another tool than the one that it names."""
        return self._hooks is not None

    def use_hooks(self, hooks: Hooks | None) -> None:
        """Check calls that begin from now on with these hooks."""
        if self._hooks is not None:
            self._replaced_hooks.append(self._hooks)
        self._hooks = hooks or None

    def use_limits(self, *, question_timeout: float, result_limit: int, result_preview: int) -> None:
        """Apply these limits from now on."""
        self.asker.expires_in = question_timeout
        self._result_limit = result_limit
        self._result_preview = min(result_preview, result_limit)

    async def close(self) -> None:
        """Stop the tools that run and let each call store its result; then end threads, workers and timers.

        Calls of doors and turns have ended before. Calls of a program that embeds this engine end now. Pending calls
        stay open in the ledger.
        """
        await asyncio.sleep(0)  # an answer that has come counts
        self.runner.stop()
        if not await self._open_work.wait(_LAST_SECONDS):
            _log.error("%d calls did not end in time: their results are not stored", self._open_work.count)
        self.watchdog.close()
        for hooks in (*self._replaced_hooks, *([self._hooks] if self._hooks is not None else [])):
            hooks.close()
        await self._pending.close()
        await self.runner.close()
