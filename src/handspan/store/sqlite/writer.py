"""The one thread that writes. All jobs that came since the last commit go into the next one (group commit).

A commit waits for the disk, and one wait serves all jobs. The future of a job gets its value after the commit:
acknowledged means committed (SPEC A2).
"""

import asyncio
import contextlib
import logging
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from handspan.core.errors import HandspanError, StoreError
from handspan.store.tables.database import Work, WriteJob, WriteOutcome, set_futures
from handspan.store.tables.rows import Row

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_MAX_IN_ONE_COMMIT: Final = 500
_EMPTY_SECONDS: Final = 1.0
"""From the first delete until the write-ahead log is emptied."""
_MERGED_PAGES: Final = 500
"""Pages of the index of words that are written anew in one go, so that other writes do not wait long."""
_LONGEST_PAUSE: Final = 60.0
"""The longest time between two tries to empty the log while readers use it."""
_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full. Make room; nothing that was acknowledged is lost",
    sqlite3.SQLITE_READONLY: "it is read-only. Let this user write the file and its folder",
    sqlite3.SQLITE_BUSY: "another process holds it. Try again, or end that process",
    sqlite3.SQLITE_LOCKED: "another process holds it. Try again, or end that process",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Put a backup in its place, or move it away to begin anew",
    sqlite3.SQLITE_NOTADB: "it is not a database. Put a backup in its place, or move it away to begin anew",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened. Let this user read and write the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk refuses ({}). Look after the disk; nothing that was acknowledged is lost",
}

_CONNECTION_IS_FINE: Final = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


