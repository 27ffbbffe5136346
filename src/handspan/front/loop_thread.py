"""An event loop on its own thread, for programs that have no loop."""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, Final, TypeVar

from handspan.front.answers import UsageError

T = TypeVar("T")

_SIGNAL_SECONDS: Final = 0.5
"""Seconds of one wait. Ctrl-C just before a wait begins does not end it: it is seen when the wait is over."""


class LoopThread:
    """Runs an event loop until it is stopped. The thread is a daemon, so the program can end."""

    def __init__(self) -> None:
        """Start the thread."""
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._is_over = asyncio.Event()
        self.loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, name="handspan", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the loop and wait for the thread."""
        self.loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._is_over.wait())


def check_may_wait(instead: str) -> None:
    """Raise `UsageError` in a thread whose event loop runs: a wait here would block it. `instead`: what to write."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"An event loop runs in this thread, and this would stop it: use `{instead}` here.")


def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run this coroutine in that loop and return its result. An exception here, such as Ctrl-C, cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    try:
        while not done.wait(_SIGNAL_SECONDS):
            pass
    except BaseException:
        future.cancel()
        raise
    return future.result()


def iterate_in(loop: asyncio.AbstractEventLoop, events: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the events of a generator in that loop. When the program stops to iterate, the generator is closed."""
    arrived: queue.SimpleQueue[T | None] = queue.SimpleQueue()

    async def take() -> None:
        try:
            async for event in events:
                arrived.put(event)
        finally:
            await events.aclose()

    taking = asyncio.run_coroutine_threadsafe(take(), loop)
    taking.add_done_callback(lambda _: arrived.put(None))
    try:
        while (event := _next(arrived)) is not None:
            yield event
        taking.result()
    finally:
        taking.cancel()


def _next(arrived: "queue.SimpleQueue[T]") -> T:
    while True:
        try:
            return arrived.get(timeout=_SIGNAL_SECONDS)
        except queue.Empty:
            continue
