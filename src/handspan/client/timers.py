"""The timeouts of the calls that run: one timer of the event loop for all of them.

Most calls end long before they time out. An entry in a dictionary costs less than a timer that is made and cancelled.
"""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Final

_TICK: Final = 0.001
"""Seconds. Event loops measure time no finer than that, and may run a timer a little early."""


class CallTimers:
    """Calls back when a call has timed out."""

    def __init__(self, expire: Callable[[str], None]) -> None:
        """`expire` gets the id of a call that has timed out."""
        self._expire = expire
        self._ends_at: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._runs_at = inf

    def set(self, call_id: str, seconds: float) -> None:
        """Let this call time out after this many seconds, in place of an earlier timeout."""
        at = self._ends_at[call_id] = time.monotonic() + seconds
        if at < self._runs_at:
            self._run_at(at)

    def clear(self, call_id: str) -> None:
        """Remove the timeout of this call, if it has one. The timer stays: it finds nothing to do when it runs."""
        self._ends_at.pop(call_id, None)

    def ends_at(self, call_id: str) -> float | None:
        """Return when this call times out, by the monotonic clock."""
        return self._ends_at.get(call_id)

    def close(self) -> None:
        """Remove every timeout."""
        self._ends_at.clear()
        self._cancel()

    def _run_at(self, at: float) -> None:
        self._cancel()
        loop = asyncio.get_running_loop()
        self._timer, self._runs_at = loop.call_later(at - time.monotonic(), self._run), at

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._runs_at = None, inf

    def _run(self) -> None:
        self._cancel()
        now = time.monotonic() + _TICK
        for _, call_id in sorted((at, call_id) for call_id, at in self._ends_at.items() if at <= now):
            if self._ends_at.pop(call_id, None) is not None:  # an earlier `expire` may have ended this call
                self._expire(call_id)
        if self._ends_at:
            self._run_at(min(self._ends_at.values()))
