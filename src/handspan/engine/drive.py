"""Runs a coroutine in the caller's own task, under a deadline (SPEC E5, E6).

The first step is made by hand, before `drive`: most tools are done with it, and no timer was needed. Only one that
suspends gets a timer. From then on the driver stands between the coroutine and the event loop: what the coroutine
waits for, it waits for, and it can stop waiting. At the deadline it cancels what the coroutine waits for, throws
`CancelledError` into the coroutine, drives it on for a grace time, so that a `finally` can close what was opened, and
then stops driving.

A started coroutine is never moved to another task: `asyncio.timeout` and task groups inside it hold on to the task
they began in.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, Final

GRACE = 2.0
_CLOSINGS: Final = 20


class DeadlineReached(Exception):
    """The coroutine was stopped at its deadline. `stuck`: it did not even end within its grace time."""

    def __init__(self, stuck: bool) -> None:
        super().__init__()
        self.stuck = stuck


class CancelledItself(Exception):
    """The coroutine ended with `CancelledError`, and nobody had cancelled it."""


class Reaper:
    """Counts coroutines that outlived their grace time and closes those that let themselves be closed."""

    def __init__(self) -> None:
        self.reaped = 0
        self._unclosable: list[Coroutine[Any, Any, Any]] = []

    @property
    def stuck(self) -> int:
        """How many refuse to end even now. They are kept, since collecting them would only print warnings."""
        return len(self._unclosable)

    def take(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """End this one, or keep it if it can't be ended."""
        self.reaped += 1
        if not _is_closed(coroutine):
            self._unclosable.append(coroutine)


def _is_closed(coroutine: Coroutine[Any, Any, Any]) -> bool:
    """Close it, again and again: one with several awaits in its `finally` leaves one of them each time."""
    for _ in range(_CLOSINGS):
        try:
            coroutine.close()
        except RuntimeError:  # it awaited something instead of ending, or failed so: the next round knows
            continue
        except (Exception, asyncio.CancelledError, SystemExit, BaseExceptionGroup):  # its own last words
            return True
        else:
            return True
    return False


class _Wait:
    """One coroutine's waiting: for what it wants, until its deadline, unless somebody cancels it."""

    __slots__ = (
        "_cancelled_before",
        "_deadline",
        "_ends_at",
        "_grace",
        "_is_in_grace",
        "_may_be_its_own",
        "_task",
        "_timer",
        "_was_told",
        "cancelled",
        "is_late",
        "is_over",
        "loop",
        "waiter",
    )

    def __init__(self, seconds: float | None, grace: float) -> None:
        task = asyncio.current_task()
        assert task is not None  # only a task can drive
        self._task = task
        self._cancelled_before = task.cancelling()
        self.loop = asyncio.get_running_loop()
        self.waiter: asyncio.Future[None] | None = None
        self.cancelled: asyncio.CancelledError | None = None
        """What the task threw at us: it is being cancelled from outside, or by a timeout inside the coroutine."""
        self.is_late = False
        self.is_over = False
        """The time that was set last has passed: the deadline, or a grace time."""
        self._may_be_its_own = False
        self._is_in_grace = False
        self._was_told = False
        self._grace = grace
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = None if seconds is None else self.loop.time() + seconds
        self._set(self._deadline)

    @property
    def is_lost(self) -> bool:
        """The coroutine was told to end, had its grace time, and goes on."""
        return self.is_over and self._was_told

    def can_take(self, wanted: Any) -> bool:
        """Whether this is something that the task could wait for."""
        return wanted is not self._task and wanted.get_loop() is self.loop

    def reach_deadline(self) -> bool:
        """Begin the grace time of what is waited for; False when that has passed too."""
        if self._is_in_grace:
            return False
        self.is_late = True
        self._give_grace()
        return True

    def hear(self, error: asyncio.CancelledError) -> None:
        """Note that the task is being cancelled; what is waited for has a grace time to end."""
        # A task's own cancellation is counted; that of an outer driver, at its deadline, is not, and never taken back.
        is_counted = self._task.cancelling() > self._cancelled_before
        self._may_be_its_own = is_counted and (self.cancelled is None or self._may_be_its_own)
        self.cancelled = error
        if not self._is_in_grace:
            self._give_grace()

    def tell(self, thrown: BaseException | None) -> BaseException | None:
        """What to throw into the coroutine now; the first time that it shall end, its own grace time begins."""
        if self.is_over and not self._is_in_grace:
            self.is_late = True
        if self._was_told or not (self.is_late or self.cancelled is not None):
            return thrown
        self._was_told = True
        self._give_grace()
        return asyncio.CancelledError() if self.is_late and thrown is None else thrown

    def take_back(self) -> None:
        """Forget a cancellation that came from a timeout inside the coroutine, which has dealt with it meanwhile."""
        if self.cancelled is None or not self._may_be_its_own or self._task.cancelling() > self._cancelled_before:
            return
        self.cancelled = None
        if not self.is_late:
            self._is_in_grace = self._was_told = False
            self._set(self._deadline)

    def reason(self, *, stuck: bool = False) -> BaseException | None:
        """Why the coroutine was stopped, if it was. A cancellation is never swallowed, not even after the deadline."""
        return self.cancelled or (DeadlineReached(stuck) if self.is_late else None)

    def wake(self, _: object = None) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_grace(self) -> None:
        self._is_in_grace = True
        self._set(self.loop.time() + self._grace)

    def _set(self, at: float | None) -> None:
        self.disarm()
        self.is_over = False
        self._ends_at = at

    def arm(self) -> None:
        """Let a timer end the wait. Only what may wait for long needs one: a bare `yield` is back at once."""
        if self._timer is None and self._ends_at is not None:
            self._timer = self.loop.call_at(self._ends_at, self._time_is_up)

    def look_at_the_clock(self) -> None:
        """See whether the time is over, where no timer says so."""
        if self._ends_at is not None and self.loop.time() >= self._ends_at:
            self.is_over = True

    def _time_is_up(self) -> None:
        self.is_over = True
        self.wake()


