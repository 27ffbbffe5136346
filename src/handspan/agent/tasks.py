"""Work that belongs to the gateway, not to who asked for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Tasks:
    """Tasks that go on whatever becomes of who began them; `left` are those that are not over."""

    def __init__(self) -> None:
        self.left: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Let this go on."""
        task = asyncio.create_task(work)
        self.add(task)
        return task

    def add(self, task: asyncio.Task[Any]) -> None:
        """Keep this one too."""
        self.left.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self.left.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it hears of it; nobody may be left who does
