"""Runs a coroutine in the caller's own task, under a deadline (SPEC E5, E6).

The first step is made by hand, before `drive`: most tools are done with it, and no alarm was needed. Only one that
suspends sets one. From then on the driver stands between the coroutine and the event loop: what the coroutine
waits for, it waits for, and it can stop waiting. At the deadline it cancels what the coroutine waits for, throws
`CancelledError` into the coroutine, drives it on for a grace time, so that a `finally` can close what was opened, and
then stops driving.

Nearly everything waits for a plain future in the end. That is over the moment it is cancelled, so the task itself can
wait for it. A task or a `gather` may take its time: for these the driver waits with a plain future of its own.

A started coroutine is never moved to another task: `asyncio.timeout` and task groups inside it hold on to the task
they began in.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from math import inf
from typing import Any, Final, Protocol

from handspan.engine.fast_alarm import Alarm, new_alarm

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
    """Knows whose time is up; counts coroutines that outlived their grace time, and closes those that can be closed."""

    def __init__(self) -> None:
        self.alarm = new_alarm()
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


class Wait:
    """One coroutine's waiting: for what it wants, until its deadline, unless somebody cancels it."""

    cancelled: asyncio.CancelledError | None = None
    """What the task threw at us: it is being cancelled from outside, or by a timeout inside the coroutine."""
    was_disturbed = False
    """The time was up once, or somebody cancelled the task. Most waits never are."""
    is_late = False
    is_over = False
    """The time that was set last has passed: the deadline, or a grace time."""
    was_told = False
    """The coroutine knows that it shall end."""
    _may_be_its_own = False
    _is_in_grace = False
    _waits_for: "asyncio.Future[Any] | None" = None
    _is_armed = False
    _is_paused = False
    """A person is asked. The clock stands still, unless what is waited for shall end."""
    _left: float | None = None
    """Seconds until the deadline, while the clock stands still."""

    def __init__(self, task: "asyncio.Task[Any]", seconds: float | None, grace: float, alarm: Alarm) -> None:
        self.task = task
        self.loop = task.get_loop()
        self._cancellations_before = self._cancellations_heard = task.cancelling()
        self._grace = grace
        self._alarm = alarm
        self._deadline = self.ends_at = inf if seconds is None else self.loop.time() + seconds

    def begin(self, wanted: "asyncio.Future[Any]") -> None:
        """The task is about to wait for this. From now on the alarm ends the wait: a bare `yield` needed none."""
        self._waits_for = wanted
        wanted._asyncio_future_blocking = True  # as `await` says it to a task
        if not self._is_armed and self.ends_at != inf:
            self._is_armed = True
            self._alarm.add(self)

    def judge(self, error: BaseException) -> asyncio.CancelledError | None:
        """What to throw into the coroutine when the task was cancelled. What the future brought, it finds there."""
        if not isinstance(error, asyncio.CancelledError):
            return None
        # A task's own cancellation is counted. That of an outer driver, at its deadline, is not: it names its cause.
        is_new = self.task.cancelling() > self._cancellations_heard
        if not is_new and type(error.__cause__) is not DeadlineReached:
            return None
        self.hear(error)
        return error

    def hear(self, error: asyncio.CancelledError) -> None:
        """Note that the task is being cancelled; what is waited for has a grace time to end."""
        self._cancellations_heard = self.task.cancelling()
        is_counted = self._cancellations_heard > self._cancellations_before
        self._may_be_its_own = is_counted and (self.cancelled is None or self._may_be_its_own)
        self.cancelled = error
        self.was_disturbed = True
        if not self._is_in_grace:
            self._give_grace()

    def reach_deadline(self) -> bool:
        """Begin the grace time of what is waited for; False when that has passed too."""
        if self._is_in_grace:
            return False
        self.is_late = True
        self._give_grace()
        return True

    def tell(self, thrown: BaseException | None) -> BaseException | None:
        """What to throw into the coroutine now; the first time that it shall end, its own grace time begins."""
        if self.is_over and not self._is_in_grace:
            self.is_late = True
        if self.was_told or not (self.is_late or self.cancelled is not None):
            return thrown
        self.was_told = True
        self._give_grace()
        return _cancellation() if self.is_late and thrown is None else thrown

    def take_back(self) -> None:
        """Forget a cancellation that came from a timeout inside the coroutine, which has dealt with it meanwhile."""
        if self.cancelled is None:
            return
        self._cancellations_heard = min(self._cancellations_heard, self.task.cancelling())
        if not self._may_be_its_own or self._cancellations_heard > self._cancellations_before:
            return
        self.cancelled = None
        if not self.is_late:
            self._is_in_grace = self.was_told = False
            self._set(self._deadline)
            self._stop_clock()

    def reason(self, *, stuck: bool = False) -> BaseException | None:
        """Why the coroutine was stopped, if it was. A cancellation is never swallowed, not even after the deadline."""
        self.take_back()
        return self.cancelled or (DeadlineReached(stuck) if self.is_late else None)

    def pause(self) -> None:
        """Let the clock stand still: a person is asked. One whose time was up already has no more of it."""
        self._is_paused = True
        self.take_back()  # a timeout inside the coroutine may be the reason for the question
        self._stop_clock()

    def _stop_clock(self) -> None:
        if self._is_paused and self._left is None and not self.is_over and not self._is_in_grace:
            self._left = self.ends_at - self.loop.time()
            self._set(inf)
            self._deadline = inf

    def go_on(self) -> None:
        """Let the clock run again, with what was left of the time."""
        self._is_paused = False
        if self._left is None:
            return
        self._deadline, self._left = self.loop.time() + self._left, None
        if not self._is_in_grace:
            self._set(self._deadline)
            if self._waits_for is not None and self._deadline != inf:
                self._is_armed = True
                self._alarm.add(self)

    def look_at_the_clock(self) -> None:
        """See whether the time is over, where no timer says so."""
        if self.loop.time() >= self.ends_at:
            self.is_over = self.was_disturbed = True

    def disarm(self) -> None:
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

    def time_is_up(self) -> None:
        """What the alarm says: the wait is over."""
        self.is_over = self.was_disturbed = True
        if self._waits_for is not None:
            self._waits_for.cancel()


