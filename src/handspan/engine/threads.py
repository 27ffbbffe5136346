"""Worker threads for tools that are plain functions (SPEC T3).

Not the loop's default executor: that one holds up the exit of the process until its last thread is done. These are
daemons. A call that gives up leaves its thread behind, counted, and a new thread takes its place.
"""

import asyncio
import contextvars
import functools
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from handspan.core.errors import ToolError
from handspan.engine.crash import said

_Job: TypeAlias = Callable[[], None]


class Threads:
    """Runs functions aside, at most `cap` at once; more wait their turn. At most `cap` abandoned ones are borne."""

    def __init__(self, cap: int = 32) -> None:
        self._cap = cap
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._queued = 0
        self._threads = 0
        self.abandoned = 0
        """Threads whose caller gave up and whose function still runs."""

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function returns or raises. When the caller is cancelled the thread is left to itself."""
        if self.abandoned >= self._cap:
            raise ToolError(
                "busy", f"{self.abandoned} tools that timed out still run on their threads: try again later."
            )
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        job = _Aside(self, functools.partial(contextvars.copy_context().run, function, *args), outcome)
        self._jobs.put(job)
        self._need_a_thread()
        try:
            return await outcome
        finally:
            if not outcome.done() or outcome.cancelled():
                job.abandon()

    def close(self) -> None:
        """Let idle threads end. Busy ones are daemons and do not hold up anything."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def count_abandoned(self, change: int) -> None:
        """One more, or one less, runs for nobody."""
        with self._lock:
            self.abandoned += change

    def _need_a_thread(self) -> None:
        with self._lock:
            self._queued += 1
            # An idle thread takes one job: one that has not woken up yet must not be counted twice.
            if self._queued <= self._idle or self._threads - self.abandoned >= self._cap:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="handspan-tool", daemon=True).start()

    def _work(self) -> None:
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
        """Whether one more thread may wait for jobs: not when abandoned ones came back and there are too many."""
        with self._lock:
            if self._threads - self.abandoned > self._cap:
                return False
            self._idle += 1
            return True


class _Aside:
    """One function on its way to a thread and its outcome on the way back."""

    def __init__(self, threads: Threads, function: Callable[[], Any], outcome: asyncio.Future[Any]) -> None:
        self._threads = threads
        self._function = function
        self._outcome = outcome
        self._lock = threading.Lock()
        self._is_running = False
        self._is_abandoned = False

    def abandon(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_abandoned = True
            if self._is_running:
                self._threads.count_abandoned(+1)

    def __call__(self) -> None:
        with self._lock:
            if self._is_abandoned:
                return
            self._is_running = True
        try:
            self._tell(self._outcome.set_result, self._function())
        except BaseException as error:  # a tool's own code: even SystemExit is only this call's failure
            self._tell(self._outcome.set_exception, _plain_exception(error))
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._is_running = False
            if self._is_abandoned:
                self._threads.count_abandoned(-1)

    def _tell(self, settle: Callable[[Any], None], value: Any) -> None:
        def settle_once() -> None:
            if not self._outcome.done():
                settle(value)

        try:
            self._outcome.get_loop().call_soon_threadsafe(settle_once)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            return


def _plain_exception(error: BaseException) -> Exception:
    """The error in a form that a future takes and that stops no loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    plain = RuntimeError(said(error))
    plain.__cause__ = error
    return plain