@types.coroutine
def drive(
    coroutine: Coroutine[Any, Any, Any], wanted: Any, seconds: float | None, reaper: Reaper, grace: float = GRACE
) -> Generator[Any, Any, Any]:
    """What a coroutine returns that has made its first step and wants this; `DeadlineReached` after so many seconds."""
    wait = _Wait(seconds, grace)
    try:
        return (yield from _drive_on(coroutine, wanted, wait, reaper))
    except GeneratorExit:
        reaper.take(coroutine)
        raise
    finally:
        wait.disarm()


async def drive_all(coroutine: Coroutine[Any, Any, Any], seconds: float | None, reaper: Reaper) -> Any:
    """What a coroutine returns that has not begun yet; `DeadlineReached` after so many seconds."""
    try:
        wanted = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except asyncio.CancelledError as error:
        raise CancelledItself from error
    return await drive(coroutine, wanted, seconds, reaper)


def _drive_on(
    coroutine: Coroutine[Any, Any, Any], wanted: Any, wait: _Wait, reaper: Reaper
) -> Generator[Any, Any, Any]:
    """Drive a coroutine that has suspended, to its end, its deadline or its caller's cancellation."""
    while True:
        thrown = yield from _wait_for(wanted, wait)
        if wait.is_lost:
            reaper.take(coroutine)
            wait.take_back()  # closing it may show that a timeout of its own was at work, with a long `finally`
            raise wait.reason(stuck=True) or CancelledItself
        thrown = wait.tell(thrown)
        try:
            wanted = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
        except BaseException as end:
            wait.take_back()
            reason = wait.reason()
            if reason is not None:
                raise reason from None
            if isinstance(end, StopIteration):
                return end.value
            if isinstance(end, asyncio.CancelledError):
                raise CancelledItself from end
            raise
        wait.take_back()


def _wait_for(wanted: Any, wait: _Wait) -> Generator[Any, Any, BaseException | None]:
    """Wait until `wanted` is done or the time is over; gives what is to be thrown into the coroutine, if anything."""
    if getattr(wanted, "_asyncio_future_blocking", None) is None:
        return (yield from _let_the_loop_judge(wanted, wait))
    wanted._asyncio_future_blocking = False
    if not wait.can_take(wanted):
        return RuntimeError(f"{wanted!r} can't be awaited here: it is this very task, or of another event loop")
    wanted.add_done_callback(wait.wake)
    try:
        while not wanted.done():
            if not wait.is_over:
                cancelled = yield from _sleep(wait)
                # As in a task: what is waited for is cancelled, and brings the cancellation into the coroutine.
                if cancelled is not None and not wanted.cancel(*cancelled.args[:1]):
                    return cancelled
            elif wait.reach_deadline():
                wanted.cancel()
            else:
                return wait.cancelled or asyncio.CancelledError()
    finally:
        wanted.remove_done_callback(wait.wake)
        wait.waiter = None
    if wait.is_late and not wanted.cancelled():
        wanted.exception()  # the coroutine gets CancelledError instead: nobody is to complain that this was not seen
    return None


def _sleep(wait: _Wait) -> Generator[Any, Any, asyncio.CancelledError | None]:
    wait.arm()
    wait.waiter = wait.loop.create_future()
    try:
        yield from wait.waiter
    except asyncio.CancelledError as error:
        wait.hear(error)
        return error
    return None


def _let_the_loop_judge(wanted: Any, wait: _Wait) -> Generator[Any, Any, BaseException | None]:
    """A bare `yield`, as in sleep(0), or something that only the event loop can judge."""
    try:
        yield wanted
    except asyncio.CancelledError as error:
        wait.hear(error)
        return error
    except Exception as error:
        return error
    wait.look_at_the_clock()
    return None
