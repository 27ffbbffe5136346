"""One timer for all calls that run: most of them are long over when it rings.

A timer of the event loop for each call costs more than its place in a dictionary.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

_TICK: Final = 0.001
"""Seconds. Loops measure time no finer than that, and may ring a little early."""


class Alarm:
    """Says whose time is up."""

    def __init__(self, time_is_up: Callable[[str], None]) -> None:
        self._time_is_up = time_is_up
        self._loop: asyncio.AbstractEventLoop
        self._ends_at: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go by the clock of this loop."""
        self._loop = loop

    def set(self, call_id: str, seconds: float) -> None:
        """Ring for this call after so many seconds, counted from now; what was set before is forgotten."""
        at = self._ends_at[call_id] = self._loop.time() + seconds
        if at < self._rings_at:
            self._ring_at(at)

    def clear(self, call_id: str) -> None:
        """Do not ring for this call. The timer stays: setting it anew for each one that ends is what is saved here."""
        self._ends_at.pop(call_id, None)

    def ends_at(self, call_id: str) -> float | None:
        """When this call's time is up, by the clock of the loop."""
        return self._ends_at.get(call_id)

    def close(self) -> None:
        """Ring no more."""
        self._ends_at.clear()
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, inf

    def _ring_at(self, at: float) -> None:
        self._stop()
        self._timer, self._rings_at = self._loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._stop()
        now = self._loop.time() + _TICK
        for _, call_id in sorted((at, call_id) for call_id, at in self._ends_at.items() if at <= now):
            if self._ends_at.pop(call_id, None) is not None:  # it has not ended meanwhile, by what another one caused
                self._time_is_up(call_id)
        if self._ends_at:
            self._ring_at(min(self._ends_at.values()))
