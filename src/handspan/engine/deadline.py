"""The deadline of a tool: its timeout is enforced here, in the caller's own task (SPEC E5, E6).

The caller of `continue_with_deadline` makes the first step of the tool's coroutine itself: most tools end in that step,
and need no alarm. When the coroutine suspends, `continue_with_deadline` stands between the coroutine and the event
loop, and waits for what the coroutine wants. At the deadline it cancels that and throws `CancelledError` into the
coroutine. The coroutine then has a grace time, so that a `finally` can close what was opened. After the grace time the
coroutine is given to the `Reaper`.

Most coroutines wait for a plain future in the end. A plain future is over as soon as it is cancelled, so the task
itself can wait for it. A task or a `gather` may take its time to end: for these we wait with a future of our own.

A started coroutine never moves to another task: `asyncio.timeout` and task groups inside the coroutine belong to the
task that they began in.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, Final, Protocol

from handspan.core.errors import ToolError
from handspan.engine.alarm import Alarm
from handspan.engine.wait import GRACE, Wait

_CLOSINGS: Final = 20
"""How often the reaper tries to close a coroutine."""


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
        self._unclosable: list[Coroutine[Any, Any, Any]] = []
        """Coroutines that can't be closed. They are kept, since Python warns when it collects an open coroutine."""

    @property
    def stuck(self) -> int:
        """How many coroutines can't be closed."""
        return len(self._unclosable)

    def take(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Close this coroutine; keep it if it can't be closed."""
        self.reaped += 1
        if not _try_close(coroutine):
            self._unclosable.append(coroutine)


def _try_close(coroutine: Coroutine[Any, Any, Any]) -> bool:
    """Close the coroutine and return whether that was possible. Each try passes one `await` of its `finally`."""
    for _ in range(_CLOSINGS):
        try:
            coroutine.close()
        except RuntimeError:  # the coroutine awaited something, or raised this error itself: the next try shows which
            continue
        except (Exception, asyncio.CancelledError, SystemExit, BaseExceptionGroup):  # the coroutine ended with an error
            return True
        else:
            return True
    return False


class PausableCall(Protocol):
    """A call whose clock stands still while a person is asked."""

    wait: Wait | None
    open_questions: int


class Unpaused:
    """Stands in for a call where no person can be asked."""

    wait: Wait | None = None
    open_questions = 0


@types.coroutine
def continue_with_deadline(
    coroutine: Coroutine[Any, Any, Any],
    wanted: Any,
    seconds: float | None,
    reaper: Reaper,
    call: PausableCall,
    *,
    grace: float = GRACE,
    name: str = "",
) -> Generator[Any, Any, Any]:
    """Return what the coroutine returns. The coroutine has made its first step and waits for `wanted`.

    Raises `DeadlineReached` after so many seconds. `call`: the clock stands still while this call has open questions.
    `name`: see `Reaper.working`.
    """
    wait = Wait(_current_task(wanted), seconds, grace, reaper.alarm)
    call.wait = wait
    if call.open_questions:  # the tool asked in its first step
        wait.pause()
    try:
        while True:
            if type(wanted) is asyncio.Future and wanted.get_loop() is wait.loop:
                thrown: BaseException | None = None
                wait.begin(wanted)
                try:
                    yield wanted
                except GeneratorExit:
                    raise
                except BaseException as error:
                    thrown = wait.find_cancellation(error)
            else:
                thrown = yield from _wait_for(wanted, wait)
            if wait.was_disturbed:
                thrown = _find_error(thrown, wait, coroutine, reaper)
            outer, reaper.working = reaper.working, name
            try:
                wanted = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
            except BaseException as end:
                return _conclude(end, wait)
            finally:
                reaper.working = outer
            wait.forget_inner_cancellation()
    except GeneratorExit:
        reaper.take(coroutine)
        raise
    finally:
        call.wait = None
        wait.disarm()


def _find_error(
    thrown: BaseException | None, wait: Wait, coroutine: Coroutine[Any, Any, Any], reaper: Reaper
) -> BaseException | None:
    """Return the error to throw into the coroutine. Raises the reason if its grace time is over and it still runs."""
    if wait.is_over and wait.was_stopped:
        reaper.take(coroutine)  # closing it may end a timeout inside it, which `reason` looks for
        raise wait.reason(stuck=True) or CancelledItself
    return wait.find_error(thrown)


def _conclude(end: BaseException, wait: Wait) -> Any:
    """Return what the coroutine returned. Raises the reason for which it was stopped, or its own error."""
    reason = wait.reason() if wait.was_disturbed else None
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
    """Return what a new coroutine returns. Raises `DeadlineReached` after so many seconds.

    `name`: see `Reaper.working`.
    """
    outer, reaper.working = reaper.working, name
    try:
        wanted = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except asyncio.CancelledError as error:
        raise CancelledItself from error
    finally:
        reaper.working = outer
    return await continue_with_deadline(coroutine, wanted, seconds, reaper, call=Unpaused(), name=name)


def _current_task(wanted: Any) -> "asyncio.Task[Any]":
    """Return the running task. As a rule the future has the loop: to ask asyncio for the loop costs a system call."""
    task = asyncio.current_task(wanted.get_loop()) if type(wanted) is asyncio.Future else None
    task = task or asyncio.current_task()
    assert task is not None  # only a task can wait
    return task


# Waiting for anything but a plain future. Each function returns what to throw into the coroutine, if anything.


def _wait_for(wanted: Any, wait: Wait) -> Generator[Any, Any, BaseException | None]:
    """Wait for a task or another future, which may take its time to be cancelled or refuse to be."""
    if getattr(wanted, "_asyncio_future_blocking", None) is None:
        return (yield from _yield_to_loop(wanted, wait))
    wanted._asyncio_future_blocking = False
    if wanted is wait.task or wanted.get_loop() is not wait.loop:
        return RuntimeError(f"{wanted!r} can't be awaited here: it is this very task, or of another event loop")
    while not wanted.done():
        if not wait.is_over:
            cancelled = yield from _sleep_until_done(wanted, wait)
            # As a task does it: cancel `wanted`, and the coroutine gets the cancellation from `wanted`.
            if cancelled is not None and not wanted.cancel(*cancelled.args[:1]):
                return cancelled
        elif wait.reach_deadline():
            wanted.cancel()
        else:
            return wait.cancelled or asyncio.CancelledError()
    if wait.is_late and not wanted.cancelled():
        wanted.exception()  # marks the error as seen, since the coroutine gets CancelledError instead
    return None


def _sleep_until_done(wanted: "asyncio.Future[Any]", wait: Wait) -> Generator[Any, Any, BaseException | None]:
    """Wait until `wanted` is done, the time is over or the task is cancelled. Return the cancellation, if any."""
    waiter = wait.loop.create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    wanted.add_done_callback(wake)
    wait.begin(waiter)
    try:
        yield waiter
    except asyncio.CancelledError as error:
        return wait.find_cancellation(error)
    finally:
        wanted.remove_done_callback(wake)
    return None


def _yield_to_loop(wanted: Any, wait: Wait) -> Generator[Any, Any, BaseException | None]:
    """Wait for a bare `yield`, as in sleep(0), or for what only the event loop can accept or refuse."""
    try:
        yield wanted
    except asyncio.CancelledError as error:
        wait.note_cancellation(error)
        return error
    except Exception as error:  # the loop refuses `wanted`: the tool gets the error
        return error
    wait.check_clock()
    return None
