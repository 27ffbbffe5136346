"""Every call's state, durable: exactly one result for every call, whatever crashes (SPEC E2, E8, A2)."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Final

from msgspec import structs

from handspan.core.calls import CallRecord, CallState, Note
from handspan.core.errors import StoreError, ToolError
from handspan.core.records import CallStatus
from handspan.core.results import ToolResult
from handspan.core.store import Leases, NowOrLater
from handspan.core.values import plain
from handspan.store.sqlite.database import Database, Unit
from handspan.store.sqlite.journal import CallFilter, add_note, notes_of, page_query
from handspan.store.sqlite.leases import lost_leases
from handspan.store.sqlite.rows import ENTRY, OUTCOME, RECORD, Mark, Row, entry, outcome, page_size, record_of
from handspan.store.sqlite.writer import Work

_log = logging.getLogger(__name__)

_MARKS: Final = ", ".join("?" * len(ENTRY.split(",")))
_ENTER: Final = f"INSERT OR IGNORE INTO calls ({ENTRY}, state, run, expires_at) VALUES ({_MARKS}, ?, ?, ?)"
_ENTER_DONE: Final = (
    f"INSERT OR IGNORE INTO calls ({ENTRY}, state, {OUTCOME}) VALUES ({_MARKS}, 'done', ?, ?, ?, ?, ?, ?)"
)
_START: Final = (
    "UPDATE calls SET state = 'started', tool = ?, arguments = ?, arguments_form = ?, run = ?, expires_at = ?"
    " WHERE id = ? AND state = 'accepted'"
)
_SUSPEND: Final = "UPDATE calls SET state = 'pending', expires_at = ? WHERE id = ? AND state = 'started'"
# A call that never got in because its id was used must not touch the one that had it first.
_FINISH: Final = (
    f"UPDATE calls SET state = 'done', run = NULL, size = ?, ({OUTCOME}) = (?, ?, ?, ?, ?, ?)"
    " WHERE id = ? AND at = ? AND owner = ? AND state <> 'done'"
)
# The start of a call that only reads may not have been kept: nobody waited for it.
_FINISH_OR_ENTER: Final = (
    f"INSERT INTO calls ({ENTRY}, state, {OUTCOME}) VALUES ({_MARKS}, 'done', ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET state = 'done', run = NULL, size = excluded.size, "
    + ", ".join(f"{column} = excluded.{column}" for column in OUTCOME.split(", "))
    + " WHERE calls.at = excluded.at AND calls.owner = excluded.owner AND calls.state <> 'done'"
)
_FIND: Final = f"SELECT {RECORD} FROM calls WHERE id = ?"


class StoredLedger:
    """The ledger in the database. What is to be awaited is acknowledged when it is committed."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._leases = leases
        self._run = leases.own
        self._clock = clock
        self._at_work: dict[str, CallRecord] = {}
        """Started here, and neither pending nor finished: of these there is more to know than the database has."""
        self._entering: dict[str, asyncio.Future[None]] = {}
        """Calls of read-only tools that are on their way into the database; who asks for one waits for that."""
        self._gathered: dict[str, CallRecord] = {}
        """Suspended or finished in a unit that is not committed yet."""

    async def accept(self, record: CallRecord) -> None:
        """Know this call; no tool was touched. `ToolError` for a used id."""
        self._hand_over()
        written = self._database.write(self._enter(record, "accepted"))
        record.state = "accepted"  # whoever cancels from here on ends a call that is known
        await self._known(written, record, None)

    def start(self, record: CallRecord) -> NowOrLater[None]:
        """A tool is about to be touched. None for one that only reads: nobody needs to wait for the disk then.

        What may be answered when this process is gone is kept first, even if it only reads: else the answer would be
        for a call that nobody knows.
        """
        before, needs_no_disk = record.state, _needs_no_disk(record)
        if before is None and needs_no_disk:
            self._refuse_used(record.id)
        work = self._enter(record, "started") if before is None else partial(_start, record, self._run, entry(record))
        self._hand_over()
        written = self._database.write(work)
        record.state = "started"
        if not needs_no_disk:
            return self._known_at_work(written, record, before)
        self._at_work[record.id] = record
        self._entering[record.id] = written
        written.add_done_callback(partial(self._entered, record.id))
        return None

    async def suspend(self, record: CallRecord) -> None:
        """The outcome of a call comes later, until `record.expires_at`. One that nobody knows is known from now on."""
        if record.state is None:
            work = self._enter(record, "pending")
        else:
            work = partial(_suspend, record.expires_at, plain(record.id))
        unit = self._database.unit
        if unit is None:
            await self._database.write(work)
        else:
            self._gather(unit, work, structs.replace(record, state="pending"))
        record.state = "pending"
        self._at_work.pop(record.id, None)

    def finish(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:
        """Keep the one result; False when this call already has one. Inside a unit of work its end acknowledges it."""
        if record.state is not None:  # one that never got in may bear the id of one that is at work
            self._at_work.pop(record.id, None)
        unit = self._database.unit
        if (
            unit is not None and record.tool.answered_by != "connection"
        ):  # a client is told only what is kept (ws.md 5.3)
            return self._finish_with(unit, record, result)
        if self._has_gathered_result(record.id):
            return False
        self._hand_over()
        written = self._database.write(self._finish(record, result))
        written.add_done_callback(partial(_finished, record, result))
        return written

    async def find(self, call_id: str) -> CallRecord | None:
        """What is known of this call; its own record while it is at work here. Doors use `get`."""
        return self._at_work.get(call_id) or await self._kept(call_id)

    async def get(self, call_id: str, *, owner: str) -> CallRecord:
        """The owner's call; `ToolError` (`file_not_found`) when there is none."""
        record = await self._kept(call_id)
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
        status: CallStatus | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> tuple[Sequence[CallRecord], str | None]:
        """The owner's calls that are so (`CallFilter`), the last one first, and where the next page begins."""
        mark, limit = Mark.read(after), page_size(limit)
        sql, values = page_query(owner, CallFilter(session, tool, status, since, until), mark, limit + 1)
        rows = await self._database.read(lambda connection: connection.execute(sql, values).fetchall())
        records = [record_of(row) for row in rows[:limit]]
        return records, str(Mark(records[-1].at, records[-1].id)) if len(rows) > limit else None

    async def open_calls(self, *, owner: str, session: str | None = None) -> Sequence[CallRecord]:
        """The owner's calls that have no result yet, the first one first."""
        if self._entering:
            await asyncio.wait(self._entering.values())
        where, values = _owned(owner, session)
        sql = f"SELECT {RECORD} FROM calls WHERE state <> 'done' AND {where} ORDER BY at, id"
        rows = await self._database.read(lambda connection: connection.execute(sql, values).fetchall())
        return [record_of(row) for row in rows]

    async def left_open(self) -> Sequence[CallRecord]:
        """The calls that processes which are gone had handed to clients who may come back, the first one first.

        They are for this process from now on, so that no other waits for the same clients.
        """
        lost = await lost_leases(self._database, self._leases)
        return await self._database.write(partial(self._take_over, lost))

    async def note(self, call_id: str, text: str) -> bool:
        """Keep this beside a call that has its result; False when there is none, or it has enough notes."""
        return await self._database.write(partial(add_note, call_id, self._clock(), text))

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        """What came for the owner's call when it had its result already, the first one first."""
        return await self._database.read(partial(notes_of, call_id, owner))

    # Works.

    def _enter(self, record: CallRecord, state: CallState) -> partial[None]:
        return partial(_enter, record.id, (*entry(record), state, self._run, record.expires_at))

    def _finish(self, record: CallRecord, result: ToolResult) -> partial[bool]:
        if record.state is None:  # refused before anyone knew it; its id may be another call's, which goes on
            return partial(_enter_done, (*entry(record), *outcome(record, result)))
        whose = (plain(record.id), record.at, plain(record.owner))
        if _needs_no_disk(record):
            return partial(_finish, _FINISH_OR_ENTER, (*entry(record), *outcome(record, result)), whose)
        return partial(_finish, _FINISH, (record.size, *outcome(record, result), *whose), whose)

    def _take_over(self, lost: Set[str], connection: sqlite3.Connection) -> list[CallRecord]:
        rows = connection.execute(f"SELECT run, {RECORD} FROM calls WHERE state = 'pending' ORDER BY at, id").fetchall()
        pending = [(run, record_of(row)) for run, *row in rows]
        taken = [
            record
            for run, record in pending
            if record.tool.answered_by == "connection" and (run is None or run == self._run or run in lost)
        ]
        connection.executemany("UPDATE calls SET run = ? WHERE id = ?", [(self._run, record.id) for record in taken])
        return taken

    # Around them.

    async def _kept(self, call_id: str) -> CallRecord | None:
        gathered = self._gathered.get(call_id)
        if gathered is not None:
            return gathered
        if call_id in self._entering:
            await asyncio.wait([self._entering[call_id]])
        row = self._database.read_now(lambda connection: _one(connection, call_id))
        return None if row is None else record_of(row)

    def _refuse_used(self, call_id: str) -> None:
        # Nobody waits for the writer's own refusal: one look here and now, at a single row.
        if call_id in self._entering or self._database.read_now(lambda connection: _one(connection, call_id)):
            raise _used(call_id)

    async def _known_at_work(self, written: asyncio.Future[None], record: CallRecord, before: CallState | None) -> None:
        await self._known(written, record, before)
        self._at_work[record.id] = record

    async def _known(self, written: asyncio.Future[None], record: CallRecord, before: CallState | None) -> None:
        try:
            await written
        except StoreError:
            record.state = before
            raise
        except ToolError:
            record.state = None  # somebody else has this call: the refusal of this one must not end it
            raise

    def _entered(self, call_id: str, written: asyncio.Future[None]) -> None:
        self._entering.pop(call_id, None)
        if not written.cancelled() and (error := written.exception()):
            _log.error("The start of the call %s was not kept: %s", call_id, error)

    def _finish_with(self, unit: Unit, record: CallRecord, result: ToolResult) -> bool:
        if self._has_gathered_result(record.id):
            return False
        work = self._finish(record, result)
        record.state = "done"
        record.result = result
        self._gather(unit, partial(_must_be_first, work, record.id), structs.replace(record))
        return True

    def _hand_over(self) -> None:
        """What made somebody call the tool comes first."""
        if (unit := self._database.unit) is not None:
            unit.hand_over()

    def _has_gathered_result(self, call_id: str) -> bool:
        gathered = self._gathered.get(call_id)
        return gathered is not None and gathered.state == "done"

    def _gather(self, unit: Unit, work: Work, record: CallRecord) -> None:
        """Let this be written with the unit; until then the record is found here, as it will be."""
        self._gathered[record.id] = record

        def written() -> None:
            if self._gathered.get(record.id) is record:  # else there is something newer to know of it
                del self._gathered[record.id]

        unit.add(work, written)


def _needs_no_disk(record: CallRecord) -> bool:
    """Whether the tool may be touched before that is kept."""
    return record.tool.read_only and not record.tool.outlives


def _one(connection: sqlite3.Connection, call_id: str) -> Row | None:
    row: Row | None = connection.execute(_FIND, (plain(call_id),)).fetchone()
    return row


def _owned(owner: str, session: str | None) -> tuple[str, Row]:
    if session is None:
        return "owner = ?", (plain(owner),)
    return "owner = ? AND session = ?", (plain(owner), plain(session))


def _enter(call_id: str, values: Row, connection: sqlite3.Connection) -> None:
    if connection.execute(_ENTER, values).rowcount == 0:
        raise _used(call_id)


def enter_done(record: CallRecord, result: ToolResult, connection: sqlite3.Connection) -> None:
    """Know a call only now that it has its result."""
    _enter_done((*entry(record), *outcome(record, result)), connection)


def _enter_done(values: Row, connection: sqlite3.Connection) -> bool:
    return connection.execute(_ENTER_DONE, values).rowcount == 1


def _start(record: CallRecord, run: str, values: Row, connection: sqlite3.Connection) -> None:
    call_id, tool, arguments, form = values[0], *values[5:8]
    if connection.execute(_START, (tool, arguments, form, run, record.expires_at, call_id)).rowcount == 0:
        raise ToolError("busy", f"The call {record.id!r} was started elsewhere, or has its result: look there.")


def _suspend(expires_at: float | None, call_id: str, connection: sqlite3.Connection) -> None:
    connection.execute(_SUSPEND, (expires_at, call_id))


def _finish(statement: str, values: Row, whose: Row, connection: sqlite3.Connection) -> bool:
    if connection.execute(statement, values).rowcount == 1:
        return True
    # Not there: deleted with its session, or its id was another's. Its caller gets the result; nothing is kept of it.
    sql = "SELECT 1 FROM calls WHERE id = ? AND at = ? AND owner = ?"
    return connection.execute(sql, whose).fetchone() is None


def _must_be_first(work: partial[bool], call_id: str, connection: sqlite3.Connection) -> None:
    if not work(connection):
        raise ToolError("busy", f"The call {call_id!r} got its result elsewhere: load the session again.")


def _finished(record: CallRecord, result: ToolResult, written: asyncio.Future[bool]) -> None:
    """Before anyone who waits goes on."""
    if written.cancelled():
        return
    error = written.exception()
    if error is not None:
        _log.error("The result of the call %s was not kept: %s", record.id, error)
    elif written.result():
        record.state = "done"
        record.result = result


def _used(call_id: str) -> ToolError:
    return ToolError("invalid_arguments", f"The call id {call_id!r} was used before: every call needs its own.")
