"""The timers of the calls that run, one for each."""

import asyncio
from collections.abc import Callable


class CallTimers:
    """Tells when the time of a call is up."""

    def __init__(self, expire: Callable[[str], None]) -> None:
        """`expire` gets the id of a call whose time is up."""
        self._expire = expire
        self._loop: asyncio.AbstractEventLoop
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go by the clock of this loop."""
        self._loop = loop

    def set(self, call_id: str, seconds: float) -> None:
        """Give this call so many seconds from now, in place of what was set before."""
        self.clear(call_id)
        self._timers[call_id] = self._loop.call_later(seconds, self._end, call_id)

    def clear(self, call_id: str) -> None:
        """Forget the timer of this call, if it has one."""
        timer = self._timers.pop(call_id, None)
        if timer is not None:
            timer.cancel()

    def ends_at(self, call_id: str) -> float | None:
        """When this call's time is up, by the clock of the loop."""
        timer = self._timers.get(call_id)
        return None if timer is None else timer.when()

    def close(self) -> None:
        """Forget every timer."""
        for call_id in tuple(self._timers):
            self.clear(call_id)

    def _end(self, call_id: str) -> None:
        del self._timers[call_id]
        self._expire(call_id)
