"""An event loop on a thread of its own, for one hook of a plugin (SPEC E7).

A hook that blocks its thread holds up only other calls of the same hook, each at most for the hook's time limit. A
thread that stays blocked is abandoned, and the next call gets a new thread.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from handspan.core.errors import ToolError
from handspan.engine.deadline import Reaper, run_with_deadline

_BLOCKED_SECONDS: Final = 1.0
"""Seconds after which a loop that does not answer counts as blocked."""
_MOST_ABANDONED: Final = 8


class HookThread:
    """Runs the coroutines of one hook in one event loop, so that the hook can keep connections open between calls."""

    def __init__(self) -> None:
        self._thread: _LoopThread | None = None
        self._abandoned: list[_LoopThread] = []

    async def run(self, make: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> object:
        """Return what the coroutine returns. A cancelled caller does not wait until the hook has ended."""
        thread = self._living_thread()
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(thread.run(make, seconds), thread.loop))
        try:
            return await answer
        except asyncio.CancelledError:
            thread.check()
            raise

    def close(self) -> None:
        """End the thread. A blocked thread is a daemon, which does not delay the end of the process."""
        if self._thread is not None:
            self._thread.end()

    def _living_thread(self) -> "_LoopThread":
        """Return a thread that is not blocked. Raises `ToolError` when too many blocked threads were abandoned."""
        if self._thread is not None and self._thread.is_blocked:
            self._thread.end()
            self._abandoned = [thread for thread in (*self._abandoned, self._thread) if thread.is_alive]
            self._thread = None
        if len(self._abandoned) >= _MOST_ABANDONED:
            raise ToolError("busy", f"{len(self._abandoned)} earlier calls of it still block their threads")
        self._thread = self._thread or _LoopThread()
        return self._thread


class _LoopThread:
    """A thread that runs an event loop until it is told to end."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._reaper = Reaper()
        self._is_ending = asyncio.Event()
        self._asked_at: float | None = None
        """When the loop was asked for a sign of life that it has not given yet; else None."""
        self._thread = threading.Thread(target=self._serve, name="handspan-hook", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    @property
    def is_blocked(self) -> bool:
        """Whether the loop has given no sign of life for some time."""
        return self._asked_at is not None and time.monotonic() - self._asked_at > _BLOCKED_SECONDS

    async def run(self, make: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> object:
        """Return what the coroutine returns. Raises `DeadlineReached` after so many seconds."""
        return await run_with_deadline(make(), seconds, self._reaper)

    def check(self) -> None:
        """Ask the loop for a sign of life."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            self.loop.call_soon_threadsafe(self._give_sign)

    def end(self) -> None:
        """Let the loop end, now or as soon as it is not blocked any more."""
        self.loop.call_soon_threadsafe(self._is_ending.set)

    def _give_sign(self) -> None:
        self._asked_at = None

    def _serve(self) -> None:
        with self._runner:
            self._runner.run(self._wait_for_end())
            self._reaper.alarm.close()

    async def _wait_for_end(self) -> None:
        await self._is_ending.wait()
