"""What the tables need of a database, and the unit of work, which is the same for every database.

A work is an async function of a `TableConnection`: statements that belong together. It raises a `HandspanError` to
refuse; then none of its changes stay. A statement has `?` for each value. A comment after the `?`, as in `?/*bytea*/`,
names the type where PostgreSQL could not know it. On SQLite a work never waits: it runs from its beginning to its end
on one thread.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.store.tables.rows import Row

_T = TypeVar("_T")


class TableConnection(Protocol):
    """One transaction of a database."""

    async def execute(self, sql: str, values: Row = ()) -> int:
        """Run a statement and return the number of rows that it changed."""

    async def execute_many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement for each of these rows. Return the number of rows that all of them changed."""

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        """Return the first row of a query, or None."""

    async def fetch_all(self, sql: str, values: Row = ()) -> Sequence[Row]:
        """Return all rows of a query."""

    async def fetch_value(self, sql: str, values: Row = ()) -> Any:
        """Return the first value of the first row; None if there is no row."""


Work: TypeAlias = Callable[[TableConnection], Coroutine[Any, Any, _T]]


class Database(Protocol):
    """A database: `open`, then `write` and `read`, then `close`."""

    async def open(self) -> None:
        """Create or open it, and run the missing migrations. Raises `StoreError` when it can't be used."""

    async def close(self) -> None:
        """Finish all writes, then close it."""

    async def check_writes(self) -> str:
        """Return why the database takes no writes, with a remedy; empty when it takes them."""

    def write(self, work: Work[_T]) -> "asyncio.Future[_T]":
        """Begin a write, which happens even if the caller does not wait. After the commit the future has its value."""

    def execute(self, sql: str, values: Row = ()) -> "asyncio.Future[int]":
        """Begin a write of one statement. The future has the number of changed rows."""

    async def read(self, work: Work[_T]) -> _T:
        """Return the value of a work that reads, in one transaction: all rows are of one moment."""

    async def read_few(self, work: Work[_T]) -> _T:
        """Return the value of a work that reads few rows by their keys: SQLite needs no thread for that."""

    async def fetch_all(self, sql: str, values: Row = ()) -> Sequence[Row]:
        """Return the rows of a query."""

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        """Return one row by its key, or None."""


class UnitOfWork:
    """Collects writes, commits them as one, and acknowledges them only then."""

    def __init__(self, database: Database, within: float | None) -> None:
        """`within`: a collected write is submitted after so many seconds at the latest."""
        self.database = database
        self.is_open = True
        self._within = within
        self._works: list[Work[Any]] = []
        """Writes that are collected and not submitted."""
        self._afterwards: list[Callable[[], object]] = []
        """Are called when the collected writes are committed, or have failed."""
        self._timer: asyncio.TimerHandle | None = None
        self._written: list[asyncio.Future[None]] = []
        """Submitted writes. `flush` waits for them."""

    def add(self, work: Work[Any], afterwards: Callable[[], object] | None = None) -> None:
        """Add a write. `afterwards` is called when it is committed or has failed."""
        self._works.append(work)
        if afterwards is not None:
            self._afterwards.append(afterwards)
        if self._within is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._within, self.submit)

    def submit(self) -> None:
        """Give the collected writes to the database in their order. Does not wait for the commit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        works, self._works = self._works, []
        afterwards, self._afterwards = self._afterwards, []
        if works:
            written = self.database.write(AllWorks(tuple(works)))
            written.add_done_callback(lambda _: [one() for one in afterwards])
            self._written.append(written)

    async def flush(self) -> None:
        """Wait until everything is committed. Raises the first failure. Cancelling the caller cancels no write."""
        self.submit()
        while waiting := [one for one in self._written if not one.done()]:
            await asyncio.wait(waiting)
        written, self._written = self._written, []
        failures = [error for one in written if (error := one.exception()) is not None]
        if failures:
            raise failures[0]


class AllWorks(Struct, frozen=True):
    """Several works as one: all or none."""

    works: tuple[Work[Any], ...]

    async def __call__(self, connection: TableConnection) -> None:
        for work in self.works:
            await work(connection)


class WaitingWork(Struct, frozen=True):
    """A work that changes rows which all processes change all the time, so that it waits for them, one by one.

    Each of its statements sees what is committed by then. In a transaction of one moment, as other works have it, each
    change by another process would begin the work anew, and at last fail it.
    """

    work: Work[Any]

    async def __call__(self, connection: TableConnection) -> Any:
        return await self.work(connection)


_unit: ContextVar[UnitOfWork | None] = ContextVar("unit", default=None)


def unit_around(database: Database) -> UnitOfWork | None:
    """Return the unit of work in which the caller runs, if it belongs to this database; else None."""
    unit = _unit.get()
    return unit if unit is not None and unit.is_open and unit.database is database else None


async def join_unit(database: Database, work: Work[Any]) -> None:
    """Add the write to the caller's unit of work, whose end acknowledges it. Without a unit, write and wait."""
    unit = unit_around(database)
    if unit is None:
        await database.write(work)
    else:
        unit.add(work)


@contextlib.asynccontextmanager
async def unit_of_work(database: Database, within: float | None = None) -> AsyncIterator[None]:
    """Commit all writes that join the unit inside the block as one when the block ends.

    The end acknowledges all of them, or raises. The writes happen even when the block fails or is cancelled: what they
    record has happened.
    """
    if unit_around(database) is not None:  # an inner block is part of the outer one
        yield
        return
    unit = UnitOfWork(database, within)
    before = _unit.set(unit)
    try:
        yield
    finally:
        _unit.reset(before)
        unit.is_open = False
        await unit.flush()


def future_here(other: asyncio.AbstractEventLoop | None) -> asyncio.Future[Any]:
    """Return a future of the running loop; without one, of the other loop.

    No loop runs when a task is closed after its loop has ended, and writes in its `finally`: that write still happens.
    """
    try:
        return asyncio.get_running_loop().create_future()
    except RuntimeError:
        if other is None:
            raise
        return other.create_future()


def check_version(version: int, known: int, database: str, setting: str) -> int:
    """Return the number of steps that the database has. Raises `StoreError` if a newer version wrote it."""
    if version > known:
        raise StoreError(
            f"The database {database} is of version {version}, and this Handspan knows versions up to "
            f"{known}. Use the newer Handspan that wrote it, or set another {setting}."
        )
    return version


def set_futures(outcomes: Iterable["WriteOutcome"]) -> None:
    """Give each future its value or its error. A cancelled future is left alone; its write is stored all the same."""
    for outcome in outcomes:
        if outcome.future.done():
            continue
        if outcome.error is None:
            outcome.future.set_result(outcome.value)
        else:
            outcome.future.set_exception(outcome.error)


class WriteJob(Struct, frozen=True):
    """A work and the future of its value."""

    work: Work[Any]
    future: asyncio.Future[Any]


class WriteOutcome(Struct, frozen=True):
    """What a job's future gets."""

    future: asyncio.Future[Any]
    value: Any
    error: Exception | None
