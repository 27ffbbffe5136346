"""Tasks whose first step runs at once, not when the loop comes round (a speed trick). Most calls end with that step.

`asyncio.timeout` and task groups hold on to the task that they began in, so each coroutine runs in a task. But making
one costs more than a short call. So a spare task is there before, and waits. It lends its name to a coroutine for the
first step, and goes on with the coroutine when that has to wait. Every coroutine has a context of its own.
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
        """Run it up to where it waits. Returns the task in which it goes on, or None when it has ended."""
        if not self._idle:
            if self._is_fast:
                self._add()
            return self._loop.create_task(coroutine, name=name)
        spare, waits = self._idle.pop(), False
        try:
            waits = spare.begin(coroutine)
        finally:
            if waits or spare.task.cancelling():  # it may have cancelled the task that it took for its own
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
        spare = _SpareTask(self._loop, self._idle)
        self._tasks.add(spare.task)
        spare.task.add_done_callback(self._tasks.discard)


class _SpareTask:
    def __init__(self, loop: asyncio.AbstractEventLoop, idle: "list[_SpareTask]") -> None:
        self._loop = loop
        self._rest: asyncio.Future[_Rest] = loop.create_future()
        self.task = loop.create_task(self._carry(idle))

    def begin(self, coroutine: _Code) -> bool:
        """Make the first step, in the name of this task; False when that was all, True when it has to wait."""
        before, context = asyncio.current_task(self._loop), contextvars.copy_context()
        if before is not None:
            _leave_task(self._loop, before)
        _enter_task(self._loop, self.task)
        try:
            wanted = context.run(coroutine.send, None)
        except StopIteration:
            return False
        finally:
            _leave_task(self._loop, self.task)
            if before is not None:
                _enter_task(self._loop, before)
        self._rest.set_result(_Rest(coroutine, context, wanted))
        return True

    async def _carry(self, idle: "list[_SpareTask]") -> None:
        idle.append(self)  # not before: a task that is cancelled before its first step never gets here
        try:
            await self._rest
        except asyncio.CancelledError:
            if not self._rest.done() or self._rest.cancelled():
                raise
            self._rest.result().cancel()  # right after the first step
        await self._rest.result().run()


class _Rest:
    """A coroutine that has begun and waits for something."""

    def __init__(self, coroutine: _Code, context: contextvars.Context, wanted: Any) -> None:
        self._coroutine = coroutine
        self._context = context
        self._wanted = wanted
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """As a task does it: what is waited for is cancelled, and brings it into the coroutine."""
        if self._wanted is None or not self._wanted.cancel():
            self._error = asyncio.CancelledError()

    @types.coroutine
    def run(self) -> Generator[Any, Any, None]:
        """All its other steps."""
        wanted, error = self._wanted, self._error
        while True:
            if error is None:
                try:
                    yield wanted
                except BaseException as thrown:  # the future's error, or that this task is cancelled
                    error = thrown
            try:
                step = (self._coroutine.send, None) if error is None else (self._coroutine.throw, error)
                wanted, error = self._context.run(*step), None
            except StopIteration:
                return
