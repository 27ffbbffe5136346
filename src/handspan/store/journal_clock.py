"""The time by which the journal ages. It does not follow a step of the system's clock (SPEC E8).

What is pruned is gone, and its idempotency keys would run again. So a clock that is wrong for a moment, or since the
computer was started, must remove nothing: the age of a call counts from the newest call of the journal, and a new time
of day is believed only after it has lasted for a day.
"""

import sys
import time
from collections.abc import Callable
from typing import Final

_STEP: Final = 60.0
"""Seconds; a smaller difference is the usual correction of a clock."""
_BELIEVED_AFTER: Final = 24 * 3600.0


def elapsed_seconds() -> float:
    """Returns seconds that never step, and that go on while the computer sleeps where the system can count that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class JournalClock:
    """Goes on from the newest call at the speed of a clock that never steps, and never beyond the time of day."""

    def __init__(self, clock: Callable[[], float], elapsed: Callable[[], float] = elapsed_seconds) -> None:
        self._clock = clock
        self.elapsed = elapsed
        self._set_at: float | None = None
        self._time = 0.0
        """The time of the journal at `_set_at`."""
        self._steady_since = elapsed()
        self._offset = clock() - self._steady_since
        """How far the two clocks were apart when the time of day was last believed to be steady."""

    @property
    def is_set(self) -> bool:
        """Whether it knows the newest call."""
        return self._set_at is not None

    def set(self, newest: float | None) -> None:
        """Begin at the time of the newest call; None for an empty journal."""
        self._set_at = self.elapsed()
        self._time = self._clock() if newest is None else newest

    def now(self) -> float:
        """Returns the time from which ages count."""
        elapsed, wall = self.elapsed(), self._clock()
        if abs(wall - elapsed - self._offset) > _STEP:
            self._offset, self._steady_since = wall - elapsed, elapsed
        elif elapsed - self._steady_since > _BELIEVED_AFTER:
            self._set_at, self._time = elapsed, wall
        if self._set_at is None:
            return 0.0
        return min(wall, self._time + elapsed - self._set_at)
