"""Coroutines that begin at once: their first step does not wait until the loop comes round. Most are over with it.

Code runs in a task, as everywhere: `asyncio.timeout` and task groups hold on to the task that they began in. But making
one costs more than a short call. So a task is there before, which only waits: it lends its name to a coroutine for the
first step, and goes on with it when the coroutine has to wait. Every coroutine has a context of its own.
"""

import asyncio
import contextvars
import types
from asyncio.tasks import (
    _enter_task,
    _leave_task,
)  # made for those who run coroutines: "Extending", in asyncio's manual
from collections.abc import Coroutine, Generator
from typing import Any, TypeAlias

_Code: TypeAlias = Coroutine[Any, Any, None]


class Carriers:
    """Tasks that wait for something to run."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._idle: list[_Carrier] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run on this loop."""
        self._loop = loop
        self._add()

    def start(self, coroutine: _Code, name: str) -> asyncio.Task[None] | None:
        """Run it up to where it waits; the task in which it goes on, or None when it has ended."""
        if not self._idle:
            self._add()
            return self._loop.create_task(coroutine, name=name)
        carrier, waits = self._idle.pop(), False
        try:
            waits = carrier.begin(coroutine)
        finally:
            if waits or carrier.task.cancelling():  # it may have cancelled the task that it took for its own
                self._add()
            else:
                self._idle.append(carrier)
        return carrier.task if waits else None

    async def close(self) -> None:
        """Let those end that wait for something to run."""
        for carrier in self._idle:
            carrier.task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add(self) -> None:
        carrier = _Carrier(self._loop, self._idle)
        self._tasks.add(carrier.task)
        carrier.task.add_done_callback(self._tasks.discard)


class _Carrier:
    def __init__(self, loop: asyncio.AbstractEventLoop, idle: "list[_Carrier]") -> None:
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

    async def _carry(self, idle: "list[_Carrier]") -> None:
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
