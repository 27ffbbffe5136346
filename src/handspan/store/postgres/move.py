"""Moving an embedded installation into PostgreSQL, in one transaction: all of it is there, or nothing.

Each table is read back inside that transaction, and counts and hashes of both sides have to be equal before the commit.
So a move that is interrupted anywhere leaves an empty database, and can be run again. A move that was done is found to
be done: the same counts and hashes are there.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
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
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.leases import FileLeases
from handspan.store.tables.rows import Row

# Messages before their sessions: a trigger would change a session that is there already.
_TABLES: Final = (
    *("messages", "sessions", "usage", "calls", "call_notes", "questions", "rules", "agents", "tokens", "devices"),
    *("browser_tools", "memories", "pins", "journal_time"),
    *("channel_senders", "channel_chats", "channel_inbox", "channel_positions"),
)
_FILES: Final = {"disabled": "disabled.json", "skills": "skills.json", "idempotency": "idempotency.key"}
_ROWS_AT_ONCE: Final = 2000
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
    """The database had all of it already."""


class _Summing:
    """Sums up rows as they pass."""

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


async def move_to_postgres(state: Path, address: StoreAddress, tell: Callable[[str], None]) -> MoveReport:
    """Copy everything of the state folder's database. Raises `StoreError`; then the target is as it was before."""
    source = SqliteDatabase(state)
    if not source.file.exists():
        raise StoreError(f"There is no database {str(source.file)!r} to move: name the right folder with --state.")
    holder = FileLeases(state / "runs")
    await source.open()
    try:
        await holder.take()
        await _check_unused(state / "runs", holder)
        return await _move_into(source, state, address, tell)
    finally:
        await source.close()
        await holder.release()


async def _check_unused(runs: Path, own: FileLeases) -> None:
    for lease in os.listdir(runs):
        if lease != own.own and not lease.startswith(".") and await own.is_alive(lease):
            raise StoreError("A gateway or program uses the state folder: stop it first, then move.")


async def _move_into(
    source: SqliteDatabase, state: Path, address: StoreAddress, tell: Callable[[str], None]
) -> MoveReport:
    target = PostgresDatabase(address)
    await target.open()
    leases = RowLeases(target, is_gateway=True)
    try:
        await leases.take()
        return await _copy_all(source, state, address, tell)
    finally:
        await leases.release()
        await target.close()


async def _copy_all(
    source: SqliteDatabase, state: Path, address: StoreAddress, tell: Callable[[str], None]
) -> MoveReport:
    raw: Any = await Connector(address).connect("move")  # asyncpg has no types; here it copies and has cursors
    try:
        async with raw.transaction():
            await raw.execute("SET LOCAL statement_timeout = 0")
            await raw.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            wanted = [table for table in _TABLES if not await raw.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})")]
            is_empty = len(wanted) == len(_TABLES)
            sums: dict[str, TableSum] = {}
            for table in _TABLES:
                given = await _pass_rows(source, raw, table, is_copied=is_empty)
                found = await _sum_target(raw, table)
                if given != found:
                    raise _differs(table, given, found, is_empty)
                sums[table] = given
                tell(f"{table}: {given.count} rows, sha256 {given.hash[:16]}")
            if is_empty:
                await _copy_files(raw, state)
        return MoveReport(sums, was_done=not is_empty)
    except Exception as error:
        if is_database_error(error):
            raise store_error(error, address) from error
        raise
    finally:
        await close_quietly(raw)


def _differs(table: str, given: TableSum, found: TableSum, is_empty: bool) -> StoreError:
    text = f"The table {table!r} has {found.count} rows there and {given.count} here, or other content"
    if is_empty:
        return StoreError(f"{text}: nothing was moved. Run it again; if it fails again, look at both databases.")
    return StoreError(f"{text}: the database is in use already. Move into an empty database or schema.")


async def _pass_rows(source: SqliteDatabase, raw: Any, table: str, *, is_copied: bool) -> TableSum:
    """Return the sum of the source's rows. With `is_copied`, copy them as well."""
    columns: dict[str, str] = dict(await raw.fetch(_COLUMNS, table))
    summing = _Summing()
    async for rows in _read_source(source, table, list(columns)):
        fitting = list(_convert(rows, list(columns.values())))
        for row in fitting:
            summing.add(row)
        if is_copied:
            await raw.copy_records_to_table(table, records=fitting, columns=list(columns), timeout=3600)
    return summing.total


async def _read_source(source: SqliteDatabase, table: str, columns: list[str]) -> AsyncIterator[list[Row]]:
    """Return all rows in parts. Tables without a number of their own rows are small: they are read as a whole."""
    names = ", ".join(columns)
    if table not in ("messages", "calls", "call_notes", "questions", "sessions", "memories"):
        yield await source.fetch_all(f"SELECT {names} FROM {table}")
        return
    after = -1
    while rows := await source.fetch_all(
        f"SELECT rowid, {names} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?", (after, _ROWS_AT_ONCE)
    ):
        after = rows[-1][0]
        yield [row[1:] for row in rows]


def _convert(rows: Iterable[Row], kinds: list[str]) -> Iterator[Row]:
    """Return the rows as PostgreSQL has them: SQLite has no booleans, and whole numbers where a time is exact."""
    converters: list[Callable[[Any], Any] | None] = [{"boolean": bool, "double precision": float}.get(k) for k in kinds]
    for row in rows:
        yield clean_row(
            tuple(
                value if value is None or convert is None else convert(value)
                for value, convert in zip(row, converters, strict=True)
            )
        )


async def _sum_target(raw: Any, table: str) -> TableSum:
    columns = [name for name, _ in await raw.fetch(_COLUMNS, table)]
    summing = _Summing()
    async for row in raw.cursor(f"SELECT {', '.join(columns)} FROM {table}", prefetch=_ROWS_AT_ONCE):
        summing.add(row)
    return summing.total


async def _copy_files(raw: Any, state: Path) -> None:
    """Copy what SQLite's store has as small files."""
    for name, file in _FILES.items():
        if (state / file).exists():
            sql = "INSERT INTO documents VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body"
            await raw.execute(sql, name, (state / file).read_bytes())
