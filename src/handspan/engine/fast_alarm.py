"""One timer for all calls that wait: most of them are long over when it rings (SPEC E5; a speed trick).

A timer of the event loop for each call costs more than all the rest of driving it. Here a call costs a place in a set.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from handspan.core.fast import IS_FAST

_TICK: Final = 0.001
"""Seconds. Loops measure time no finer than that, and may ring a little early."""


class Sleeper(Protocol):
    """A wait that has to be ended when its time is up."""

    loop: asyncio.AbstractEventLoop
    ends_at: float
    """By the clock of the loop; must not change while the alarm knows it."""

    def time_is_up(self) -> None: ...


class Alarm(Protocol):
    """Tells sleepers when their time is up."""

    def add(self, sleeper: Sleeper) -> None:
        """Wake this one when its time is up."""
        ...

    @property
    def remove(self) -> Callable[[Sleeper], None]:
        """Forget it."""
        ...

    def close(self) -> None:
        """Let every timer go."""
        ...


def new_alarm(is_fast: bool = IS_FAST) -> Alarm:
    """Return an alarm. `is_fast=False`: one that takes a timer of the event loop for each sleeper."""
    return _OneTimer() if is_fast else _TimerForEach()


class _TimerForEach:
    def __init__(self) -> None:
        self._timers: dict[Sleeper, asyncio.TimerHandle] = {}

    def add(self, sleeper: Sleeper) -> None:
        self._timers[sleeper] = sleeper.loop.call_at(sleeper.ends_at, self._ring, sleeper)

    def remove(self, sleeper: Sleeper) -> None:
        timer = self._timers.pop(sleeper, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for sleeper in tuple(self._timers):
            self.remove(sleeper)

    def _ring(self, sleeper: Sleeper) -> None:
        del self._timers[sleeper]
        sleeper.time_is_up()


class _OneTimer:
    """It is for one event loop at a time: the one of the sleeper that came last."""

    __slots__ = ("_loop", "_rings_at", "_sleepers", "_timer", "remove")

    def __init__(self) -> None:
        self._sleepers: set[Sleeper] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        self.remove: Callable[[Sleeper], None] = self._sleepers.discard
        """The timer stays: setting it anew for each sleeper that goes is what is saved here."""

    def add(self, sleeper: Sleeper) -> None:
        if sleeper.loop is not self._loop:
            self._move(sleeper.loop)
        self._sleepers.add(sleeper)
        if sleeper.ends_at < self._rings_at:
            self._set(sleeper.loop, sleeper.ends_at)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, inf

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the sleepers of the loop before this one: it is over."""
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
