"""The deadline of a tool: its timeout is enforced here, in the caller's own task (SPEC E5, E6).

The caller makes the first step of a coroutine itself: most coroutines end in that step, and need no clock. From then on
`continue_with_deadline` stands between the coroutine and the event loop: it waits for what the coroutine wants, and
makes its steps. At the deadline it cancels what is waited for, and throws `CancelledError` into the coroutine. Then, as
after a cancellation of the task, the coroutine has a grace time, so that a `finally` can close what was opened. When
that time is over, the coroutine gets no more steps: the `Reaper` closes it.

A started coroutine never moves to another task: `asyncio.timeout` and task groups inside the coroutine belong to the
task that they began in.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from math import inf
from typing import Any, Final

from handspan.core.errors import ToolError
from handspan.engine.alarm import Alarm

GRACE: Final = 2.0
"""Seconds that a coroutine has to end after its deadline or its cancellation."""
_CLOSINGS: Final = 20
"""How often the reaper tries to close a coroutine."""


class DeadlineReached(Exception):
    """The coroutine was stopped at its deadline. `stuck`: the coroutine did not end within its grace time either."""

    def __init__(self, *, stuck: bool) -> None:
        super().__init__()
        self.stuck = stuck


class CancelledItself(Exception):
    """The coroutine raised `CancelledError` itself: neither the caller nor the deadline cancelled it."""


class Reaper:
    """Closes coroutines that run on after their grace time, and counts them. Has the alarm of all waits.

    Knows which code runs now, too: a ContextVar would, but another thread can't read one.
    """

    def __init__(self) -> None:
        self.alarm = Alarm()
        self.working = ""
        """The name of the tool or hook whose code runs on the event loop now; empty: none. The watchdog reads it."""
        self.reaped = 0
        """How many coroutines `take` was given."""
        self.unclosable: list[Coroutine[Any, Any, Any]] = []
        """Coroutines that can't be closed. They are kept, since Python warns when it collects an open coroutine."""

    def take(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Close this coroutine; keep it if it can't be closed. Each try passes one `await` of its `finally`."""
        self.reaped += 1
        for _ in range(_CLOSINGS):
            try:
                coroutine.close()
            except RuntimeError:  # it awaited something, or raised this error itself: the next try shows which
                continue
            except (Exception, asyncio.CancelledError, SystemExit, BaseExceptionGroup):  # it ended with an error
                return
            else:
                return
        self.unclosable.append(coroutine)


class Wait:
    """The clock of a coroutine that waits, and the reason for which the coroutine has to end."""

    _waits_for: "asyncio.Future[Any] | None" = None
    """The future that the task waits for, or waited for last."""
    is_over = False
    """The grace time is over."""
    was_stopped = False
    """The coroutine has got its `CancelledError`, and has a grace time since."""
    cancelled: asyncio.CancelledError | None = None
    """The task's cancellation: by its caller, by a deadline around this wait, or by a timeout inside the coroutine."""
    is_late = False
    """The deadline was reached."""
    _is_in_grace = False
    """`ends_at` is the end of a grace time, not the deadline."""
    _left = inf
    """Seconds until the deadline, while the clock stands still."""

    def __init__(self, wanted: Any, seconds: float | None, alarm: Alarm, grace: float = GRACE) -> None:
        """Start the clock for a coroutine of the running task. `seconds`: until the deadline; None: there is none.

        `wanted`: what it waits for. As a rule that has the loop: to ask asyncio for the loop costs a system call.
        """
        loop = wanted.get_loop() if type(wanted) is asyncio.Future else None
        task = asyncio.current_task(loop) or asyncio.current_task()
        assert task is not None  # only a task can wait
        self.task = task
        self.loop = task.get_loop()
        self._grace = grace
        self._alarm = alarm
        self._cancellations = task.cancelling()
        """How often the task was cancelled before this wait."""
        self._deadline = self.ends_at = inf if seconds is None else self.loop.time() + seconds
        """When the tool's time is over, and when the alarm rings: at the deadline, or at the end of the grace time.

        Both by the clock of the loop; `inf` without a deadline, and while the clock stands still.
        """
        if seconds is not None:
            alarm.add(self)

    def prepare(self, wanted: "asyncio.Future[Any]") -> "asyncio.Future[Any]":
        """Return the future that the task waits for now, prepared as `await` does it."""
        self._waits_for = wanted
        wanted._asyncio_future_blocking = True
        return wanted

    def pause(self) -> None:
        """Stop the clock while a person is asked. A grace time goes on."""
        self._left, self._deadline = self._deadline - self.loop.time(), inf
        if not self._is_in_grace:
            self._set(inf)

    def resume(self) -> None:
        """Let the clock run again with the time that was left."""
        self._deadline = self.loop.time() + self._left
        if not self._is_in_grace:
            self._set(self._deadline)

    def stop(self) -> None:
        """End the wait as if the deadline had come. A grace time that has begun goes on."""
        if not self._is_in_grace:
            self.expire()

    def expire(self) -> None:
        """End the wait: the alarm calls this when the time is over."""
        self.is_over = self._is_in_grace
        self.is_late |= not self._is_in_grace
        if self._waits_for is not None:
            self._waits_for.cancel()

    def end(self) -> None:
        """Stop the clock for good."""
        self._alarm.remove(self)

    def count_cancellation(self) -> None:
        """Count the task as cancelled, even if that was done before this wait: its coroutine learns of it only now."""
        self._cancellations = min(self._cancellations, self.task.cancelling() - 1)

    def note_cancellation(self, error: asyncio.CancelledError) -> None:
        """Store the error if it cancels the task. When the coroutine has to end, what it waits for has a grace time."""
        if isinstance(error.__cause__, DeadlineReached):  # of a wait around this one: the task does not count it
            self._cancellations = -1
        if self._is_cancelled:
            self.cancelled = self.cancelled or error
        if (self.is_late or self.cancelled is not None) and not self._is_in_grace:
            self._give_grace()

    def find_error(self, thrown: BaseException | None) -> BaseException | None:
        """Return the error to throw into the coroutine, if any. `thrown`: what the wait for a future ended with.

        When the coroutine has to end, its own grace time begins.
        """
        if isinstance(thrown, asyncio.CancelledError):
            self.note_cancellation(thrown)
        if self.was_stopped or not (self.is_late or self.cancelled is not None):
            return thrown
        self.was_stopped = True
        self._give_grace()
        if self.cancelled is None:
            thrown = asyncio.CancelledError()
            thrown.__cause__ = DeadlineReached(stuck=False)
        return thrown

    def find_reason(self, *, stuck: bool = False) -> BaseException | None:
        """Return why the coroutine was stopped; None if it was not. A cancellation counts even after the deadline."""
        self.forget_inner_cancellation()
        return self.cancelled or (DeadlineReached(stuck=stuck) if self.is_late else None)

    def forget_inner_cancellation(self) -> None:
        """Forget a cancellation by a timeout inside the coroutine, once the coroutine has handled it."""
        if self.cancelled is not None and not self._is_cancelled:
            self.cancelled = None
            if not self.is_late:
                self.was_stopped = self._is_in_grace = False
                self._set(self._deadline)

    def _give_grace(self) -> None:
        self._is_in_grace = True
        self._set(self.loop.time() + self._grace)

    @property
    def _is_cancelled(self) -> bool:
        """Whether the task is cancelled. If not, only the future was that it waited for."""
        return self.task.cancelling() > self._cancellations

    def _set(self, at: float) -> None:
        self._alarm.remove(self)
        self.is_over, self.ends_at = False, at
        if at != inf:
            self._alarm.add(self)


@types.coroutine
def continue_with_deadline(
    coroutine: Coroutine[Any, Any, Any], wanted: Any, wait: Wait, reaper: Reaper, *, name: str = ""
) -> Generator[Any, Any, Any]:
    """Return what the coroutine returns. The coroutine has made its first step and waits for `wanted`.

    Raises `DeadlineReached` when the time of `wait` is over. `name`: see `Reaper.working`.
    """
    try:
        while True:
            thrown: BaseException | None = None
            try:
                if type(wanted) is asyncio.Future and wanted.get_loop() is wait.loop:
                    yield wait.prepare(wanted)  # a plain future is over as soon as it is cancelled
                else:
                    yield from _wait_for(wanted, wait)
            except GeneratorExit:
                reaper.take(coroutine)
                raise
            except BaseException as error:
                thrown = error
            if thrown is not None or wait.is_late or wait.is_over:  # most waits end without any of these
                if wait.is_over and wait.was_stopped:
                    reaper.take(coroutine)  # closing it may end a timeout inside it, which `find_reason` looks for
                    raise wait.find_reason(stuck=True) or CancelledItself
                thrown = wait.find_error(thrown)
            outer, reaper.working = reaper.working, name
            try:
                wanted = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
            except BaseException as end:
                return _conclude(end, wait)
            finally:
                reaper.working = outer
            wait.forget_inner_cancellation()
    finally:
        wait.end()


def _conclude(end: BaseException, wait: Wait) -> Any:
    """Return what the coroutine returned. Raises the reason for which it was stopped, or its own error."""
    reason = wait.find_reason() if wait.is_late or wait.cancelled is not None else None
    if reason is not None:  # a tool's own error tells the engine how the stopped call ended
        raise reason from end if isinstance(end, ToolError) else None
    if isinstance(end, StopIteration):
        return end.value
    if isinstance(end, asyncio.CancelledError):
        raise CancelledItself from end
    raise end


async def run_with_deadline(
    coroutine: Coroutine[Any, Any, Any], seconds: float | None, reaper: Reaper, name: str = ""
) -> Any:
    """Return what a new coroutine returns. Raises `DeadlineReached` after so many seconds."""
    outer, reaper.working = reaper.working, name
    try:
        wanted = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except asyncio.CancelledError as error:
        raise CancelledItself from error
    finally:
        reaper.working = outer
    return await continue_with_deadline(coroutine, wanted, Wait(wanted, seconds, reaper.alarm), reaper, name=name)


def _wait_for(wanted: Any, wait: Wait) -> Generator[Any, Any, None]:
    """Wait for a task or a `gather`, which may take its time to be cancelled or refuse to be."""
    if not hasattr(wanted, "_asyncio_future_blocking"):
        try:
            yield wanted  # a bare `yield`, as in sleep(0), or what only the event loop can accept or refuse
        except asyncio.CancelledError:
            wait.count_cancellation()
            raise
        return
    wanted._asyncio_future_blocking = False
    if wanted is wait.task or wanted.get_loop() is not wait.loop:
        raise RuntimeError(f"{wanted!r} can't be awaited here: it is this very task, or of another event loop")
    while not wanted.done():
        try:
            yield wait.prepare(asyncio.shield(wanted))
        except asyncio.CancelledError as error:
            # As a task does it: cancel `wanted`, and the coroutine gets the cancellation from `wanted`.
            if wait.is_over or not wanted.cancel(*error.args[:1]):
                raise
            wait.note_cancellation(error)
