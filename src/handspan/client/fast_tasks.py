"""Tasks whose first step runs at once, not in the next round of the loop (a speed trick). Most calls end with it.

Each coroutine has to run in a task, because `asyncio.timeout` and task groups use the task in which they began. But a
new task costs more than a short call. So a spare task is made before, and waits. The first step of a coroutine runs as
if it ran in the spare task; when the coroutine has to wait, the spare task runs the other steps. Every coroutine has a
context of its own.
"""

import asyncio
import contextvars
import types
from asyncio.tasks import _enter_task, _leave_task  # for code that runs coroutines: "Extending", in asyncio's manual
from collections.abc import Coroutine, Generator
from typing import Any, TypeAlias

from handspan.core.fast import IS_FAST

_Code: TypeAlias = Coroutine[Any, Any, None]


class EagerTasks:
    """Runs coroutines, each up to where it has to wait, then in a task."""

    def __init__(self, is_fast: bool = IS_FAST) -> None:
        """`is_fast=False`: every coroutine runs in a task of its own from its first step on, as asyncio does it."""
        self._is_fast = is_fast
        self._loop: asyncio.AbstractEventLoop
        self._idle: list[_SpareTask] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run on this loop."""
        self._loop = loop
        if self._is_fast:
            self._add()

    def start(self, coroutine: _Code, name: str) -> asyncio.Task[None] | None:
        """Run the coroutine up to where it waits. Return the task in which it goes on; None when it has ended."""
        if not self._idle:
            if self._is_fast:
                self._add()
            return self._loop.create_task(coroutine, name=name)
        spare, waits = self._idle.pop(), False
        try:
            waits = spare.begin(coroutine)
        finally:
            if waits or spare.task.cancelling():  # the coroutine takes it for its own task, and may have cancelled it
                self._add()
            else:
                self._idle.append(spare)
        return spare.task if waits else None

    async def close(self) -> None:
        """End the spare tasks."""
        for spare in self._idle:
            spare.task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add(self) -> None:
        """Make a spare task, which adds itself to `_idle` with its first step."""
        spare = _SpareTask(self._loop, self._idle)
        self._tasks.add(spare.task)
        spare.task.add_done_callback(self._tasks.discard)


class _SpareTask:
    """A task that was made before it is needed, and waits for a coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: "list[_SpareTask]") -> None:
        self._loop = loop
        self._started: asyncio.Future[_StartedCoroutine] = loop.create_future()
        self.task = loop.create_task(self._run(idle))

    def begin(self, coroutine: _Code) -> bool:
        """Run the first step of the coroutine as this task. Return True when it waits, False when it has ended."""
        before, context = asyncio.current_task(self._loop), contextvars.copy_context()
        if before is not None:
            _leave_task(self._loop, before)
        _enter_task(self._loop, self.task)
        try:
            awaited = context.run(coroutine.send, None)
        except StopIteration:
            return False
        finally:
            _leave_task(self._loop, self.task)
            if before is not None:
                _enter_task(self._loop, before)
        self._started.set_result(_StartedCoroutine(coroutine, context, awaited))
        return True

    async def _run(self, idle: "list[_SpareTask]") -> None:
        idle.append(self)  # here, because a task that is cancelled before its first step must not be in the list
        try:
            await self._started
        except asyncio.CancelledError:
            if not self._started.done() or self._started.cancelled():
                raise
            self._started.result().cancel()  # right after the first step
        await self._started.result().run()


class _StartedCoroutine:
    """A coroutine that has begun and waits for something."""

    def __init__(self, coroutine: _Code, context: contextvars.Context, awaited: Any) -> None:
        self._coroutine = coroutine
        self._context = context
        self._awaited = awaited
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Cancel the coroutine as a task does: cancel the future that it awaits, which raises in the coroutine."""
        if self._awaited is None or not self._awaited.cancel():
            self._error = asyncio.CancelledError()

    @types.coroutine
    def run(self) -> Generator[Any, Any, None]:
        """Run the other steps of the coroutine."""
        awaited, error = self._awaited, self._error
        while True:
            if error is None:
                try:
                    yield awaited
                except BaseException as thrown:  # the future's error, or that this task is cancelled
                    error = thrown
            try:
                step = (self._coroutine.send, None) if error is None else (self._coroutine.throw, error)
                awaited, error = self._context.run(*step), None
            except StopIteration:
                return
