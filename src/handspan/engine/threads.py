"""Worker threads for tools that are plain functions (SPEC T3).

The threads are daemons, unlike those of the loop's default executor, which delay the end of the process until the last
one is done. A call that is cancelled abandons its thread; the thread is counted, and a new one takes its place.
"""

import asyncio
import contextvars
import functools
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

from handspan.core.errors import ToolError
from handspan.engine.outcome import EndedByTool, describe_error

_Job: TypeAlias = Callable[[], None]


class Threads:
    """Runs at most `cap` functions at once; the others wait. With `cap` abandoned threads it refuses new functions."""

    def __init__(self, cap: int = 32) -> None:
        self._cap = cap
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._queued = 0
        self._threads = 0
        self.abandoned = 0
        """Threads whose function still runs though the caller was cancelled."""

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the function returns, or raise its error. A cancelled caller abandons the thread."""
        if self.abandoned >= self._cap:
            raise ToolError(
                "busy", f"{self.abandoned} tools that timed out still run on their threads: try again later."
            )
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        job = _ThreadJob(self, functools.partial(contextvars.copy_context().run, function, *args), outcome)
        self._jobs.put(job)
        if self._needs_thread():
            threading.Thread(target=self._work, name="handspan-tool", daemon=True).start()
        try:
            return await outcome
        except Exception as error:  # a future gives its traceback only to the first waiter: that is `deadline.py`
            raise error.with_traceback(job.traceback) from error.__cause__
        finally:
            if not outcome.done() or outcome.cancelled():
                job.abandon()

    def close(self) -> None:
        """End idle threads. Busy ones are daemons, which do not delay the end of the process."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def count_abandoned(self, change: int) -> None:
        """Add `change` to the number of abandoned threads."""
        with self._lock:
            self.abandoned += change

    def _needs_thread(self) -> bool:
        """Count a new job. Return whether it needs a new thread, which then counts: no idle one can take it."""
        with self._lock:
            self._queued += 1
            # An idle thread takes one job: a thread that has not woken up yet must not be counted twice.
            if self._queued <= self._idle or self._threads - self.abandoned >= self._cap:
                return False
            self._threads += 1
            return True

    def _work(self) -> None:
        """Do one job after the other on this thread, until the thread is not needed any more."""
        while self._is_needed():
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
                self._queued -= job is not None
            if job is None:
                break
            job()
        with self._lock:
            self._threads -= 1

    def _is_needed(self) -> bool:
        """Whether this thread may wait for jobs; then it counts as idle.

        When abandoned threads end their functions, there may be too many threads: the surplus ends.
        """
        with self._lock:
            if self._threads - self.abandoned > self._cap:
                return False
            self._idle += 1
            return True


class _ThreadJob:
    """One function for a thread, and the future of its outcome."""

    def __init__(self, threads: Threads, function: Callable[[], Any], outcome: asyncio.Future[Any]) -> None:
        self._threads = threads
        self._function = function
        self._outcome = outcome
        self._lock = threading.Lock()
        self._is_running = False
        self._is_abandoned = False
        self.traceback: TracebackType | None = None
        """Where the function raised its error."""

    def abandon(self) -> None:
        """Store that the caller was cancelled and does not wait for the outcome any more."""
        with self._lock:
            self._is_abandoned = True
            if self._is_running:
                self._threads.count_abandoned(+1)

    def __call__(self) -> None:
        """Run the function on the thread, and report its outcome, unless the call was given up before."""
        with self._lock:
            if self._is_abandoned:
                return
            self._is_running = True
        try:
            self._report(self._outcome.set_result, self._function())
        except BaseException as error:  # a tool's own code: even SystemExit is only this call's failure
            self.traceback = error.__traceback__
            self._report(self._outcome.set_exception, _plain_exception(error))
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._is_running = False
            if self._is_abandoned:
                self._threads.count_abandoned(-1)

    def _report(self, settle: Callable[[Any], None], value: Any) -> None:
        """Give the outcome to the caller on the loop, unless the caller has given up."""

        def settle_once() -> None:
            if not self._outcome.done():
                settle(value)

        try:
            self._outcome.get_loop().call_soon_threadsafe(settle_once)
        except RuntimeError:  # the loop is closed: no caller waits any more
            return


def _plain_exception(error: BaseException) -> Exception:
    """Return the error as an exception that a future accepts and that stops no event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    plain = EndedByTool(describe_error(error))
    plain.__cause__ = error
    return plain
