"""The one result of each call: stored in the ledger, published, and told to the caller (SPEC E2, E8)."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from msgspec import UnsetType

from handspan.core.bus import Bus, CallCompleted
from handspan.core.calls import CallRecord
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.store import Ledger, NowOrLater
from handspan.engine.outcome import unknown_outcome

_log: Final = logging.getLogger(__name__)


class OpenWork:
    """Counts calls that have begun and have not ended. `wait` returns when all have ended."""

    def __init__(self) -> None:
        self.count = 0
        """The number of open calls. `Engine.call` changes it directly: `with` is slower."""
        self.ended: asyncio.Future[None] | None = None
        """The future that `wait` awaits; None when nothing waits."""

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        self.notify()

    def notify(self) -> None:
        """Let `wait` check the count again."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until all calls have ended, at most so many seconds. Return whether they have."""
        try:
            async with asyncio.timeout(seconds):
                while self.count:
                    self.ended = asyncio.get_running_loop().create_future()
                    await self.ended
        except TimeoutError:
            return False
        finally:
            self.ended = None
        return True


class Results:
    """Writes results to the ledger. The first result of a call counts."""

    def __init__(self, ledger: Ledger, bus: Bus | None, is_stopped: Callable[[], bool]) -> None:
        """`bus` gets a `CallCompleted` for each stored result. `is_stopped`: whether Handspan is being closed."""
        self._ledger = ledger
        self._bus = bus
        self._is_stopped = is_stopped

    def store(self, record: CallRecord, result: ToolResult, began: float) -> NowOrLater[bool]:
        """Store the call's one result and publish it. Return False when the call has a result already."""
        if isinstance(result, Success):
            record.size += len(result.encoded)
        record.duration = time.monotonic() - began
        return self.write(record, result)

    def write(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:
        """Store a result as it is, and publish it once it is stored, even if the caller was cancelled.

        Return False when the call has a result already.
        """
        written = self._ledger.finish(record, result)
        if isinstance(written, bool):
            if written and self._bus is not None:
                _publish(self._bus, record)
            return written
        stored = asyncio.ensure_future(written)
        stored.add_done_callback(partial(self._publish_if_stored, record))
        return _Shielded(stored)

    def _publish_if_stored(self, record: CallRecord, stored: asyncio.Future[bool]) -> None:
        if stored.cancelled():
            return
        if stored.exception() is None:
            if stored.result() and self._bus is not None:
                _publish(self._bus, record)
        elif (later := self._ledger.unwritten(record.id)) is not None:  # the ledger tries again
            later.add_done_callback(partial(self._publish_if_stored, record))

    async def wait(self, written: NowOrLater[bool], record: CallRecord, result: ToolResult) -> ToolResult | None:
        """Wait until the result is stored and return it. Return None when the call has a result already.

        When the ledger can't write, the caller gets this result anyway: the ledger tries again. While Handspan is being
        closed, the ledger does not try again. The next process then says that the outcome of the call is unknown, so
        the caller gets that answer, too.
        """
        try:
            is_first = written if isinstance(written, bool) else await written
        except ToolError as error:
            _log.error("The result of the call %s (%s) is not stored yet: %s", record.id, record.name, error.message)
            is_lost = self._is_stopped() and record.state is not None
            return unknown_outcome(record.name) if is_lost else result
        return result if is_first else None

    async def refuse(self, record: CallRecord, failure: Failure) -> ToolResult:
        """Store the failure of a call that goes no further, and return it."""
        answer = await self.wait(self.write(record, failure), record, failure)
        return failure if answer is None else answer

    async def find_first(self, record: CallRecord) -> ToolResult:
        """Return the stored result of a call that got a second one."""
        stored = await self._ledger.find(record.id)
        assert stored is not None and not isinstance(stored.result, UnsetType)  # `finish` returned False
        return stored.result


class _Shielded:
    """Awaits a write that goes on when the waiting task is cancelled."""

    __slots__ = ("_stored",)

    def __init__(self, stored: asyncio.Future[bool]) -> None:
        self._stored = stored

    def __await__(self) -> Generator[Any, None, bool]:
        return asyncio.shield(self._stored).__await__()


def _publish(bus: Bus, record: CallRecord) -> None:
    status = record.result.code if isinstance(record.result, Failure) else "success"
    owner, session, tool, took = record.owner, record.session, record.tool, record.duration
    bus.publish(CallCompleted(owner, session, record.id, record.name, tool=tool, status=status, duration=took))
