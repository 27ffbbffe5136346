"""The one result of each call: stored in the ledger, published, and told to the caller (SPEC E2, E8)."""

import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec import UnsetType

from handspan.core.bus import Bus
from handspan.core.calls import CallRecord
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.store import Ledger, NowOrLater
from handspan.engine.ledger import publish_when_stored
from handspan.engine.outcome import unknown_outcome

_log: Final = logging.getLogger(__name__)


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
        """Store a result as it is and publish it. Return False when the call has a result already."""
        written = self._ledger.finish(record, result)
        return written if self._bus is None else publish_when_stored(self._bus, self._ledger, written, record)

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
