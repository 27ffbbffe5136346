"""Moving an embedded installation into PostgreSQL, in one transaction: all of it is there, or nothing.

Each table is read back inside that transaction, and counts and hashes of both sides have to be equal before the commit.
So a move that is interrupted anywhere leaves an empty database, and can be run again. A move after a complete one finds
equal counts and hashes, and changes nothing.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.store.postgres.connections import (
    Connector,
    StoreAddress,
    clean_row,
    close_quietly,
    is_database_error,
    store_error,
)
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.leases import RowLeases
from handspan.store.postgres.move_artifacts import MovedArtifacts
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.leases import FileLeases
from handspan.store.tables.rows import Row

_TABLES: Final = (
    *("sessions", "messages", "left_messages", "context_marks", "searched", "usage", "calls", "call_notes"),
    *("questions", "rules", "agents", "model_windows"),
    *("tokens", "devices", "browser_tools", "responses", "memories", "pins", "journal_time"),
    *("spending", "budget_additions", "budget_notes", "largest_replies"),
    *("channel_senders", "channel_chats", "channel_inbox", "channel_positions"),
    *("push_subscriptions", "push_secret"),
    *("schedules", "schedule_runs"),
)
_LARGE: Final = {
    *("messages", "left_messages", "searched", "calls", "call_notes", "questions", "sessions", "memories"),
}
"""Tables that are read in parts."""
_FILES: Final = {"disabled": "disabled.json", "skills": "skills.json", "idempotency": "idempotency.key"}
_ROWS_AT_ONCE: Final = 2000
_COPY_SECONDS: Final = 24 * 3600.0
_COLUMNS: Final = (
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name = $1 AND is_generated = 'NEVER' AND column_name <> 'rowid' ORDER BY ordinal_position"
)


class TableSum(Struct, frozen=True):
    """How many rows a table has, and a hash of all of them that does not depend on their order."""

    count: int
    hash: str


class MoveReport(Struct, frozen=True):
    """What was moved, by table."""

    tables: Mapping[str, TableSum]
    was_done: bool
    """Whether the database had everything already, from an earlier move."""


class _Source(Struct, frozen=True):
    """An embedded installation: the database, the state folder and the artifacts to move."""

    database: SqliteDatabase
    state: Path
    artifacts: MovedArtifacts


class _Summing:
    """Counts rows and sums up their hashes."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, row: Iterable[Any]) -> None:
        self.count += 1
        digest = hashlib.sha256(msgspec.msgpack.encode(list(row))).digest()
        self._sum = (self._sum + int.from_bytes(digest)) % 2**256

    @property
    def total(self) -> TableSum:
        return TableSum(self.count, f"{self._sum:064x}")


async def move_to_postgres(
    state: Path, address: StoreAddress, tell: Callable[[str], None], artifacts: MovedArtifacts | None = None
) -> MoveReport:
    """Copy everything of the state folder into the database. When it raises `StoreError`, the database is unchanged."""
    artifacts = artifacts or MovedArtifacts(state / "artifacts")
    source = SqliteDatabase(state)
    if not source.file.exists():
        raise StoreError(f"There is no database {str(source.file)!r} to move: name the right folder with --state.")
    holder = FileLeases(state / "runs")
    await source.open()
    try:
        await holder.take()
        await _check_unused(state / "runs", holder)
        return await _move_into(_Source(source, state, artifacts), address, tell)
    finally:
        await source.close()
        await holder.release()


async def _check_unused(runs: Path, own: FileLeases) -> None:
    """Raise `StoreError` when another process uses the state folder."""
    for lease in os.listdir(runs):
        if lease != own.own and not lease.startswith(".") and await own.is_alive(lease):
            raise StoreError("A gateway or program uses the state folder: stop it first, then move.")


async def _move_into(source: _Source, address: StoreAddress, tell: Callable[[str], None]) -> MoveReport:
    """Move what the source has into the database at this address, and return what was moved."""
    target = PostgresDatabase(address)
    await target.open()
    leases = RowLeases(target, is_gateway=True)
    try:
        await leases.take()
        return await _move_rows(source, address, tell)
    finally:
        await leases.release()
        await target.close()
        if source.artifacts.bucket is not None:
            await source.artifacts.bucket.close()


