"""The state of every call, durable: each call gets exactly one result, even after a crash (SPEC E2, E8, A2)."""

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Final

from msgspec import UNSET, structs

from handspan.core.calls import CallRecord, CallState, Note
from handspan.core.errors import StoreError, ToolError
from handspan.core.records import ALL_CALLS, CallFilter, ToolTiming
from handspan.core.results import ToolResult
from handspan.core.store import Leases, NowOrLater
from handspan.core.values import sanitize
from handspan.store.late_starts import LateStarts
from handspan.store.tables.calls import (
    FINISH,
    FINISH_OR_ENTER,
    EnterCall,
    EnterDone,
    FinishCall,
    require_first,
    start_call,
    suspend_call,
    used_id_error,
)
from handspan.store.tables.database import Database, TableConnection, UnitOfWork, Work, unit_around
from handspan.store.tables.journal import add_note, load_notes, open_query, page_query, timings_query
from handspan.store.tables.rows import (
    RECORD,
    PageCursor,
    Row,
    clamp_limit,
    decode_record,
    entry_values,
    missing,
    outcome_values,
)
from handspan.store.unwritten_results import UnwrittenResults

_log = logging.getLogger(__name__)

_HOLDERS: Final = (
    "SELECT run FROM calls WHERE state <> 'done' AND run IS NOT NULL"
    " UNION SELECT run FROM sessions WHERE state = 'running' AND run IS NOT NULL"
    " UNION SELECT run FROM reservations"
    " UNION SELECT run FROM schedule_runs WHERE state <> 'done'"
)
_FIND: Final = f"SELECT {RECORD} FROM calls WHERE id = ?"


