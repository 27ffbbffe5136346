"""The state of every call, durable: each call gets exactly one result, even after a crash (SPEC E2, E8, A2)."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Final

from msgspec import UNSET, Struct, structs

from handspan.core.calls import CallRecord, CallState, Note
from handspan.core.errors import StoreError, ToolError
from handspan.core.records import CallStatus, ToolTiming
from handspan.core.results import ToolResult
from handspan.core.store import Leases, NowOrLater
from handspan.core.values import sanitize
from handspan.store.late_starts import LateStarts
from handspan.store.tables.database import Database, TableConnection, UnitOfWork, Work, unit_around
from handspan.store.tables.journal import CallFilter, add_note, load_notes, page_query, timings_query
from handspan.store.tables.rows import (
    ENTRY,
    OUTCOME,
    RECORD,
    PageCursor,
    Row,
    clamp_limit,
    decode_record,
    entry_values,
    outcome_values,
)
from handspan.store.unwritten_results import UnwrittenResults

_log = logging.getLogger(__name__)

_MARKS: Final = ", ".join("?" * len(ENTRY.split(",")))
_OUTCOME_MARKS: Final = ", ".join("?" * len(OUTCOME.split(",")))
_ENTER: Final = (
    f"INSERT INTO calls ({ENTRY}, state, run, expires_at) VALUES ({_MARKS}, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_ENTER_DONE: Final = (
    f"INSERT INTO calls ({ENTRY}, state, {OUTCOME}) VALUES ({_MARKS}, 'done', {_OUTCOME_MARKS})"
    " ON CONFLICT (id) DO NOTHING"
)
_START: Final = (
    "UPDATE calls SET state = 'started', tool = ?, arguments = ?, arguments_form = ?, run = ?, expires_at = ?,"
    " waited = ?, is_edited = ?"
    " WHERE id = ? AND state = 'accepted'"
)
_SUSPEND: Final = "UPDATE calls SET state = 'pending', expires_at = ? WHERE id = ? AND state IN ('started', 'pending')"
# A call that was refused because its id was used must not change the call that used the id first.
FINISH: Final = (
    f"UPDATE calls SET state = 'done', run = NULL, size = ?, ({OUTCOME}) = ({_OUTCOME_MARKS})"
    " WHERE id = ? AND at = ? AND owner = ? AND state <> 'done'"
)
# The start of a read-only call may be missing: the engine did not wait for its write.
_FINISH_OR_ENTER: Final = (
    f"INSERT INTO calls ({ENTRY}, state, {OUTCOME}) VALUES ({_MARKS}, 'done', {_OUTCOME_MARKS})"
    " ON CONFLICT (id) DO UPDATE SET state = 'done', run = NULL, size = excluded.size, "
    + ", ".join(f"{column} = excluded.{column}" for column in OUTCOME.split(", "))
    + " WHERE calls.at = excluded.at AND calls.owner = excluded.owner AND calls.state <> 'done'"
)
_HOLDERS: Final = (
    "SELECT run FROM calls WHERE state <> 'done' AND run IS NOT NULL"
    " UNION SELECT run FROM sessions WHERE state = 'running' AND run IS NOT NULL"
)
_FIND_RESULT: Final = "SELECT result FROM calls WHERE id = ? AND at = ? AND owner = ?"
_FIND: Final = f"SELECT {RECORD} FROM calls WHERE id = ?"


class StoredLedger:
    """The ledger in the database. An awaited method returns when its write is committed."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        clock: Callable[[], float] = time.time,
        find_now: "Callable[[str, Row], Row | None] | None" = None,
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
        self.late_starts = LateStarts[CallRecord](self._write_late_start)
        """Starts of read-only calls that are not written yet."""
        self._collected: dict[str, CallRecord] = {}
        """Calls that were suspended or finished in a unit of work that is not committed yet."""
        self.unwritten_results = UnwrittenResults()
        """Results that the database did not take at first."""

    def now(self) -> float:
        """Return the store's time of day: with several nodes that of the database, since their own clocks differ."""
        return self._clock()

    async def accept(self, record: CallRecord) -> None:
        """Enter this call, before any tool is touched. Raises `ToolError` for a used id."""
        self._check_room()
        self._submit_unit()
        self.late_starts.write(record.id)  # a running call may have this id: then the new call is refused
        written = self._database.write(self._enter(record, "accepted"))
        record.state = "accepted"  # set before the wait: a cancelled caller then ends a call that the ledger knows
        await self._await_entry(written, record, None)

    def start(self, record: CallRecord) -> NowOrLater[None]:
        """Record that a tool is about to be touched. Return None for a call that needs no wait for the disk.

        A read-only call needs no wait, unless its answer may come when this process is gone: then the answer would
        belong to a call that the ledger does not know.
        """
        self._check_room()
        before = record.state
        needs_no_disk = self._find_now is not None and _needs_no_disk(record)
        if before is None and self._find_now is not None and needs_no_disk:
            self._check_unused(record.id, self._find_now)
        self._submit_unit()
        record.state = "started"
        if needs_no_disk and before is None:
            self._at_work[record.id] = record
            self.late_starts.add(record.id, record)
            return None
        work = self._enter(record, "started") if before is None else start_call(record, self._leases.own)
        if needs_no_disk:
            self._at_work[record.id] = record
            self._write_start(record.id, work)
            return None
        self.late_starts.write(record.id)
        return self._await_start(self._database.write(work), record, before)

    async def suspend(self, record: CallRecord) -> None:
        """Record that the outcome may come later, until `record.expires_at`. A call without an entry is entered now."""
        work: Work[None]
        if record.state is None:
            work = self._enter(record, "pending")
        else:
            work = partial(_suspend, record.expires_at, sanitize(record.id))
        self.late_starts.write(record.id)
        unit = unit_around(self._database)
        if unit is None:
            await self._database.write(work)
        else:
            self._collect(unit, work, structs.replace(record, state="pending"))
        record.state = "pending"
        self._at_work.pop(record.id, None)

    def finish(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:
        """Store the one result of a call. The value is False when the call has a result already.

        The end of a unit of work acknowledges the results that were stored in it. A result that the database does not
        take is kept and tried again; `StoreError` says that it is not stored yet (`unwritten`).
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
        if self._has_collected_result(record.id) or self._has_unwritten_result(record):
            return False
        self._submit_unit()
        work = self._finish(record, result)
        written = self._database.write(work)
        written.add_done_callback(partial(self._on_finished, record, result, work))
        return written

    def unwritten(self, call_id: str) -> "asyncio.Future[bool] | None":
        """Return the future of a result that is tried again; None if there is no such result.

        Once the result is stored, the future says whether it was the first result of its call.
        """
        kept = self.unwritten_results.get(call_id)
        return None if kept is None else kept.stored

    async def find(self, call_id: str) -> CallRecord | None:
        """Return the record of this call, or None. While the call runs in this process, it is the engine's own record.

        Doors use `get`, which checks the owner.
        """
        return self._at_work.get(call_id) or await self._load(call_id)

    async def get(self, call_id: str, *, owner: str) -> CallRecord:
        """Return the owner's call. Raises `ToolError` (`file_not_found`) when the owner has no such call."""
        record = await self._load(call_id)
        if record is None or record.owner != owner:
            text = f"There is no call {call_id[:60]!r}: it was never made, is not yours, or was deleted."
            raise ToolError("file_not_found", text)
        return record

    async def page(
        self,
        *,
        owner: str,
        session: str | None = None,
        tool: str | None = None,
        origin: str | None = None,
        status: CallStatus | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> tuple[Sequence[CallRecord], str | None]:
        """Return the owner's calls that fit the filter, the newest first, and the cursor of the next page."""
        await self._write_late_starts()
        cursor, limit = PageCursor.parse(after), clamp_limit(limit)
        sql, values = page_query(owner, CallFilter(session, tool, origin, status, since, until), cursor, limit + 1)
        rows = await self._database.fetch_all(sql, values)
        records = [self._with_result(decode_record(row)) for row in rows[:limit]]
        return records, str(PageCursor(records[-1].at, records[-1].id)) if len(rows) > limit else None

    async def timings(
        self, *, owner: str, session: str | None = None, tool: str | None = None, origin: str | None = None
    ) -> Sequence[ToolTiming]:
        """Return how long the owner's finished calls took, one row for each tool, the most called tool first."""
        sql, values = timings_query(owner, CallFilter(session, tool, origin))
        return [ToolTiming(*row) for row in await self._database.fetch_all(sql, values)]

    async def open_calls(self, *, owner: str, session: str | None = None) -> Sequence[CallRecord]:
        """Return the owner's calls without a result, the oldest first."""
        await self._write_late_starts()
        where, values = _owner_filter(owner, session)
        sql = f"SELECT {RECORD} FROM calls WHERE state <> 'done' AND {where} ORDER BY at, id"
        rows = await self._database.fetch_all(sql, values)
        records = [self._with_result(decode_record(row)) for row in rows]
        return [record for record in records if record.state != "done"]

    async def take_over_calls(self) -> Sequence[CallRecord]:
        """Put the calls that wait for clients of lost processes under the lease of this process.

        So no other process waits for the same clients. Return these calls, the oldest first.
        """
        lost = await lost_leases(self._database, self._leases)
        return await self._database.write(partial(self._take_over, lost))

    async def note(self, call_id: str, text: str) -> bool:
        """Store a note beside a finished call. Return False if there is no such call, or if it has `MAX_NOTES`."""
        return await self._database.write(partial(add_note, call_id, self._clock(), text))

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        """Return the notes that came for the owner's call after its result, the oldest first."""
        return await self._database.read(partial(load_notes, call_id, owner))

    # Works: what the writer of the database runs.

    def _enter(self, record: CallRecord, state: CallState) -> "EnterCall":
        """Return the work that enters a new call."""
        return EnterCall(record.id, (*entry_values(record), state, self._leases.own, record.expires_at))

    def _finish(self, record: CallRecord, result: ToolResult) -> "FinishCall | EnterDone":
        """Return the work that stores a result. The work returns False if the call has a result already."""
        is_uncertain = record.id in self._uncertain
        self._uncertain.discard(record.id)
        outcome = outcome_values(record, result)
        if record.state is None and not is_uncertain:  # refused before its entry: another call may have this id
            return EnterDone((*entry_values(record), *outcome))
        key = (sanitize(record.id), record.at, sanitize(record.owner))
        if is_uncertain or (self._find_now is not None and _needs_no_disk(record)):
            return FinishCall(_FINISH_OR_ENTER, (*entry_values(record), *outcome), key)
        return FinishCall(FINISH, (record.size, *outcome, *key), key)

    async def _take_over(self, lost: Set[str], connection: TableConnection) -> list[CallRecord]:
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

    def _has_unwritten_result(self, record: CallRecord) -> bool:
        kept = self.unwritten_results.get(record.id)
        return kept is not None and kept.record.at == record.at

    def _check_room(self) -> None:
        """Raise `StoreError` when too many results wait in memory: then no more calls begin."""
        if self.unwritten_results.is_full:
            raise StoreError("The store takes no writes, and too many results wait for it. Look at `handspan doctor`.")

    def _check_unused(self, call_id: str, find_now: "Callable[[str, Row], Row | None]") -> None:
        """Raise `ToolError` for a used id. The writer checks this, too, but the caller does not wait for the writer."""
        if call_id in self.late_starts or call_id in self._entering or find_now(_FIND, (sanitize(call_id),)):
            raise _used_id_error(call_id)

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

    def _write_late_start(self, call_id: str, record: CallRecord) -> None:
        self._write_start(call_id, self._enter(record, "started"))

    def _write_start(self, call_id: str, work: Work[None]) -> None:
        """Begin to write the start of a read-only call. The caller does not wait for the write."""
        written = self._entering[call_id] = self._database.write(work)
        written.add_done_callback(partial(self._on_entered, call_id))

    def _on_entered(self, call_id: str, written: asyncio.Future[None]) -> None:
        self._entering.pop(call_id, None)
        if not written.cancelled() and (error := written.exception()):
            _log.error("The start of the call %s was not stored: %s", call_id, error)

    def _on_finished(
        self, record: CallRecord, result: ToolResult, work: "FinishCall | EnterDone", written: asyncio.Future[bool]
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

    def _keep(self, record: CallRecord, work: "FinishCall | EnterDone", error: Exception) -> bool:
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
        if self._has_collected_result(record.id) or self._has_unwritten_result(record):
            return False
        work = self._finish(record, result)
        record.state = "done"
        record.result = result
        self._collect(unit, partial(_require_first, work, record.id), structs.replace(record))
        return True

    def _submit_unit(self) -> None:
        """Submit the unit, so that the messages that led to a call are written before the call."""
        if (unit := unit_around(self._database)) is not None:
            unit.submit()

    def _has_collected_result(self, call_id: str) -> bool:
        collected = self._collected.get(call_id)
        return collected is not None and collected.state == "done"

    def _collect(self, unit: UnitOfWork, work: Work[object], record: CallRecord) -> None:
        """Add the work to the unit. Until it is written, readers get this record."""
        self._collected[record.id] = record

        def on_written() -> None:
            if self._collected.get(record.id) is record:  # else there is a newer record of this call
                del self._collected[record.id]

        unit.add(work, on_written)


async def lost_leases(database: Database, leases: Leases) -> frozenset[str]:
    """Return the leases in rows of open calls and turns whose processes are gone. Any other lease counts as alive."""
    rows = await database.read_few(lambda connection: connection.fetch_all(_HOLDERS))
    return frozenset([holder for (holder,) in rows if not await leases.is_alive(holder)])


def _needs_no_disk(record: CallRecord) -> bool:
    """Whether the tool may be touched before the start is stored."""
    return record.tool.read_only and not record.tool.outlives


def _owner_filter(owner: str, session: str | None) -> tuple[str, Row]:
    if session is None:
        return "owner = ?", (sanitize(owner),)
    return "owner = ? AND session = ?", (sanitize(owner), sanitize(session))


class EnterCall(Struct, frozen=True):
    """The work that enters a new call. Raises `ToolError` for a used id."""

    call_id: str
    values: Row
    """The values of `ENTRY`, then state, lease and expiry."""

    async def __call__(self, connection: TableConnection) -> None:
        """Enter it."""
        if await connection.execute(_ENTER, self.values) == 0:
            raise _used_id_error(self.call_id)


async def enter_done(record: CallRecord, result: ToolResult, connection: TableConnection) -> None:
    """Enter a call together with its result."""
    await EnterDone((*entry_values(record), *outcome_values(record, result)))(connection)


class EnterDone(Struct, frozen=True):
    """The work that enters a call together with its result. It returns False if the id is used."""

    values: Row

    async def __call__(self, connection: TableConnection) -> bool:
        """Enter it."""
        return await connection.execute(_ENTER_DONE, self.values) == 1


class StartCall(Struct, frozen=True):
    """The work that starts an accepted call. Raises `ToolError` (`busy`) when the call has another state by now."""

    call_id: str
    values: Row
    """Tool, arguments and their form, lease, expiry, waited, is_edited; then the call's id."""

    async def __call__(self, connection: TableConnection) -> None:
        """Start it."""
        if await connection.execute(_START, self.values) == 0:
            raise ToolError("busy", f"The call {self.call_id!r} was started elsewhere, or has its result: look there.")


def start_call(record: CallRecord, lease: str) -> StartCall:
    """Return the work that starts this call."""
    values = entry_values(record)
    call_id, tool, arguments, form = values[0], *values[5:8]
    consent = (record.waited, record.is_edited)
    return StartCall(record.id, (tool, arguments, form, lease, record.expires_at, *consent, call_id))


async def _suspend(expires_at: float | None, call_id: str, connection: TableConnection) -> None:
    await connection.execute(_SUSPEND, (expires_at, call_id))


class FinishCall(Struct, frozen=True):
    """The work that stores a result. It returns False if the call has a result already."""

    statement: str
    values: Row
    key: Row
    """Id, time and owner of the call."""
    is_again: bool = False
    """Whether an earlier try failed: it may have stored this result all the same."""

    async def __call__(self, connection: TableConnection) -> bool:
        """Store it."""
        if await connection.execute(self.statement, self.values) == 1:
            return True
        row = await connection.fetch_one(_FIND_RESULT, self.key)
        # Without a row, the call was deleted with its session, or its id belongs to another call. The caller still gets
        # the result.
        return row is None or (self.is_again and row[0] is not None and bytes(row[0]) in self.values)


async def _require_first(work: Work[bool], call_id: str, connection: TableConnection) -> None:
    """Store a result. Raise `ToolError` (`busy`) when the call has a result already."""
    if not await work(connection):
        raise ToolError("busy", f"The call {call_id!r} got its result elsewhere: load the session again.")


def _used_id_error(call_id: str) -> ToolError:
    return ToolError("invalid_arguments", f"The call id {call_id!r} was used before: every call needs its own.")
