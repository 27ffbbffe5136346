"""Background tasks that end well: each is held while it runs, its failure is logged, and none outlives its owner.

`finish` does work to its end, however often its caller is cancelled.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine, Iterator
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_log: Final = logging.getLogger(__name__)


class Tasks:
    """The background tasks of one owner, which calls `close` or `wait` at its own end.

    asyncio holds a task only weakly: without another reference, it may be collected while it runs.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        """The tasks that run now. More may begin, and these may end, during the iteration."""
        return iter(tuple(self._running))

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Do this work in a new task, and return the task. A failure of the work is logged."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._end)
        return task

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Hold a task whose outcome another part reads, so a failure is not logged here."""
        self._running.add(task)
        task.add_done_callback(self._end_quietly)

    def cancel(self) -> None:
        """Cancel the tasks that run now."""
        for task in self:
            task.cancel()

    async def wait(self) -> None:
        """Wait until the tasks that run now have ended. They are cancelled when the caller is."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def close(self, seconds: float = 0.0) -> None:
        """Wait so long for the tasks that run now; cancel those that are left, and wait until they have ended."""
        if self._running and seconds:
            await asyncio.wait(self._running, timeout=seconds)
        self.cancel()
        await self.wait()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("A background task failed: %r", task, exc_info=error)

    def _end_quietly(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as read: if the other part was cancelled, asyncio would log it


async def wait_for(seconds: float, event: asyncio.Event) -> bool:
    """Wait for the event, at most so many seconds. Return whether it has happened."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    return event.is_set()


async def finish(work: Awaitable[_T]) -> _T:
    """Return what the work returns. A caller that is cancelled waits for the end of the work, too.

    So what the work uses can be closed when the caller is over.
    """
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await outlast(doing)
        if not doing.cancelled():
            doing.exception()  # marks the error as read: asyncio would log it
        raise


async def outlast(doing: "asyncio.Future[_T]") -> None:
    """Wait until this is done. To be cancelled does not end the wait: call it where the caller was cancelled before."""
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([doing])
