"""Calls that outlive the request that asked for them: whoever asks again finds them at work."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeAlias

from handspan.core.results import Pending, ToolResult

Outcome: TypeAlias = ToolResult | Pending


class CallsAtWork:
    """The calls of REST that run now, by id."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}
        self.is_open = True
        """Not any more when the gateway stops: what runs may end, and nothing new begins (SPEC G3)."""

    def begin(self, call_id: str, work: Coroutine[Any, Any, Outcome]) -> "asyncio.Task[Outcome]":
        """Let it run until it ends, whoever waits."""
        task = self._tasks[call_id] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._ended(call_id, done))
        return task

    def find(self, call_id: str) -> "asyncio.Task[Outcome] | None":
        """The call of this id, while it runs."""
        return self._tasks.get(call_id)

    async def wait(self, seconds: float) -> None:
        """Let them end for so long."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)

    async def close(self) -> None:
        """Stop them; the engine gives each its result."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, call_id: str, done: "asyncio.Task[Outcome]") -> None:
        del self._tasks[call_id]
        if not done.cancelled():
            done.exception()  # the engine raises nothing; should it all the same, nobody else would look


async def first_of(*waited: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait until one of these is done, and not longer than that. None of them is stopped by it."""
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
