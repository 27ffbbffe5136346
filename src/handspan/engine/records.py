"""The record of a call that this process runs, and the calls whose outcome comes later (SPEC E2, E8, H, W).

The outcome of a pending call comes from a browser or a person. The outcome may come early: before the tool returns
`Pending`, or while the ledger writes that the call is pending.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, final

from msgspec import UnsetType, structs

from handspan.core.calls import UNKNOWN_TOOL, CallRecord, ToolCall, ToolFacts
from handspan.core.results import Failure, Pending, ToolResult
from handspan.core.tasks import Tasks
from handspan.core.values import Arguments, round_seconds
from handspan.engine.caller import Caller
from handspan.engine.hooks import Hooks
from handspan.registry.entry import Entry


@final
class CallAtWork(CallRecord, gc=False):
    """The record of a call that this process runs. While the tool runs, the ledger returns this same object."""

    early: ToolResult | None = None
    """The outcome that came before the tool returned `Pending`."""
    hooks: Hooks | None = None
    """The hooks that saw the call begin, and see its end; None: there were none. A reload changes nothing for it."""


def new_record(
    call: ToolCall, caller: Caller, entry: Entry | None, arguments: Arguments | bytes | str, at: float
) -> CallAtWork:
    """Return the record of a call that no ledger has yet. `at`: the ledger's time."""
    raw = call.arguments
    return CallAtWork(
        call.id,
        call.name if entry is None else entry.spec.name,
        find_facts(entry, call.request),
        arguments,
        owner=caller.who.owner,
        session=caller.session,
        agent=caller.agent.name,
        at=at,
        size=len(raw) if isinstance(raw, (bytes, str)) else 0,
        asked_by=caller.asked_by,
    )


def find_facts(entry: Entry | None, request: str) -> ToolFacts:
    """Return what the record says about the tool. `request`: see `ToolCall.request`."""
    facts = UNKNOWN_TOOL if entry is None else entry.facts
    return structs.replace(facts, request=request) if request else facts


def take_over(found: CallRecord, hooks: Hooks | None) -> CallAtWork:
    """Return the record of a call that this process continues; with these hooks, if another process began the call."""
    return found if isinstance(found, CallAtWork) else CallAtWork(**structs.asdict(found), hooks=hooks)


class PendingCalls:
    """The calls of this process that wait for an outcome, each with its expiry."""

    def __init__(self, settle: Callable[[str, ToolResult], Coroutine[Any, Any, object]]) -> None:
        """`settle` gives a call that expires its outcome."""
        self._settle = settle
        self._waiting: dict[str, tuple[asyncio.Future[ToolResult | None], asyncio.TimerHandle | None]] = {}
        """For each call: the future of its result, and the timer of its expiry."""
        self._expiring = Tasks()

    def add(self, call_id: str, pending: Pending) -> None:
        """Let this call wait until its outcome comes or it expires."""
        loop = asyncio.get_running_loop()
        timer = None
        if pending.expires_in is not None:
            timer = loop.call_later(pending.expires_in, self._expire, call_id, pending.expires_in)
        self._waiting[call_id] = (loop.create_future(), timer)

    def keep_early(self, record: CallAtWork, outcome: ToolResult) -> Pending | None:
        """Keep this outcome until the call begins to wait. Return None when the call has an outcome: the first wins."""
        if record.early is not None:
            return None
        record.early = outcome
        if record.id not in self._waiting:
            self._waiting[record.id] = (asyncio.get_running_loop().create_future(), None)
        return Pending()

    def prolong(self, call_id: str, seconds: float) -> None:
        """Let this call expire after so many seconds from now, if it waits in this process."""
        outcome, timer = self._waiting.get(call_id, (None, None))
        if outcome is not None:
            if timer is not None:
                timer.cancel()
            timer = asyncio.get_running_loop().call_later(seconds, self._expire, call_id, seconds)
            self._waiting[call_id] = (outcome, timer)

    async def result(self, call_id: str) -> ToolResult | None:
        """Wait for the result of this call. Return None when the call does not wait in this process."""
        waiting = self._waiting.get(call_id)
        return None if waiting is None else await asyncio.shield(waiting[0])

    def finish(self, call_id: str, result: ToolResult | UnsetType) -> None:
        """Give the result to every caller of `result`: they get None when the ledger could not store the result."""
        outcome, timer = self._waiting.pop(call_id, (None, None))
        if timer is not None:
            timer.cancel()
        if outcome is not None and not outcome.get_loop().is_closed():
            outcome.set_result(None if isinstance(result, UnsetType) else result)

    async def close(self) -> None:
        """Stop the timers. The calls stay open in the ledger, where another process may settle them."""
        for outcome, timer in self._waiting.values():
            outcome.cancel()
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        await self._expiring.wait()

    def _expire(self, call_id: str, after: float) -> None:
        failure = Failure(
            "timeout", f"No outcome came within {round_seconds(after)}: the call does not wait any longer."
        )
        self._expiring.start(self._settle(call_id, failure))