async def _move_rows(source: _Source, address: StoreAddress, tell: Callable[[str], None]) -> MoveReport:
    """Copy all tables into an empty database. If it has rows, as after an earlier move, only compare the tables."""
    raw: Any = await Connector(address).connect("move")  # COPY and cursors, which `TableConnection` does not have
    try:
        async with raw.transaction():
            await raw.execute("SET LOCAL statement_timeout = 0")
            await raw.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            is_empty = not [table for table in (*_TABLES, "artifacts") if await _has_rows(raw, table)]
            sums: dict[str, TableSum] = {}
            for table in (*_TABLES, "artifacts"):
                if table == "artifacts":
                    given = await _move_artifacts(source.artifacts, raw, is_empty=is_empty)
                else:
                    given = await _move_table(source.database, raw, table, is_empty=is_empty)
                sums[table] = given
                tell(f"{table}: {given.count} row{'' if given.count == 1 else 's'}, sha256 {given.hash[:16]}")
            if is_empty:
                await _copy_files(raw, source.state)
        return MoveReport(sums, was_done=not is_empty)
    except Exception as error:
        if is_database_error(error):
            raise store_error(error, address) from error
        raise
    finally:
        await close_quietly(raw)


async def _has_rows(raw: Any, table: str) -> bool:
    return bool(await raw.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})"))


async def _move_table(source: SqliteDatabase, raw: Any, table: str, *, is_empty: bool) -> TableSum:
    """Copy a table if the target is empty. Return its sum. Raises `StoreError` when the sums of both sides differ."""
    columns: dict[str, str] = dict(await raw.fetch(_COLUMNS, table))
    summing = _Summing()
    rows = _read_source(source, table, columns, summing)
    if is_empty:
        # One COPY for all rows: the server writes while we read. Triggers are off: they would change the rows.
        await raw.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await raw.copy_records_to_table(table, records=rows, columns=list(columns), timeout=_COPY_SECONDS)
        await raw.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    else:
        async for _ in rows:
            pass
    found = await _sum_target(raw, table, list(columns))
    return _check_equal(table, summing.total, found, is_empty=is_empty)


async def _move_artifacts(artifacts: MovedArtifacts, raw: Any, *, is_empty: bool) -> TableSum:
    """Copy the artifacts into an empty database, then compare both. Return the sum of what is there."""
    if is_empty:
        await artifacts.copy(raw)
    given, found = _Summing(), _Summing()
    async for row in artifacts.source_rows():
        given.add(row)
    async for row in artifacts.target_rows(raw):
        found.add(row)
    return _check_equal("artifacts", given.total, found.total, is_empty=is_empty)


def _check_equal(table: str, given: TableSum, found: TableSum, *, is_empty: bool) -> TableSum:
    """Return the sum if it is the same on both sides. Raises `StoreError` when the sums differ."""
    if given == found:
        return given
    text = f"The table {table!r} has {found.count} rows there and {given.count} here, or other content"
    if is_empty:
        raise StoreError(f"{text}: nothing was moved. Run it again; if it fails again, look at both databases.")
    raise StoreError(f"{text}: the database is in use already. Move into an empty database or schema.")


async def _read_source(
    source: SqliteDatabase, table: str, columns: dict[str, str], summing: _Summing
) -> AsyncIterator[Row]:
    """Yield all rows as PostgreSQL has them, read in parts, and sum them up."""
    names, kinds = ", ".join(columns), list(columns.values())
    async for rows in _read_parts(source, table, names):
        for row in _convert(rows, kinds):
            summing.add(row)
            yield row


async def _read_parts(source: SqliteDatabase, table: str, names: str) -> AsyncIterator[Sequence[Row]]:
    """Yield the rows in parts. Tables without `rowid` are small: they are read as a whole."""
    if table not in _LARGE:
        yield await source.fetch_all(f"SELECT {names} FROM {table}")
        return
    sql, after = f"SELECT {names}, rowid FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?", -1
    while rows := await source.fetch_all(sql, (after, _ROWS_AT_ONCE)):
        after = rows[-1][-1]
        yield rows


def _convert(rows: Iterable[Row], kinds: list[str]) -> Iterator[Row]:
    """Yield the rows as PostgreSQL has them. SQLite has 0 and 1 for booleans, and whole numbers for some times.

    Values after the columns of `kinds` are left out.
    """
    converters = {"boolean": bool, "double precision": float}
    changes = [(at, converters[kind]) for at, kind in enumerate(kinds) if kind in converters]
    for row in rows:
        values = list(row[: len(kinds)])
        for at, convert in changes:
            if values[at] is not None:
                values[at] = convert(values[at])
        yield clean_row(tuple(values))


async def _sum_target(raw: Any, table: str, columns: list[str]) -> TableSum:
    summing = _Summing()
    cursor = await raw.cursor(f"SELECT {', '.join(columns)} FROM {table}")
    while rows := await cursor.fetch(_ROWS_AT_ONCE):
        for row in rows:
            summing.add(row)
    return summing.total


async def _copy_files(raw: Any, state: Path) -> None:
    """Copy the small files of SQLite's store into rows."""
    for name, file in _FILES.items():
        if (state / file).exists():
            sql = "INSERT INTO documents VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body"
            await raw.execute(sql, name, (state / file).read_bytes())
