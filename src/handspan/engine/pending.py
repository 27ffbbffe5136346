"""Calls whose outcome comes later: a browser or a person has it (SPEC W, H; durable with the store)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from handspan.core.results import Failure, Pending, ToolResult


class PendingCalls:
    """The open calls of this process that wait for an outcome, each with its expiry."""

    def __init__(self, settle: Callable[[str, ToolResult], Awaitable[Any]]) -> None:
        self._settle = settle
        self._waiting: dict[str, tuple[asyncio.Future[ToolResult], asyncio.TimerHandle | None]] = {}
        self._expiring: set[asyncio.Task[Any]] = set()

    def put(self, call_id: str, pending: Pending) -> None:
        """Let this call wait, as long as it says."""
        loop = asyncio.get_running_loop()
        timer = None
        if pending.expires_in is not None:
            timer = loop.call_later(pending.expires_in, self._expire, call_id, pending.expires_in)
        self._waiting[call_id] = (loop.create_future(), timer)

    async def result(self, call_id: str) -> ToolResult | None:
        """The result, once it is there; None when no such call waits here."""
        waiting = self._waiting.get(call_id)
        return None if waiting is None else await asyncio.shield(waiting[0])

    def done(self, call_id: str, result: ToolResult) -> None:
        """This call has its result: whoever waits for it here gets it."""
        outcome, timer = self._waiting.pop(call_id, (None, None))
        if timer is not None:
            timer.cancel()
        if outcome is not None:
            outcome.set_result(result)

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
