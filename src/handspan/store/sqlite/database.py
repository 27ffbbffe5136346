"""The SQLite database: one file in the state folder, one thread that writes it, and any number of readers."""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from handspan.config.private_files import make_private
from handspan.core.errors import HandspanError, StoreError
from handspan.store.sqlite.migrations import MIGRATIONS
from handspan.store.sqlite.writer import SqliteConnection, Writer, run_at_once, store_error
from handspan.store.tables.database import AllWorks, Work, WriteJob, check_version, future_here
from handspan.store.tables.rows import Row

_T = TypeVar("_T")

_BUSY_SECONDS: Final = 10.0
_BETWEEN_TRIES: Final = 0.01
_PROOF_SECONDS: Final = 5.0
"""How long a successful write counts as proof that the next one works."""
_PROBE_SECONDS: Final = 2.0
_LARGEST_WAL: Final = 64 * 1024 * 1024
_READER_CACHE_KIB: Final = 200
"""The page cache of a connection for reading. SQLite drops the pages after each write of another connection: so a large
cache helps only within one read. With this size, a sum of all usage by agent takes a fifth longer than with SQLite's
default of 2 MB. With the default, each long conversation that is loaded takes up to 2 MB more."""


class SqliteDatabase:
    """One SQLite file. Implements `Database`."""

    def __init__(self, folder: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
        self._folder = folder
        self.file = folder.absolute() / "handspan.db"
        self._migrations = migrations
        self._writer: Writer | None = None
        self._readers: list[SqliteConnection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probing: asyncio.Future[int] | None = None
        """The write that shows whether the database can be written to."""

    @property
    def commits(self) -> int:
        """The number of committed transactions since the database was opened."""
        return self._writer.commits if self._writer else 0

    async def open(self) -> None:
        """Start the thread that writes. Raises `StoreError` when the database can't be used."""
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self.file, self._connect)
        self._writer.open()
        try:
            await self.write(AllWorks(()))  # this makes the connection, and raises what is wrong with it
        except StoreError:
            await self.close()
            raise

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            while self._readers:  # readers first: the last connection empties the log, and readers must not write
                self._readers.pop().raw.close()
            await asyncio.to_thread(writer.close)
            while self._readers:  # a thread may have returned a connection meanwhile
                self._readers.pop().raw.close()

    # Writing.

    def write(self, work: Work[_T]) -> asyncio.Future[_T]:
        future: asyncio.Future[_T] = future_here(self._loop)
        if self._writer is None:
            future.set_exception(self._closed_error())
        else:
            self._writer.put(WriteJob(work, future))
        return future

    def execute(self, sql: str, values: Row = ()) -> asyncio.Future[int]:
        return self.write(lambda connection: connection.execute(sql, values))

    async def check_writes(self) -> str:
        """Return why the database takes no writes; empty when it takes them. A write of the last seconds is proof."""
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

    # Reading.

    async def read(self, work: Work[_T]) -> _T:
        """Return the value of a work that reads, on a thread and in one transaction: all rows are of one moment."""
        return await asyncio.to_thread(self._read, partial(_read_in_transaction, work))

    async def read_few(self, work: Work[_T]) -> _T:
        """Return the value of a work that reads few rows by their keys, without a thread."""
        return self._read(partial(run_at_once, work))

    async def fetch_all(self, sql: str, values: Row = ()) -> list[Row]:
        """Return the rows of a query, on a thread."""
        return await asyncio.to_thread(self._read, lambda connection: connection.raw.execute(sql, values).fetchall())

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        """Return one row by its key, without a thread."""
        return self.find_now(sql, values)

    def find_now(self, sql: str, values: Row = ()) -> Row | None:
        """Return one row by its key, at once."""
        row: Row | None = self._read(lambda connection: connection.raw.execute(sql, values).fetchone())
        return row

    def _read(self, work: Callable[[SqliteConnection], _T]) -> _T:
        """Run the work on a free connection, or on a new one. Close a connection that failed."""
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
        except HandspanError:  # the work has refused: the connection is fine
            is_sound = True
            raise
        finally:
            if is_sound and self._writer is not None:
                self._readers.append(connection)
            else:
                connection.raw.close()

    # Connections.

    def _connect(self) -> SqliteConnection:
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
        return SqliteConnection(connection)

    def _connect_reader(self) -> SqliteConnection:
        """Return a new connection that reads."""
        connection = sqlite3.connect(
            f"{self.file.as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # only one thread at a time has it: it is not in the list of readers meanwhile
        )
        try:
            connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
        except BaseException:
            connection.close()
            raise
        return SqliteConnection(connection)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Run the missing steps in one transaction."""
        if self._version(connection) == len(self._migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        for number in range(self._version(connection), len(self._migrations)):  # another process may have run them
            for statement in _statements(self._migrations[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return how many steps the database has. Raises `StoreError` if a newer version wrote it."""
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return check_version(version, len(self._migrations), repr(str(self.file)), "`state` folder")

    def _closed_error(self) -> StoreError:
        return StoreError(f"The database {str(self.file)!r} is closed: nothing can be kept or read any more.")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. Try again while another process switches: SQLite itself does not wait then."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_BETWEEN_TRIES)


def _read_in_transaction(work: Work[_T], connection: SqliteConnection) -> _T:
    connection.raw.execute("BEGIN")
    try:
        return run_at_once(work, connection)
    finally:
        connection.raw.rollback()  # ends the transaction; there is nothing to undo


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
    """Create the folder with mode 700 and the database file with 600 (SPEC S6). SQLite's other files get 600, too."""
    make_private(folder)
    # Only a missing file is opened here: closing an existing one would drop the locks of this process.
    if not file.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)


def copy_database(state: Path, to: Path) -> None:
    """Copy the database of this state folder, as it is at one moment, to a new file. Raises `StoreError`."""
    database = SqliteDatabase(state)
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{database.file.as_uri()}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(to)) as target,
        ):
            source.backup(target)
            [(found,)] = target.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        raise store_error(error, database.file) from error
    if found != "ok":
        raise StoreError(f"The copy of {str(database.file)!r} is damaged: {found}. Look at the disk, and try again.")
