"""Threads for code that blocks. Daemons: what hangs must not keep the process from ending."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

_Job: TypeAlias = Callable[[], None]


class CallThreads:
    """Runs functions aside, each on a thread that has nothing else to do. One that hangs holds up no other."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._is_closed = False

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function returns or raises. When the caller is cancelled, it is left alone."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        thread = self._idle.pop() if self._idle else _Thread()

        def settle(value: Any, error: BaseException | None) -> None:
            self._take_back(thread)
            if not outcome.done():
                outcome.set_result(value) if error is None else outcome.set_exception(error)

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(function, *args)
            except Exception as raised:  # the program's own code: who waits for it hears of it
                error = raised
            except BaseException as raised:  # SystemExit ends a program, not this one
                error = RuntimeError(f"{type(raised).__name__}: {raised}")
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                thread.do(None)

        thread.do(work)
        return await outcome

    def close(self) -> None:
        """Let the threads end: those that are idle now, the others when they are done."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().do(None)

    def _take_back(self, thread: "_Thread") -> None:
        if self._is_closed:
            thread.do(None)
        else:
            self._idle.append(thread)


class _Thread:
    """One thread that does one job after another, until it is told None."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.do = self._jobs.put
        threading.Thread(target=self._work, name="handspan-tool", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
