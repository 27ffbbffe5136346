"""The ledger in memory: every call's state, and the journal of the last ones (SPEC E2, E8)."""

import time
from collections import deque
from collections.abc import Iterator, Sequence

from handspan.core.calls import MOST_NOTES, CallRecord, Note, cut_note
from handspan.core.errors import ToolError
from handspan.core.results import ToolResult


class MemoryLedger:
    """Knows every open call, and the last finished ones. Nothing survives the process: for that there is the store."""

    def __init__(self, keep: int = 1000, keep_bytes: int = 32 * 1024 * 1024) -> None:
        self._calls: dict[str, CallRecord] = {}
        self._done: deque[CallRecord] = deque()
        self._keep = keep
        self._keep_bytes = keep_bytes
        self._bytes = 0
        self._notes: dict[str, list[Note]] = {}

    async def accept(self, record: CallRecord) -> None:
        """Know this call; no tool was touched."""
        self._enter(record)
        record.state = "accepted"

    def start(self, record: CallRecord) -> None:
        """A tool is about to be touched."""
        if record.state is None:
            if record.id in self._calls:
                raise _used_before(record)
            self._calls[record.id] = record
        record.state = "started"

    async def suspend(self, record: CallRecord) -> None:
        """The outcome of a call comes later."""
        if record.state is None:
            self._enter(record)
        record.state = "pending"

    def finish(self, record: CallRecord, result: ToolResult) -> bool:
        """Keep the one result; False when this call already has one."""
        if self._calls.get(record.id) is not record:
            if not self._takes(record):
                return False
            self._calls[record.id] = record
        elif record.state == "done":
            return False
        record.state = "done"
        record.result = result
        self._done.append(record)
        self._bytes += record.size
        if len(self._done) > self._keep or self._bytes > self._keep_bytes:
            self._forget_oldest()
        return True

    async def find(self, call_id: str) -> CallRecord | None:
        """What is known of this call."""
        return self._calls.get(call_id)

    async def note(self, call_id: str, text: str) -> bool:
        """Keep this beside a finished call that is still known; False when there is none, or it has enough of them."""
        record = self._calls.get(call_id)
        if record is None or record.state != "done":
            return False
        notes = self._notes.setdefault(call_id, [])
        if len(notes) == MOST_NOTES:
            return False
        note = Note(time.time(), cut_note(text))
        notes.append(note)
        record.size += len(note.text)
        self._bytes += len(note.text)
        if self._bytes > self._keep_bytes:
            self._forget_oldest()
        return True

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        """What came for the owner's call when it had its result already, the first one first."""
        record = self._calls.get(call_id)
        return () if record is None or record.owner != owner else tuple(self._notes.get(call_id, ()))

    def journal(self) -> Iterator[CallRecord]:
        """The finished calls that are still known, oldest first."""
        return iter(tuple(self._done))

    def open_calls(self) -> Iterator[CallRecord]:
        """The calls that have no result yet."""
        return iter([record for record in self._calls.values() if record.state != "done"])

    def _takes(self, record: CallRecord) -> bool:
        """Whether a record that is not the known one of its id may end that call."""
        known = self._calls.get(record.id)
        # A call that was refused before the ledger knew it may bear another call's id, which goes on.
        return (known is None) == (record.state is None) and (known is None or known.state != "done")

    def _forget_oldest(self) -> None:
        """Forget the oldest call, and more of them while there are too many."""
        done = self._done
        while done:
            oldest = done.popleft()
            self._bytes -= oldest.size
            del self._calls[oldest.id]
            if self._notes:
                self._notes.pop(oldest.id, None)
            if len(done) <= self._keep and self._bytes <= self._keep_bytes:
                return

    def _enter(self, record: CallRecord) -> None:
        if record.id in self._calls:
            raise _used_before(record)
        self._calls[record.id] = record


def _used_before(record: CallRecord) -> ToolError:
    return ToolError("invalid_arguments", f"The call id {record.id!r} was used before: every call needs its own.")
