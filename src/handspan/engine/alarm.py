"""One timer for all who wait: most of them are long over when it rings (SPEC E5).

A timer of the event loop for each call costs more than all the rest of driving it. Here a call costs a place in a set.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

_TICK: Final = 0.001
"""Seconds. Loops measure time no finer than that, and may ring a little early."""


class Sleeper(Protocol):
    """Somebody who wants to hear when its time is up."""

    loop: asyncio.AbstractEventLoop
    ends_at: float
    """By the clock of the loop; must not change while the alarm knows it."""

    def time_is_up(self) -> None: ...


class Alarm:
    """Tells sleepers when their time is up. It is for one event loop at a time: the one of who came last."""

    __slots__ = ("_loop", "_rings_at", "_sleepers", "_timer", "remove")

    def __init__(self) -> None:
        self._sleepers: set[Sleeper] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        self.remove: Callable[[Sleeper], None] = self._sleepers.discard
        """Forget it. The timer stays: setting it anew for each one who goes is what is saved here."""

    def add(self, sleeper: Sleeper) -> None:
        """Wake this one when its time is up."""
        if sleeper.loop is not self._loop:
            self._move(sleeper.loop)
        self._sleepers.add(sleeper)
        if sleeper.ends_at < self._rings_at:
            self._set(sleeper.loop, sleeper.ends_at)

    def close(self) -> None:
        """Let the timer go."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, inf

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop before this one is over, and whoever slept there with it."""
        self.close()
        self._sleepers.clear()
        self._loop = loop

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self.close()
        self._timer, self._rings_at = loop.call_at(at, self._ring, loop), at

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        now = loop.time() + _TICK
        for sleeper in [one for one in self._sleepers if one.ends_at <= now]:
            self._sleepers.discard(sleeper)
            sleeper.time_is_up()
        if self._sleepers:
            self._set(loop, min(one.ends_at for one in self._sleepers))
