"""Results that the database did not take: kept in memory, and tried again until they are written (SPEC E2).

A disk that is full and a database that is locked are usable again after a while. A result that was lost meanwhile would
leave its call open until the next start, though its caller has seen the result. A result in memory is not on the disk:
it is not acknowledged to any client, and is lost when the process dies.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from handspan.core.calls import CallRecord
from handspan.core.errors import HandspanError, StoreError

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 2.0


class UnwrittenResult(Struct, frozen=True):
    """A result that waits to be written."""

    record: CallRecord
    """The call as it will be stored."""
    write: Callable[[], "asyncio.Future[bool]"]
    """Begins to write the result. Its future has whether this was the first result of the call."""
    stored: "asyncio.Future[bool]"
    """Is set when the result is written: whether it was the first one of its call. Cancelled when it is given up."""


class UnwrittenResults:
    """Keeps results up to a bound, and writes them as soon as that is possible."""

    def __init__(self, limit: int = 10_000, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._results: dict[str, UnwrittenResult] = {}
        self._bytes = 0
        self._retrying: asyncio.Task[None] | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._results

    @property
    def is_full(self) -> bool:
        """Whether no more results can be kept."""
        return len(self._results) >= self._limit or self._bytes >= self._max_bytes

    def get(self, call_id: str) -> UnwrittenResult | None:
        """Return the result of this call that waits to be written."""
        return self._results.get(call_id)

    def keep(self, record: CallRecord, write: Callable[[], "asyncio.Future[bool]"]) -> bool:
        """Keep this result, and try to write it until that works.

        Return False when there is no room, a result of this call is kept already, or the store is closed.
        """
        if self._is_closed or self.is_full or record.id in self._results:
            return False
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._results[record.id] = UnwrittenResult(record, write, stored)
        self._bytes += record.size
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry())
        return True

    async def close(self) -> None:
        """Try once more, then give up the results that can't be written. Nothing is kept from now on."""
        self._is_closed = True
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.wait([self._retrying])
        if self._results and not await self._write_all():
            _log.error("The results of %d calls are lost: the store took no more writes", len(self._results))
        for kept in self._results.values():
            kept.stored.cancel()
        self._results.clear()

    async def _retry(self) -> None:
        delay = _FIRST_DELAY
        while self._results:
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            if self._results and await self._write_all():
                delay = _FIRST_DELAY

    async def _write_all(self) -> bool:
        """Write the first result and, if that works, all others. Return whether none has to be tried again."""
        waiting = list(self._results.values())
        for group in (waiting[:1], waiting[1:]):
            written = await asyncio.gather(*(kept.write() for kept in group), return_exceptions=True)
            outcomes = [self._end(kept, outcome) for kept, outcome in zip(group, written, strict=True)]
            if not all(outcomes):
                self._move_to_end(waiting[0].record.id)
                return False
        _log.warning("The store takes writes again: the results of %d calls are written", len(waiting))
        return True

    def _move_to_end(self, call_id: str) -> None:
        """Let the next try begin with another result: perhaps this result is the reason, and not the database."""
        if call_id in self._results:
            self._results[call_id] = self._results.pop(call_id)

    def _end(self, kept: UnwrittenResult, outcome: bool | BaseException) -> bool:
        """Forget a result that is written, or that never can be. Return False if it has to be tried again."""
        if isinstance(outcome, (StoreError, asyncio.CancelledError)):
            return False
        del self._results[kept.record.id]
        self._bytes -= kept.record.size
        if isinstance(outcome, bool):
            kept.stored.set_result(outcome)
        else:
            fault = None if isinstance(outcome, HandspanError) else outcome  # a fault of ours: the log has its trace
            text = "The result of the call %s was refused by the store: %s"
            _log.error(text, kept.record.id, outcome, exc_info=fault)
            kept.stored.cancel()
        return True
