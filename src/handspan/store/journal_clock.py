"""The time by which the journal ages. It does not follow a step of the system's clock (SPEC E8).

A call that is pruned is gone, and a request with its idempotency key would run again. So a clock that is wrong for a
moment, or since the computer was started, must remove nothing, even when the gateway is started again meanwhile and
writes calls with the wrong time. A time of day is believed only after a day in which the clock did not step. The
believed time is stored, because a process may end before that day is over.
"""

import sys
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

_STEP: Final = 60.0
"""Seconds; a smaller difference is the usual correction of a clock."""
_BELIEVED_AFTER: Final = 24 * 3600.0


def elapsed_seconds() -> float:
    """Return seconds that never step, and that go on while the computer sleeps where the system can count that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class JournalTime(Struct, frozen=True):
    """What a process stores for the next process. Both times are in seconds since 1970."""

    believed: float
    """The journal's time, from which ages were counted."""
    seen: float
    """The time of day since which the clock has not stepped."""


class JournalClock:
    """Goes on from the believed time at the speed of a clock that never steps, and never beyond the time of day."""

    def __init__(self, clock: Callable[[], float], elapsed: Callable[[], float] = elapsed_seconds) -> None:
        self._clock = clock
        self.elapsed = elapsed
        self._set_at: float | None = None
        """When `_time` was set, by `elapsed`; None before the first time."""
        self._time = 0.0
        """The time of the journal at `_set_at`."""
        self._see(clock())

    @property
    def is_set(self) -> bool:
        """Whether the clock has a time to begin with."""
        return self._set_at is not None

    def set(self, newest: float | None, stored: JournalTime | None = None) -> None:
        """Begin at the stored time; without it, at the time of the newest call; without a call, now."""
        wall = self._clock()
        if stored is None:
            self._begin(wall if newest is None else newest)
        elif -_STEP <= wall - stored.seen < _BELIEVED_AFTER:
            self._begin(stored.believed)
            if (ago := wall - stored.seen) > self.elapsed() - self._seen_at:  # else this process knows more itself
                self._see(stored.seen, ago)
        else:  # a time of day that is a day later confirms `seen`; an earlier one shows that `seen` was wrong
            self._begin(max(stored.believed, stored.seen) if wall > stored.seen else stored.believed)

    def now(self) -> float:
        """Return the time from which ages count."""
        elapsed, wall = self.elapsed(), self._clock()
        if abs(wall - self._seen - (elapsed - self._seen_at)) > _STEP:
            self._see(wall)
        elif elapsed - self._seen_at > _BELIEVED_AFTER:
            self._begin(wall)
        if self._set_at is None:
            return 0.0
        return min(wall, self._time + elapsed - self._set_at)

    def snapshot(self) -> JournalTime:
        """Return the times that the next process needs."""
        return JournalTime(self.now(), self._seen)

    def _begin(self, believed: float) -> None:
        """Count the journal's time from here on."""
        self._set_at, self._time = self.elapsed(), believed

    def _see(self, wall: float, ago: float = 0.0) -> None:
        """Note a time of day since which the clock has not stepped. `ago`: how many seconds ago it was seen."""
        self._seen, self._seen_at = wall, self.elapsed() - ago
