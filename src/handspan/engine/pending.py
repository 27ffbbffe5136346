"""Calls whose outcome comes later: a browser or a person has it (SPEC W, H; durable with the store).

It may also come early: a tool hands its call out before it answers `Pending`, and that has to be written too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UnsetType

from handspan.core.results import Failure, Pending, ToolResult
from handspan.engine.records import CallAtWork


class PendingCalls:
    """The open calls of this process that wait for an outcome, each with its expiry."""

    def __init__(self, settle: Callable[[str, ToolResult], Awaitable[Any]]) -> None:
        self._settle = settle
        self._waiting: dict[str, tuple[asyncio.Future[ToolResult | None], asyncio.TimerHandle | None]] = {}
        self._expiring: set[asyncio.Task[Any]] = set()

    def put(self, call_id: str, pending: Pending) -> None:
        """Let this call wait, as long as it says."""
        loop = asyncio.get_running_loop()
        timer = None
        if pending.expires_in is not None:
            timer = loop.call_later(pending.expires_in, self._expire, call_id, pending.expires_in)
        self._waiting[call_id] = (loop.create_future(), timer)

    def keep(self, record: CallAtWork, outcome: ToolResult) -> Pending | None:
        """Keep this outcome for the moment when the call waits; None when it has one: the first wins."""
        if record.early is not None:
            return None
        record.early = outcome
        if record.id not in self._waiting:
            self._waiting[record.id] = (asyncio.get_running_loop().create_future(), None)
        return Pending()

    async def result(self, call_id: str) -> ToolResult | None:
        """The result, once it is there; None when no such call waits here."""
        waiting = self._waiting.get(call_id)
        return None if waiting is None else await asyncio.shield(waiting[0])

    def done(self, call_id: str, result: ToolResult | UnsetType) -> None:
        """This call has its result: whoever waits for it here gets it, or None when it could not be kept."""
        outcome, timer = self._waiting.pop(call_id, (None, None))
        if timer is not None:
            timer.cancel()
        if outcome is not None and not outcome.get_loop().is_closed():
            outcome.set_result(None if isinstance(result, UnsetType) else result)

    async def close(self) -> None:
        """Stop the clocks. The calls stay open in the ledger: another process may settle them."""
        for outcome, timer in self._waiting.values():
            outcome.cancel()
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        await asyncio.gather(*self._expiring)

    def _expire(self, call_id: str, after: float) -> None:
        failure = Failure("timeout", f"No outcome came within {after:g} s: nobody is waiting for it any more.")
        task = asyncio.ensure_future(self._settle(call_id, failure))
        self._expiring.add(task)
        task.add_done_callback(self._expiring.discard)
