"""Threads for code that blocks. They are daemons: code that hangs does not keep the process from ending."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

_Job: TypeAlias = Callable[[], None]


class CallThreads:
    """Runs each function on a thread of its own, and reuses idle threads. Code that hangs delays no other."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._is_closed = False

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the function returns, or raise what it raises. It runs on when the caller is cancelled."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        worker = self._idle.pop() if self._idle else _Worker()

        def settle(value: Any, error: BaseException | None) -> None:
            self._release(worker)
            if not outcome.done():
                outcome.set_result(value) if error is None else outcome.set_exception(error)

        def work() -> None:
            """Run the function on the worker's thread, and give its outcome to the loop."""
            value, error = None, None
            try:
                value = context.run(function, *args)
            except Exception as raised:  # the program's own code: the caller gets the error
                error = raised
            except BaseException as raised:  # SystemExit in a tool must not end the program
                error = RuntimeError(f"{type(raised).__name__}: {raised}")
                error.__cause__ = raised
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:  # the loop is closed and no caller waits: the thread ends
                worker.put(None)

        worker.put(work)
        return await outcome

    def close(self) -> None:
        """Let the threads end: idle ones now, the others after their function."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _release(self, worker: "_Worker") -> None:
        if self._is_closed:
            worker.put(None)
        else:
            self._idle.append(worker)


class _Worker:
    """One thread that runs one job after another; None ends it."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.put = self._jobs.put
        threading.Thread(target=self._work, name="handspan-tool", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
