"""A ledger in memory, for tests and figures of the engine alone (SPEC E2, E8)."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence

from handspan.core.calls import MAX_NOTES, CallRecord, Note, cut_note
from handspan.core.errors import ToolError
from handspan.core.results import ToolResult


class MemoryLedger:
    """Keeps every open call and the last finished ones, until the process ends. `store/` has a ledger that lasts."""

    def __init__(self, keep: int = 1000, keep_bytes: int = 32 * 1024 * 1024) -> None:
        """`keep`: how many finished calls stay at least, if they have at most `keep_bytes` bytes.

        A few more may stay: to remove many at once is cheaper.
        """
        self._calls: dict[str, CallRecord] = {}
        self._done: deque[CallRecord] = deque()
        self._keep = keep
        self._limit = keep + keep // 16
        self._keep_bytes = keep_bytes
        self._bytes = 0
        self._notes: dict[str, list[Note]] = {}

    def now(self) -> float:
        """Return this computer's time of day: no process with another clock has these calls."""
        return time.time()

    async def accept(self, record: CallRecord) -> None:
        """Store a call that has touched no tool yet."""
        self._add(record)
        record.state = "accepted"

    def start(self, record: CallRecord) -> None:
        """Store that the call is about to touch its tool."""
        if record.state is None:
            if record.id in self._calls:
                raise _duplicate_id(record)
            self._calls[record.id] = record
        record.state = "started"

    async def suspend(self, record: CallRecord) -> None:
        """Store that the outcome of the call comes later."""
        if record.state is None:
            self._add(record)
        record.state = "pending"

    def finish(self, record: CallRecord, result: ToolResult) -> bool:
        """Store the one result of the call. Return False when the call has a result already."""
        if self._calls.get(record.id) is not record:
            if not self._may_finish(record):
                return False
            self._calls[record.id] = record
        elif record.state == "done":
            return False
        record.state = "done"
        record.result = result
        done = self._done
        done.append(record)
        self._bytes += record.size
        if len(done) > self._limit or self._bytes > self._keep_bytes:
            self._forget_oldest()
        return True

    def unwritten(self, call_id: str) -> asyncio.Future[bool] | None:
        """Return None: every result is stored at once."""
        return None

    async def find(self, call_id: str) -> CallRecord | None:
        """Return the record of this call."""
        return self._calls.get(call_id)

    async def note(self, call_id: str, text: str) -> bool:
        """Store a note for a finished call. Return False for an unknown or open call, or one with `MAX_NOTES` notes."""
        record = self._calls.get(call_id)
        if record is None or record.state != "done":
            return False
        notes = self._notes.setdefault(call_id, [])
        if len(notes) == MAX_NOTES:
            return False
        note = Note(time.time(), cut_note(text))
        notes.append(note)
        record.size += len(note.text)
        self._bytes += len(note.text)
        if self._bytes > self._keep_bytes:
            self._forget_oldest()
        return True

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        """Return the notes of the owner's call, the oldest first."""
        record = self._calls.get(call_id)
        return () if record is None or record.owner != owner else tuple(self._notes.get(call_id, ()))

    def journal(self) -> Iterator[CallRecord]:
        """Return the finished calls that are still known, oldest first."""
        return iter(tuple(self._done))

    def open_calls(self) -> Iterator[CallRecord]:
        """Return the calls that have no result yet."""
        return iter([record for record in self._calls.values() if record.state != "done"])

    def _may_finish(self, record: CallRecord) -> bool:
        """Whether this record may end the call of its id, though it is not the record that the ledger has."""
        known = self._calls.get(record.id)
        # A call that was refused early may have the id of another call, which goes on.
        return (known is None) == (record.state is None) and (known is None or known.state != "done")

    def _forget_oldest(self) -> None:
        """Remove the oldest finished calls while there are too many of them, or too many bytes."""
        calls, done, notes = self._calls, self._done, self._notes
        keep, size, largest = self._keep, self._bytes, self._keep_bytes
        while len(done) > keep or (size > largest and done):
            oldest = done.popleft()
            size -= oldest.size
            del calls[oldest.id]
            if notes:
                notes.pop(oldest.id, None)
        self._bytes = size

    def _add(self, record: CallRecord) -> None:
        if record.id in self._calls:
            raise _duplicate_id(record)
        self._calls[record.id] = record


def _duplicate_id(record: CallRecord) -> ToolError:
    return ToolError("invalid_arguments", f"The call id {record.id!r} was used before: every call needs its own.")
