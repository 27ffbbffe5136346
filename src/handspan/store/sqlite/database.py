"""The SQLite database: one file in the state folder, one thread that writes it, and any number of readers."""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from handspan.config.private_files import make_private
from handspan.core.errors import HandspanError, StoreError
from handspan.store.sqlite.migrations import MIGRATIONS
from handspan.store.sqlite.rows import Row
from handspan.store.sqlite.writer import Work, WriteJob, Writer, store_error

_T = TypeVar("_T")

_BUSY_SECONDS: Final = 10.0
_BETWEEN_TRIES: Final = 0.01
_PROOF_SECONDS: Final = 5.0
"""How long a write shows that the next one works too."""
_PROBE_SECONDS: Final = 2.0
_LARGEST_WAL: Final = 64 * 1024 * 1024


class UnitOfWork:
    """Collects writes, commits them as one, and acknowledges them only then."""

    def __init__(self, database: "Database", within: float | None) -> None:
        """`within`: a collected write is submitted after so many seconds at the latest."""
        self.database = database
        self.is_open = True
        self._within = within
        self._works: list[Work] = []
        self._afterwards: list[Callable[[], object]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._written: list[asyncio.Future[None]] = []

    def add(self, work: Work, afterwards: Callable[[], object] | None = None) -> None:
        """Add a write. `afterwards` is called when it is committed or has failed."""
        self._works.append(work)
        if afterwards is not None:
            self._afterwards.append(afterwards)
        if self._within is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._within, self.submit)

    def submit(self) -> None:
        """Give the collected writes to the writer, and do not wait for the commit. Their order stays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        works, self._works = self._works, []
        afterwards, self._afterwards = self._afterwards, []
        if works:
            written = self.database.write(partial(_run_all, works))
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


def _run_all(works: Sequence[Work], connection: sqlite3.Connection) -> None:
    for work in works:
        work(connection)


_unit: ContextVar[UnitOfWork | None] = ContextVar("unit", default=None)


class Database:
    """One SQLite file: `open`, then `write` and `read`, then `close`."""

    def __init__(self, folder: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
        self._folder = folder
        self.file = folder.absolute() / "handspan.db"
        self._migrations = migrations
        self._writer: Writer | None = None
        self._readers: list[sqlite3.Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probing: asyncio.Future[int] | None = None

    @property
    def commits(self) -> int:
        """The number of committed transactions since it was opened."""
        return self._writer.commits if self._writer else 0

    async def open(self) -> None:
        """Create or open the file and run the missing migrations. Raises `StoreError` when that fails."""
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self.file, self._connect)
        self._writer.open()
        try:
            await self.write(lambda connection: None)  # this makes the connection, and raises what is wrong with it
        except StoreError:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish all writes, then close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            while self._readers:  # readers first: the last connection tidies up, and only the writer may
                self._readers.pop().close()
            await asyncio.to_thread(writer.close)
            while self._readers:  # returned by a thread meanwhile
                self._readers.pop().close()

    # Writing.

    def write(self, work: Callable[[sqlite3.Connection], _T]) -> asyncio.Future[_T]:
        """Begin a write, which happens even if the caller does not wait. The future has its value after the commit."""
        future: asyncio.Future[_T] = self._loop_here().create_future()
        if self._writer is None:
            future.set_exception(self._closed_error())
        else:
            self._writer.put(WriteJob(work, future))
        return future

    def execute(self, sql: str, values: Row = ()) -> asyncio.Future[int]:
        """Begin a write of one statement. The future has the number of changed rows."""
        return self.write(lambda connection: connection.execute(sql, values).rowcount)

    def execute_many(self, sql: str, rows: Sequence[Row]) -> asyncio.Future[int]:
        """Begin a write of one statement for each of these rows; all or none."""
        return self.write(lambda connection: connection.executemany(sql, rows).rowcount)

    async def check_writes(self) -> str:
        """Return why nothing can be written; empty when it can. A write of the last seconds is proof enough."""
        if self._writer is not None and time.monotonic() - self._writer.wrote_at < _PROOF_SECONDS:
            return ""
        if self._probing is None or self._probing.done():
            version = len(self._migrations)
            self._probing = self.execute(f"PRAGMA user_version = {version}")  # the same value: only the write matters
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await asyncio.shield(self._probing)
        except TimeoutError:
            return (
                f"The database {str(self.file)!r} does not take a write: another process may hold it. End that process."
            )
        except StoreError as error:
            return error.message
        return ""

    def _loop_here(self) -> asyncio.AbstractEventLoop:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:  # a task is closed after its loop: its write still happens
            if self._loop is None:
                raise
            return self._loop

    async def join(self, work: Work) -> None:
        """Add the write to the caller's unit of work, which acknowledges it. Without a unit, write and wait."""
        unit = self.unit
        if unit is None:
            await self.write(work)
        else:
            unit.add(work)

    @property
    def unit(self) -> UnitOfWork | None:
        """The unit of work around the caller."""
        unit = _unit.get()
        return unit if unit is not None and unit.is_open and unit.database is self else None

    @contextlib.asynccontextmanager
    async def unit_of_work(self, within: float | None = None) -> AsyncIterator[None]:
        """Commit everything that joins inside as one when the block ends. The end acknowledges all, or raises for all.

        The writes happen even when the block fails or is cancelled: what they record has happened. `within`: a write
        is submitted after so many seconds at the latest, for a block that may last long.
        """
        if self.unit is not None:  # an inner block is part of the outer one
            yield
            return
        unit = UnitOfWork(self, within)
        before = _unit.set(unit)
        try:
            yield
        finally:
            _unit.reset(before)
            unit.is_open = False
            await unit.flush()

    # Reading.

    async def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return what the work reads, on a thread and in one transaction: all rows are of one moment."""
        return await asyncio.to_thread(self._read, partial(_read_in_transaction, work))

    def read_now(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return what the work reads, without a thread: for one statement that finds few rows by their key."""
        return self._read(work)

    async def fetch_all(self, sql: str, values: Row = ()) -> list[Row]:
        """Return the rows of a query, on a thread."""
        return await self.read(lambda connection: connection.execute(sql, values).fetchall())

    def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        """Return one row by its key, without a thread."""
        row: Row | None = self._read(lambda connection: connection.execute(sql, values).fetchone())
        return row

    def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run the work on a free connection, or on a new one; a connection that failed is closed."""
        if self._writer is None:
            raise self._closed_error()
        try:
            connection = self._readers.pop() if self._readers else self._connect_reader()
        except sqlite3.Error as error:
            raise store_error(error, self.file) from error
        is_sound = False
        try:
            found = work(connection)
            is_sound = True
            return found
        except sqlite3.Error as error:
            raise store_error(error, self.file) from error
        except HandspanError:  # a refusal is an answer: the connection is fine
            is_sound = True
            raise
        finally:
            if is_sound and self._writer is not None:
                self._readers.append(connection)
            else:
                connection.close()

    # Connections.

    def _connect(self) -> sqlite3.Connection:
        """Return the connection that writes."""
        try:
            _make_files(self._folder, self.file)
        except OSError as error:
            raise StoreError(
                f"The database {str(self.file)!r} can't be made: {error.strerror}. Let this user write the folder, "
                "or set another `state` folder."
            ) from None
        connection = sqlite3.connect(self.file, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # SPEC S6: a deleted row leaves no bytes
            connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.file.as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # the thread that took it from the list is the only one that uses it
        )

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Run the missing steps in one transaction."""
        if self._version(connection) == len(self._migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        for number in range(self._version(connection), len(self._migrations)):  # another process may be first
            for statement in _statements(self._migrations[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return how many steps the database has. Raises `StoreError` if a newer version wrote it."""
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(self._migrations):
            raise StoreError(
                f"The database {str(self.file)!r} is of version {version}, and this Handspan knows versions up to "
                f"{len(self._migrations)}. Use the newer Handspan that wrote it, or set another `state` folder."
            )
        return version

    def _closed_error(self) -> StoreError:
        return StoreError(f"The database {str(self.file)!r} is closed: nothing can be kept or read any more.")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. Try again while another process does so: SQLite does not wait for that."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_BETWEEN_TRIES)


def _read_in_transaction(work: Callable[[sqlite3.Connection], _T], connection: sqlite3.Connection) -> _T:
    connection.execute("BEGIN")
    try:
        return work(connection)
    finally:
        connection.rollback()  # ends the transaction; there is nothing to undo


def _statements(script: str) -> list[str]:
    """Split a script into statements: `executescript` would end the transaction around it."""
    statements, begun = [], ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements


def _make_files(folder: Path, file: Path) -> None:
    """Create the folder with mode 700 and the file with 600 (SPEC S6). SQLite gives files beside it the same mode."""
    make_private(folder)
    # Only a missing file is opened here: closing an existing one would drop the locks of this process.
    if not file.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
