"""The clock of one tool that waits: its deadline, its grace time, and the time that stands still (SPEC E5, E6).

A wait says what to throw into the coroutine, and why the coroutine was stopped. `deadline.py` drives the coroutine.
"""

import asyncio
from math import inf
from typing import Any

from handspan.engine.alarm import Alarm

GRACE = 2.0
"""Seconds that a coroutine has to end after its deadline or its cancellation."""


class DeadlineReached(Exception):
    """The coroutine was stopped at its deadline. `stuck`: the coroutine did not end within its grace time either."""

    def __init__(self, stuck: bool) -> None:
        super().__init__()
        self.stuck = stuck


class Wait:
    """The wait of a task for what one coroutine wants, until the coroutine's deadline or a cancellation."""

    cancelled: asyncio.CancelledError | None = None
    """The task's cancellation: by its caller, or by a timeout inside the coroutine."""
    was_disturbed = False
    """The time was over once, or the task was cancelled. Most waits are never disturbed."""
    is_late = False
    """The deadline was reached."""
    is_over = False
    """The deadline or the grace time has passed, whichever was set last."""
    was_stopped = False
    """The coroutine has got its `CancelledError`."""
    _may_be_inner = False
    """The cancellation may come from a timeout inside the coroutine."""
    _is_in_grace = False
    """`ends_at` is the end of a grace time, not the deadline."""
    _waits_for: "asyncio.Future[Any] | None" = None
    """The future that the task waits for, or waited for last."""
    _is_armed = False
    """The alarm knows this wait."""
    _is_paused = False
    """A person is asked. The clock stands still, except for a grace time."""
    _left: float | None = None
    """Seconds until the deadline, while the clock stands still; else None."""

    def __init__(self, task: "asyncio.Task[Any]", seconds: float | None, grace: float, alarm: Alarm) -> None:
        self.task = task
        self.loop = task.get_loop()
        self._cancellations_before = self._cancellations_seen = task.cancelling()
        """The task's number of cancellations when this wait began, and the number that this wait has noted."""
        self._grace = grace
        self._alarm = alarm
        self._deadline = self.ends_at = inf if seconds is None else self.loop.time() + seconds
        """When the tool's time is over, and when this wait ends: at the deadline, later at the end of the grace time.

        Both by the clock of the loop; `inf` without a deadline, and while the clock stands still.
        """

    def begin(self, wanted: "asyncio.Future[Any]") -> None:
        """Prepare the task's wait for this future. The alarm starts here: a bare `yield` needs none."""
        self._waits_for = wanted
        wanted._asyncio_future_blocking = True  # as `await` does it for a task
        if not self._is_armed and self.ends_at != inf:
            self._is_armed = True
            self._alarm.add(self)

    def find_cancellation(self, error: BaseException) -> asyncio.CancelledError | None:
        """Return the error if it cancels the task; None if it is the error of the future."""
        if not isinstance(error, asyncio.CancelledError):
            return None
        # A task counts its cancellations. The cancellation by an outer deadline is not counted, but has a cause.
        is_new = self.task.cancelling() > self._cancellations_seen
        if not is_new and not isinstance(error.__cause__, DeadlineReached):
            return None
        self.note_cancellation(error)
        return error

    def note_cancellation(self, error: asyncio.CancelledError) -> None:
        """Store that the task is being cancelled. What the task waits for has a grace time to end."""
        self._cancellations_seen = self.task.cancelling()
        is_counted = self._cancellations_seen > self._cancellations_before
        self._may_be_inner = is_counted and (self.cancelled is None or self._may_be_inner)
        self.cancelled = error
        self.was_disturbed = True
        if not self._is_in_grace:
            self._give_grace()

    def reach_deadline(self) -> bool:
        """Begin the grace time of what is waited for. Return False when the grace time has passed, too."""
        if self._is_in_grace:
            return False
        self.is_late = True
        self._give_grace()
        return True

    def find_error(self, thrown: BaseException | None) -> BaseException | None:
        """Return the error to throw into the coroutine now, if any. If the coroutine has to end, its grace time begins.

        `thrown`: the error that the wait for a future ended with.
        """
        if self.is_over and not self._is_in_grace:
            self.is_late = True
        if self.was_stopped or not (self.is_late or self.cancelled is not None):
            return thrown
        self.was_stopped = True
        self._give_grace()
        return _cancellation() if self.is_late and thrown is None else thrown

    def forget_inner_cancellation(self) -> None:
        """Forget a cancellation by a timeout inside the coroutine, once the coroutine has handled it."""
        if self.cancelled is None:
            return
        self._cancellations_seen = min(self._cancellations_seen, self.task.cancelling())
        if not self._may_be_inner or self._cancellations_seen > self._cancellations_before:
            return
        self.cancelled = None
        if not self.is_late:
            self._is_in_grace = self.was_stopped = False
            self._set(self._deadline)
            self._stop_clock()

    def reason(self, *, stuck: bool = False) -> BaseException | None:
        """Return why the coroutine was stopped; None if it was not. A cancellation counts even after the deadline."""
        self.forget_inner_cancellation()
        return self.cancelled or (DeadlineReached(stuck) if self.is_late else None)

    def pause(self) -> None:
        """Stop the clock while a person is asked, unless the time is over already."""
        self._is_paused = True
        self.forget_inner_cancellation()  # a timeout inside the coroutine may be the reason for the question
        self._stop_clock()

    def _stop_clock(self) -> None:
        if self._is_paused and self._left is None and not self.is_over and not self._is_in_grace:
            self._left = self.ends_at - self.loop.time()
            self._set(inf)
            self._deadline = inf

    def resume(self) -> None:
        """Let the clock run again with the time that was left."""
        self._is_paused = False
        if self._left is None:
            return
        self._deadline, self._left = self.loop.time() + self._left, None
        if not self._is_in_grace:
            self._set(self._deadline)
            if self._waits_for is not None and self._deadline != inf:
                self._is_armed = True
                self._alarm.add(self)

    def check_clock(self) -> None:
        """Check whether the time is over. A bare `yield` sets no alarm."""
        if self.loop.time() >= self.ends_at:
            self.is_over = self.was_disturbed = True

    def disarm(self) -> None:
        """Remove this wait from the alarm."""
        if self._is_armed:
            self._is_armed = False
            self._alarm.remove(self)

    def _give_grace(self) -> None:
        self._is_in_grace = True
        self._set(self.loop.time() + self._grace)

    def _set(self, at: float) -> None:
        self.disarm()
        self.is_over = False
        self.ends_at = at

    def stop(self) -> None:
        """End the wait as if the deadline had come. A grace time that has begun goes on."""
        if not self._is_in_grace:
            self.expire()

    def expire(self) -> None:
        """End the wait: the alarm calls this when the time is over."""
        self.is_over = self.was_disturbed = True
        if self._waits_for is not None:
            self._waits_for.cancel()


def _cancellation() -> asyncio.CancelledError:
    """Return the error for a coroutine at its deadline. The error's cause tells an inner `Wait` to end, too."""
    error = asyncio.CancelledError()
    error.__cause__ = DeadlineReached(stuck=False)
    return error