class StoredLedger:
    """The ledger in the database. Implements `Journal`: an awaited method returns when its write is committed."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        clock: Callable[[], float],
        find_now: "Callable[[str, Row], Row | None] | None",
    ) -> None:
        """`find_now`: reads one row at once, without waiting. With it, read-only tools can begin before their write."""
        self._database = database
        self._find_now = find_now
        self._leases = leases
        self._clock = clock
        self._at_work: dict[str, CallRecord] = {}
        """Calls that run in this process, by id. Some are not in the database yet."""
        self._entering: dict[str, asyncio.Future[None]] = {}
        """Pending writes of read-only calls. A reader waits for them."""
        self._uncertain: set[str] = set()
        """Calls whose entry failed: it is not known whether the database has them."""
        self.late_starts = LateStarts(self._write_late_start)
        """Starts of read-only calls that are not written yet."""
        self._collected: dict[str, CallRecord] = {}
        """Calls that were suspended or finished in a unit of work that is not committed yet."""
        self.unwritten_results = UnwrittenResults()
        """Results that the database did not take at first."""

    def now(self) -> float:
        """Return the store's time of day: with several nodes that of the database, since their own clocks differ."""
        return self._clock()

    async def accept(self, record: CallRecord) -> None:
        self._check_room()
        self._submit_unit()
        self.late_starts.write(record.id)  # a running call may have this id: then the new call is refused
        written = self._database.write(self._enter(record, "accepted"))
        record.state = "accepted"  # set before the wait: a cancelled caller then ends a call that the ledger knows
        await self._await_entry(written, record, None)

    def start(self, record: CallRecord) -> NowOrLater[None]:
        """Record that a tool is about to be touched. Return None for a call that needs no wait for the disk."""
        self._check_room()
        before = record.state
        needs_no_disk = self._needs_no_disk(record)
        if before is None and self._find_now is not None and needs_no_disk:
            self._check_unused(record.id, self._find_now)
        self._submit_unit()
        record.state = "started"
        if needs_no_disk and before is None:
            self._at_work[record.id] = record
            self.late_starts.add(record)
            return None
        work = self._enter(record, "started") if before is None else start_call(record, self._leases.own)
        if needs_no_disk:
            self._at_work[record.id] = record
            self._write_start(record.id, work)
            return None
        self.late_starts.write(record.id)
        return self._await_start(self._database.write(work), record, before)

    async def suspend(self, record: CallRecord) -> None:
        """Store that the call waits for its outcome from elsewhere. This process does not work on it any more."""
        work: Work[None]
        if record.state is None:  # it is not in the ledger yet
            work = self._enter(record, "pending")
        else:
            work = partial(suspend_call, record.expires_at, sanitize(record.id))
        self.late_starts.write(record.id)
        unit = unit_around(self._database)
        if unit is None:
            await self._database.write(work)
        else:
            self._collect(unit, work, structs.replace(record, state="pending"))
        record.state = "pending"
        self._at_work.pop(record.id, None)

    def finish(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:
        """Store the one result of a call, with the unit of work or at once. The value is False if it has a result.

        A result that the database does not take is kept and tried again (`unwritten`).
        """
        if record.state is None:  # refused before its entry: a running call may have this id, and keeps it
            self.late_starts.write(record.id)
        else:
            self._at_work.pop(record.id, None)
            self.late_starts.drop(record.id)
        unit = unit_around(self._database)
        # A client's result is written at once, not with the unit: the client gets its acknowledgement only when the
        # result is stored (ws.md 5.3).
        if unit is not None and record.tool.answered_by != "connection":
            return self._finish_in(unit, record, result)
        if self._has_result(record):
            return False
        self._submit_unit()
        work = self._finish(record, result)
        written = self._database.write(work)
        written.add_done_callback(partial(self._on_finished, record, result, work))
        return written

    def unwritten(self, call_id: str) -> "asyncio.Future[bool] | None":
        kept = self.unwritten_results.get(call_id)
        return None if kept is None else kept.stored

    async def find(self, call_id: str) -> CallRecord | None:
        return self._at_work.get(call_id) or await self._load(call_id)

    async def get(self, call_id: str, *, owner: str) -> CallRecord:
        record = await self._load(call_id)
        if record is None or record.owner != owner or await self._is_deleted(record.session):
            raise missing("call", call_id)
        return record

    async def page(
        self, wanted: CallFilter = ALL_CALLS, *, owner: str, limit: int = 50, after: str | None = None
    ) -> tuple[Sequence[CallRecord], str | None]:
        await self._write_late_starts()
        cursor, limit = PageCursor.parse(after), clamp_limit(limit)
        rows = await self._database.fetch_all(*page_query(owner, wanted, cursor, limit + 1))
        records = [self._with_result(decode_record(row)) for row in rows[:limit]]
        return records, str(PageCursor(records[-1].at, records[-1].id)) if len(rows) > limit else None

    async def timings(self, wanted: CallFilter = ALL_CALLS, *, owner: str) -> Sequence[ToolTiming]:
        return [ToolTiming(*row) for row in await self._database.fetch_all(*timings_query(owner, wanted))]

    async def open_calls(self, *, owner: str, session: str | None = None) -> Sequence[CallRecord]:
        await self._write_late_starts()
        rows = await self._database.fetch_all(*open_query(owner, session))
        records = [self._with_result(decode_record(row)) for row in rows]
        return [record for record in records if record.state != "done"]

    async def take_over_calls(self) -> Sequence[CallRecord]:
        lost = await lost_leases(self._database, self._leases)
        return await self._database.write(partial(self._take_over, lost))

    async def note(self, call_id: str, text: str) -> bool:
        return await self._database.write(partial(add_note, call_id, self._clock(), text))

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        return await self._database.read(partial(load_notes, call_id, owner))

    # Works: what the writer of the database runs.

    def _enter(self, record: CallRecord, state: CallState) -> EnterCall:
        """Return the work that enters a new call."""
        return EnterCall(record.id, (*entry_values(record), state, self._leases.own, record.expires_at))

    def _finish(self, record: CallRecord, result: ToolResult) -> FinishCall | EnterDone:
        """Return the work that stores a result. The work returns False if the call has a result already."""
        is_uncertain = record.id in self._uncertain
        self._uncertain.discard(record.id)
        outcome = outcome_values(record, result)
        if record.state is None and not is_uncertain:  # refused before its entry: another call may have this id
            return EnterDone((*entry_values(record), *outcome))
        key = (sanitize(record.id), record.at, sanitize(record.owner))
        if is_uncertain or self._needs_no_disk(record):
            return FinishCall(FINISH_OR_ENTER, (*entry_values(record), *outcome), key)
        return FinishCall(FINISH, (record.size, *outcome, *key), key)

    async def _take_over(self, lost: Set[str | None], connection: TableConnection) -> list[CallRecord]:
        """Give pending calls of lost processes the lease of this process. Return these calls."""
        rows = await connection.fetch_all(f"SELECT run, {RECORD} FROM calls WHERE state = 'pending' ORDER BY at, id")
        pending = [(lease, decode_record(tuple(row))) for lease, *row in rows]
        taken = [
            record
            for lease, record in pending
            if record.tool.answered_by == "connection" and (lease is None or lease == self._leases.own or lease in lost)
        ]
        await connection.execute_many(
            "UPDATE calls SET run = ? WHERE id = ?", [(self._leases.own, record.id) for record in taken]
        )
        return taken

    # What is known before the commit.

    async def _is_deleted(self, session: str) -> bool:
        """Whether the session of a call was deleted, and can still be restored."""
        sql = "SELECT 1 FROM sessions WHERE id = ? AND deleted_at IS NOT NULL"
        return bool(session) and await self._database.fetch_one(sql, (sanitize(session),)) is not None

    async def _load(self, call_id: str) -> CallRecord | None:
        """Return the record as it is stored, or as it will be after the commit."""
        collected = self._collected.get(call_id)
        if collected is not None:
            return collected
        self.late_starts.write(call_id)
        if call_id in self._entering:
            await asyncio.wait([self._entering[call_id]])
        row = await self._database.fetch_one(_FIND, (sanitize(call_id),))
        if row is not None:
            return self._with_result(decode_record(row))
        kept = self.unwritten_results.get(call_id)
        return None if kept is None else kept.record

    def _with_result(self, record: CallRecord) -> CallRecord:
        """Return the record. If its result waits to be written, return the record with that result."""
        kept = self.unwritten_results.get(record.id)
        return kept.record if kept is not None and kept.record.at == record.at else record

    def _has_result(self, record: CallRecord) -> bool:
        """Whether the call has a result that is not committed yet."""
        collected = self._collected.get(record.id)
        return (collected is not None and collected.state == "done") or self._with_result(record) is not record

    def _needs_no_disk(self, record: CallRecord) -> bool:
        """Whether the tool may be touched before the start is stored: it only reads.

        Its answer may not come when this process is gone: it would belong to a call that the ledger does not know.
        """
        return self._find_now is not None and record.tool.read_only and not record.tool.outlives

    def _check_room(self) -> None:
        """Raise `StoreError` when too many results wait in memory: then no more calls begin."""
        if self.unwritten_results.is_full:
            raise StoreError("The store takes no writes, and too many results wait for it. Look at `handspan doctor`.")

    def _check_unused(self, call_id: str, find_now: "Callable[[str, Row], Row | None]") -> None:
        """Raise `ToolError` for a used id. The writer checks this, too, but the caller does not wait for the writer."""
        if call_id in self.late_starts or call_id in self._entering or find_now(_FIND, (sanitize(call_id),)):
            raise used_id_error(call_id)

    async def _await_start(self, written: asyncio.Future[None], record: CallRecord, before: CallState | None) -> None:
        """Wait until the start is stored. Then count the call as running in this process."""
        await self._await_entry(written, record, before)
        self._at_work[record.id] = record

    async def _await_entry(self, written: asyncio.Future[None], record: CallRecord, before: CallState | None) -> None:
        """Wait until the call is stored. If that fails, set the state of the record back to `before`."""
        try:
            await written
        except StoreError:
            record.state = before
            if before is None:
                self._uncertain.add(record.id)
            raise
        except ToolError:
            record.state = None  # another call has this id: the refusal of this call must not end that one
            raise

    async def _write_late_starts(self) -> None:
        """Wait until every start is stored: a reader of many calls must see them."""
        self.late_starts.write_all()
        if self._entering:
            await asyncio.wait(self._entering.values())

    def _write_late_start(self, record: CallRecord) -> None:
        self._write_start(record.id, self._enter(record, "started"))

    def _write_start(self, call_id: str, work: Work[None]) -> None:
        """Begin to write the start of a read-only call. The caller does not wait for the write."""
        written = self._entering[call_id] = self._database.write(work)
        written.add_done_callback(partial(self._on_entered, call_id))

    def _on_entered(self, call_id: str, written: asyncio.Future[None]) -> None:
        self._entering.pop(call_id, None)
        if not written.cancelled() and (error := written.exception()):
            _log.error("The start of the call %s was not stored: %s", call_id, error)

    def _on_finished(
        self, record: CallRecord, result: ToolResult, work: FinishCall | EnterDone, written: asyncio.Future[bool]
    ) -> None:
        """Update the record before the caller of `finish` continues. Keep a result that the database did not take."""
        if written.cancelled():
            return
        error = written.exception()
        if error is not None and not isinstance(error, StoreError):
            _log.error("The result of the call %s was not stored: %s", record.id, error)
        elif error is not None or written.result():
            before, record.state, record.result = record.state, "done", result
            if error is not None and not self._keep(record, work, error):
                record.state, record.result = before, UNSET

    def _keep(self, record: CallRecord, work: FinishCall | EnterDone, error: Exception) -> bool:
        """Keep a result in memory until it is written. Return False when there is no room for it."""
        if isinstance(work, FinishCall):
            work = structs.replace(work, is_again=True)
        is_kept = self.unwritten_results.keep(structs.replace(record), partial(self._database.write, work))
        what_now = (
            "kept in memory and tried again" if is_kept else "lost: the store is closed, or too many others wait for it"
        )
        _log.error("The result of the call %s was not stored: %s It is %s.", record.id, error, what_now)
        return is_kept

    def _finish_in(self, unit: UnitOfWork, record: CallRecord, result: ToolResult) -> bool:
        """Store the result with the unit. The unit fails if another process stored a result first.

        Return False when the call has a result already.
        """
        if self._has_result(record):
            return False
        work = self._finish(record, result)
        record.state = "done"
        record.result = result
        self._collect(unit, partial(require_first, work, record.id), structs.replace(record))
        return True

    def _submit_unit(self) -> None:
        """Submit the unit, so that the messages that led to a call are written before the call."""
        if (unit := unit_around(self._database)) is not None:
            unit.submit()

    def _collect(self, unit: UnitOfWork, work: Work[object], record: CallRecord) -> None:
        """Add the work to the unit. Until it is written, readers get this record."""
        self._collected[record.id] = record

        def on_written() -> None:
            if self._collected.get(record.id) is record:  # else there is a newer record of this call
                del self._collected[record.id]

        unit.add(work, on_written)


async def lost_leases(database: Database, leases: Leases) -> frozenset[str | None]:
    """Return the leases in rows of open calls and turns whose processes are gone. Any other lease counts as alive.

    None is among them, the lease of turns that were handed over, where no other process goes on with those.
    """
    rows = await database.read_few(lambda connection: connection.fetch_all(_HOLDERS))
    handed_over = () if leases.shares_turns else (None,)
    return frozenset([*handed_over, *[holder for (holder,) in rows if not await leases.is_alive(holder)]])