class SqliteConnection:
    """Implements `TableConnection` for works. No method waits: a work runs to its end at once (`run_at_once`)."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self._execute = raw.execute
        self.has_deleted = False
        """Whether rows were deleted since this was last set to False."""

    async def execute(self, sql: str, values: Row = ()) -> int:
        count = self._execute(sql, values).rowcount
        if count and sql.startswith("DELETE"):
            self.has_deleted = True
        return count

    async def execute_many(self, sql: str, rows: Sequence[Row]) -> int:
        count = self.raw.executemany(sql, rows).rowcount
        if count and sql.startswith("DELETE"):
            self.has_deleted = True
        return count

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        row: Row | None = self.raw.execute(sql, values).fetchone()
        return row

    async def fetch_all(self, sql: str, values: Row = ()) -> list[Row]:
        return self.raw.execute(sql, values).fetchall()

    async def fetch_value(self, sql: str, values: Row = ()) -> Any:
        row = self.raw.execute(sql, values).fetchone()
        return None if row is None else row[0]


def run_at_once(work: Work[_T], connection: SqliteConnection) -> _T:
    """Return the value of a work that waits for nothing but this connection."""
    running = work(connection)
    try:
        running.send(None)
    except StopIteration as end:
        value: _T = end.value
        return value
    running.close()
    raise RuntimeError("a work of SQLite waited for something else than its connection")


class Writer:
    """Runs jobs in their order, many in one transaction. A job that fails does not harm the others."""

    def __init__(self, file: Path, connect: Callable[[], SqliteConnection]) -> None:
        self._file = file
        self._connect = connect
        self._connection: SqliteConnection | None = None
        self._jobs: queue.SimpleQueue[WriteJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="store-writer", daemon=True)
        self.commits = 0
        """The number of transactions, each of which waited for the disk."""
        self.wrote_at = -math.inf
        """When the last transaction was committed, by the monotonic clock; minus infinity after a failed one."""
        self._empties_at = math.inf
        """When the write-ahead log is emptied, since it has rows that were deleted; infinity: it has none."""
        self._pause = _EMPTY_SECONDS

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, job: WriteJob) -> None:
        """Add a job to the queue."""
        self._jobs.put(job)

    def close(self) -> None:
        """Write everything in the queue, then end the thread. Blocks until then."""
        self._jobs.put(None)
        self._thread.join()

    def _main(self) -> None:
        """Run jobs until the queue is closed; then empty the write-ahead log."""
        is_open = True
        while is_open:
            jobs, is_open = self._take_jobs()
            _acknowledge(self._run(jobs))
            if time.monotonic() >= self._empties_at:
                self._empty_log()
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # a committed transaction lasts without the checkpoint, too
                while _erase_words(self._connection.raw):
                    pass
                self._connection.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.raw.close()

    def _empty_log(self) -> None:
        """Empty the write-ahead log, which still has the text of deleted rows (SPEC S6). Try later if a reader uses it.

        One second gathers the deletes of many jobs, and no job waits for a reader. The index of words comes first, in
        parts: jobs that have come meanwhile run between them.
        """
        is_busy = True
        if self._connection is not None:
            raw = self._connection.raw
            with contextlib.suppress(sqlite3.Error):
                (usual,) = raw.execute("PRAGMA busy_timeout").fetchone()
                raw.execute("PRAGMA busy_timeout = 0")
                try:
                    if _erase_words(raw):
                        self._empties_at = time.monotonic()
                        return
                    is_busy = bool(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
                finally:
                    raw.execute(f"PRAGMA busy_timeout = {usual}")
        self._pause = min(2 * self._pause, _LONGEST_PAUSE) if is_busy else _EMPTY_SECONDS
        self._empties_at = time.monotonic() + self._pause if is_busy else math.inf

    def _take_jobs(self) -> tuple[list[WriteJob], bool]:
        """Wait for a job. Return it with all others in the queue, and whether the writer stays open.

        When the write-ahead log has to be emptied first, there is no job.
        """
        jobs: list[WriteJob] = []
        try:
            wait = None if self._empties_at == math.inf else max(0.0, self._empties_at - time.monotonic())
            job = self._jobs.get(timeout=wait)
        except queue.Empty:
            return jobs, True
        while job is not None:
            jobs.append(job)
            if len(jobs) == _MAX_IN_ONE_COMMIT:
                return jobs, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, True
        return jobs, False

    def _run(self, jobs: list[WriteJob]) -> list[WriteOutcome]:
        """Run all jobs in one transaction; if that fails, each in its own. Run no job if no transaction can begin."""
        if not jobs:
            return []
        try:
            connection = self._begin()
        except (sqlite3.Error, HandspanError) as error:  # each job alone would wait as long for a locked database
            self._roll_back(error)
            failure = self._convert(error)
            return [WriteOutcome(job.future, None, failure) for job in jobs]
        try:
            outcomes = [_run_job(connection, job) for job in jobs]
            connection.raw.execute("COMMIT")
        except Exception as error:  # the disk, a late refusal or a bug in a work: the other jobs must not fail with it
            self._roll_back(error)
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._run([job])]
            return [WriteOutcome(jobs[0].future, None, self._convert(error))]
        self.commits += 1
        self.wrote_at = time.monotonic()
        if connection.has_deleted:
            connection.has_deleted = False
            self._empties_at = min(self._empties_at, self.wrote_at + _EMPTY_SECONDS)
        return outcomes

    def _begin(self) -> SqliteConnection:
        """Begin a transaction. Make the connection if there is none."""
        if self._connection is None:
            self._connection = self._connect()
            if _has_erased_words(self._connection.raw):  # an earlier process was killed before it was done
                self._empties_at = time.monotonic() + _EMPTY_SECONDS
        self._connection.raw.execute("BEGIN IMMEDIATE")
        return self._connection

    def _roll_back(self, error: Exception) -> None:
        """Undo the transaction, and drop a connection that may be broken."""
        self.wrote_at = -math.inf
        if self._connection is None:
            return
        try:
            if self._connection.raw.in_transaction:
                self._connection.raw.execute("ROLLBACK")
        except sqlite3.Error as worse:
            error = worse
        if needs_new_connection(error):
            self._connection.raw.close()
            self._connection = None

    def _convert(self, error: Exception) -> Exception:
        """Return the error for the caller: a refusal as it is, any other error as `StoreError`."""
        if isinstance(error, HandspanError):
            return error
        if not isinstance(error, sqlite3.Error):
            _log.error("A work of the store failed", exc_info=error)
        return store_error(error, self._file)


def _has_erased_words(raw: sqlite3.Connection) -> bool:
    try:
        return raw.execute("SELECT 1 FROM erased_words").fetchone() is not None
    except sqlite3.OperationalError:  # a database of an older version, which tests open as it is
        return False


def _erase_words(raw: sqlite3.Connection) -> bool:
    """Write a part of the index of words anew, if it has words of deleted rows. Return whether more parts are left.

    FTS5 only notes that a word is deleted. The word goes when all parts of the index are merged into one.
    """
    if not _has_erased_words(raw):
        return False
    for table in ("said_words", "result_words"):
        changes = raw.total_changes
        raw.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (-_MERGED_PAGES,))
        if raw.total_changes - changes > 1:  # else nothing was left to merge
            return True
    raw.execute("DELETE FROM erased_words")
    return False


def _run_job(connection: SqliteConnection, job: WriteJob) -> WriteOutcome:
    """Run a job and return its outcome. A refusal before any change is an outcome; any other error is raised."""
    changes = connection.raw.total_changes
    try:
        return WriteOutcome(job.future, run_at_once(job.work, connection), None)
    except HandspanError as refusal:
        if connection.raw.total_changes != changes:
            raise
        return WriteOutcome(job.future, None, refusal)


def _acknowledge(outcomes: list[WriteOutcome]) -> None:
    """Set all futures, with one callback for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[WriteOutcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.future.get_loop(), []).append(outcome)
    for loop, outcomes_here in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: its futures have no waiter
            loop.call_soon_threadsafe(set_futures, outcomes_here)


def store_error(error: Exception, file: Path) -> StoreError:
    """Return the error of the database with advice for a person."""
    advice = _ADVICE.get(_code(error), "{}").format(_name(error))
    return StoreError(f"The database {str(file)!r} can't be used: {advice}.")


def needs_new_connection(error: Exception) -> bool:
    """Whether the database has to be opened again before the next try."""
    return isinstance(error, sqlite3.Error) and _code(error) not in _CONNECTION_IS_FINE


def _code(error: Exception) -> int:
    """Return the primary result code: the low byte of the extended one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _name(error: Exception) -> str:
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    return f"{error}; {name}"
