"""The timeouts of the calls that run: one timer for each."""

import asyncio
from collections.abc import Callable


class CallTimers:
    """Calls back when a call has timed out."""

    def __init__(self, expire: Callable[[str], None]) -> None:
        """`expire` gets the id of a call that has timed out."""
        self._expire = expire
        self._loop: asyncio.AbstractEventLoop
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use the clock of this loop."""
        self._loop = loop

    def set(self, call_id: str, seconds: float) -> None:
        """Let this call time out after this many seconds, in place of an earlier timer."""
        self.clear(call_id)
        self._timers[call_id] = self._loop.call_later(seconds, self._end, call_id)

    def clear(self, call_id: str) -> None:
        """Remove the timer of this call, if it has one."""
        timer = self._timers.pop(call_id, None)
        if timer is not None:
            timer.cancel()

    def ends_at(self, call_id: str) -> float | None:
        """Return when this call times out, by the clock of the loop."""
        timer = self._timers.get(call_id)
        return None if timer is None else timer.when()

    def close(self) -> None:
        """Remove every timer."""
        for call_id in tuple(self._timers):
            self.clear(call_id)

    def _end(self, call_id: str) -> None:
        del self._timers[call_id]
        self._expire(call_id)
