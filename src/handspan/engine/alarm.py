"""One timer for all calls that wait (SPEC E5).

A timer of the event loop for each call would take 5 µs of a call that waits: with one, a call is only an entry in a
set, and most calls are over long before the timer rings.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

_TICK: Final = 0.001
"""Seconds. Event loops measure time no finer, and may ring this much too early."""


class TimedWait(Protocol):
    """A wait that has to be ended when its time is up. While the alarm has it, `ends_at` must not change."""

    loop: asyncio.AbstractEventLoop
    ends_at: float
    """By the clock of the loop."""

    def expire(self) -> None: ...


class Alarm:
    """Ends waits when their time is over, in one event loop at a time: that of the wait that was added last."""

    __slots__ = ("_loop", "_rings_at", "_timer", "_waits", "remove")

    def __init__(self) -> None:
        self._waits: set[TimedWait] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        self.remove: Callable[[TimedWait], None] = self._waits.discard
        """Forgets a wait that is over, and leaves the timer as it is: it rings once too often at most."""

    def add(self, wait: TimedWait) -> None:
        """Call `expire` of this wait when its time is over."""
        if wait.loop is not self._loop:  # the waits of the former loop are over with it
            self.close()
            self._waits.clear()
            self._loop = wait.loop
        self._waits.add(wait)
        if wait.ends_at < self._rings_at:
            self._set(wait)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, inf

    def _set(self, first: TimedWait) -> None:
        self.close()
        self._timer, self._rings_at = first.loop.call_at(first.ends_at, self._ring), first.ends_at

    def _ring(self) -> None:
        self.close()
        for wait in [one for one in self._waits if one.ends_at <= one.loop.time() + _TICK]:
            self._waits.discard(wait)
            wait.expire()
        if self._waits:
            self._set(min(self._waits, key=lambda one: one.ends_at))
