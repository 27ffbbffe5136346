"""One timer for all calls that wait (SPEC E5; a speed trick).

A timer of the event loop for each call costs more than the rest of the call's wait. With one timer, a call costs only
an entry in a set: most calls are over long before the timer rings.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from handspan.core.fast import IS_FAST

_TICK: Final = 0.001
"""Seconds. Event loops measure time no finer, and may ring this much too early."""


class TimedWait(Protocol):
    """A wait that has to be ended when its time is up."""

    loop: asyncio.AbstractEventLoop
    ends_at: float
    """By the clock of the loop. It must not change while the wait is in the alarm."""

    def expire(self) -> None:
        """End the wait: its time is over."""
        ...


class Alarm(Protocol):
    """Ends waits when their time is over."""

    def add(self, wait: TimedWait) -> None:
        """Call `expire` of this wait when its time is over."""
        ...

    @property
    def remove(self) -> Callable[[TimedWait], None]:
        """Forget a wait that is over."""
        ...

    def close(self) -> None:
        """Cancel every timer."""
        ...


def new_alarm(is_fast: bool = IS_FAST) -> Alarm:
    """Return an alarm. `is_fast=False`: an alarm with a timer of the event loop for each wait."""
    return _OneTimer() if is_fast else _TimerForEach()


class _TimerForEach:
    """Implements `Alarm` with a timer of the event loop for each wait."""

    def __init__(self) -> None:
        self._timers: dict[TimedWait, asyncio.TimerHandle] = {}

    def add(self, wait: TimedWait) -> None:
        self._timers[wait] = wait.loop.call_at(wait.ends_at, self._ring, wait)

    def remove(self, wait: TimedWait) -> None:
        timer = self._timers.pop(wait, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for wait in tuple(self._timers):
            self.remove(wait)

    def _ring(self, wait: TimedWait) -> None:
        del self._timers[wait]
        wait.expire()


class _OneTimer:
    """Implements `Alarm` with one timer, for one event loop at a time: the loop of the wait that was added last."""

    __slots__ = ("_loop", "_rings_at", "_timer", "_waits", "remove")

    def __init__(self) -> None:
        self._waits: set[TimedWait] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        self.remove: Callable[[TimedWait], None] = self._waits.discard
        """Leaves the timer as it is: to set it again for each removed wait would cost what this class saves."""

    def add(self, wait: TimedWait) -> None:
        if wait.loop is not self._loop:
            self._move(wait.loop)
        self._waits.add(wait)
        if wait.ends_at < self._rings_at:
            self._set(wait.loop, wait.ends_at)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, inf

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the waits of the former loop, which is over."""
        self.close()
        self._waits.clear()
        self._loop = loop

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self.close()
        self._timer, self._rings_at = loop.call_at(at, self._ring, loop), at

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        now = loop.time() + _TICK
        for wait in [one for one in self._waits if one.ends_at <= now]:
            self._waits.discard(wait)
            wait.expire()
        if self._waits:
            self._set(loop, min(one.ends_at for one in self._waits))