def _cancellation() -> asyncio.CancelledError:
    """What a coroutine hears at its deadline; a driver inside it sees by the cause that it is meant too."""
    error = asyncio.CancelledError()
    error.__cause__ = DeadlineReached(stuck=False)
    return error


class Timed(Protocol):
    """A call whose clock stands still while a person is asked."""

    wait: Wait | None
    open_questions: int


@types.coroutine
def drive(
    coroutine: Coroutine[Any, Any, Any],
    wanted: Any,
    seconds: float | None,
    reaper: Reaper,
    grace: float = GRACE,
    call: Timed | None = None,
) -> Generator[Any, Any, Any]:
    """What a coroutine returns that has made its first step and wants this; `DeadlineReached` after so many seconds."""
    wait = Wait(_current_task(wanted), seconds, grace, reaper.alarm)
    if call is not None:
        call.wait = wait
        if call.open_questions:  # it asked in its first step
            wait.pause()
    try:
        while True:
            thrown: BaseException | None = None
            if type(wanted) is asyncio.Future and wanted.get_loop() is wait.loop:
                wait.begin(wanted)
                try:
                    yield wanted
                except GeneratorExit:
                    raise
                except BaseException as error:
                    thrown = wait.judge(error)
            else:
                thrown = yield from _wait_for(wanted, wait)
            if wait.was_disturbed:
                if wait.is_over and wait.was_told:  # it had its grace time, and goes on
                    reaper.take(coroutine)  # closing it may show that a timeout of its own was at work
                    raise wait.reason(stuck=True) or CancelledItself
                thrown = wait.tell(thrown)
            try:
                wanted = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
            except BaseException as end:
                reason = wait.reason() if wait.was_disturbed else None
                if reason is not None:
                    raise reason from None
                if isinstance(end, StopIteration):
                    return end.value
                if isinstance(end, asyncio.CancelledError):
                    raise CancelledItself from end
                raise
            wait.take_back()
    except GeneratorExit:
        reaper.take(coroutine)
        raise
    finally:
        if call is not None:
            call.wait = None
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


def _current_task(wanted: Any) -> "asyncio.Task[Any]":
    """The task that runs. Its loop is that of what it wants, as a rule; to find it out is a system call."""
    task = asyncio.current_task(wanted.get_loop()) if type(wanted) is asyncio.Future else None
    task = task or asyncio.current_task()
    assert task is not None  # only a task can drive
    return task


# Waiting for anything but a plain future. Each gives what is to be thrown into the coroutine, if anything.


def _wait_for(wanted: Any, wait: Wait) -> Generator[Any, Any, BaseException | None]:
    """For a task, or something else that may take its time to be cancelled, or refuse to be."""
    if getattr(wanted, "_asyncio_future_blocking", None) is None:
        return (yield from _let_the_loop_judge(wanted, wait))
    wanted._asyncio_future_blocking = False
    if wanted is wait.task or wanted.get_loop() is not wait.loop:
        return RuntimeError(f"{wanted!r} can't be awaited here: it is this very task, or of another event loop")
    while not wanted.done():
        if not wait.is_over:
            cancelled = yield from _sleep_until_done(wanted, wait)
            # As in a task: what is waited for is cancelled, and brings the cancellation into the coroutine.
            if cancelled is not None and not wanted.cancel(*cancelled.args[:1]):
                return cancelled
        elif wait.reach_deadline():
            wanted.cancel()
        else:
            return wait.cancelled or asyncio.CancelledError()
    if wait.is_late and not wanted.cancelled():
        wanted.exception()  # the coroutine gets CancelledError instead: nobody is to complain that this was not seen
    return None


def _sleep_until_done(wanted: "asyncio.Future[Any]", wait: Wait) -> Generator[Any, Any, BaseException | None]:
    waiter = wait.loop.create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    wanted.add_done_callback(wake)
    wait.begin(waiter)
    try:
        yield waiter
    except asyncio.CancelledError as error:
        return wait.judge(error)
    finally:
        wanted.remove_done_callback(wake)
    return None


def _let_the_loop_judge(wanted: Any, wait: Wait) -> Generator[Any, Any, BaseException | None]:
    """For a bare `yield`, as in sleep(0), or something that only the event loop can judge."""
    try:
        yield wanted
    except asyncio.CancelledError as error:
        wait.hear(error)
        return error
    except Exception as error:  # what the loop refuses goes back into the tool, which waited for it
        return error
    wait.look_at_the_clock()
    return None
