"""The one thread that writes: what has gathered since its last commit goes into the next one (group commit).

A commit waits for the disk, and one waiting is enough for all who came meanwhile. What a work returns is handed to
its future after the commit: acknowledged means committed (SPEC A2).
"""

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.store.sqlite.faults import needs_new_connection, told

_log = logging.getLogger(__name__)

Work: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Statements that belong together. Raises an error of ours to refuse; then nothing of it stays."""

_MOST_IN_ONE_COMMIT: Final = 500


class WriteJob(Struct, frozen=True):
    """A work, and who waits for it."""

    work: Work
    future: asyncio.Future[Any]


class Outcome(Struct, frozen=True):
    """What a future will say."""

    future: asyncio.Future[Any]
    value: Any
    error: Exception | None


class Writer:
    """Runs works in their order, many in one transaction. A work that fails takes no other with it."""

    def __init__(self, file: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._file = file
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._jobs: queue.SimpleQueue[WriteJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="store-writer", daemon=True)
        self.commits = 0
        """How often the disk was waited for."""

    def open(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, job: WriteJob) -> None:
        """Let this be done soon, after everything that was put before it."""
        self._jobs.put(job)

    def close(self) -> None:
        """Write what is there, then end. Blocks until then."""
        self._jobs.put(None)
        self._thread.join()

    def _main(self) -> None:
        is_open = True
        while is_open:
            jobs, is_open = self._gathered()
            _acknowledge(self._run(jobs))
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # what was committed lasts without this too
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()

    def _gathered(self) -> tuple[list[WriteJob], bool]:
        """What there is, but at least one; and whether there may be more."""
        jobs: list[WriteJob] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == _MOST_IN_ONE_COMMIT:
                return jobs, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, True
        return jobs, False

    def _run(self, jobs: list[WriteJob]) -> list[Outcome]:
        """Do all in one transaction; when that can't be, each in its own."""
        if not jobs:
            return []
        try:
            if self._connection is None:
                self._connection = self._connect()
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [_attempt(connection, job) for job in jobs]
            connection.execute("COMMIT")
        except Exception as error:  # the disk's, a refusal half-way, a mistake in a work: others must not suffer
            self._roll_back(error)
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._run([job])]
            return [Outcome(jobs[0].future, None, self._in_our_words(error))]
        self.commits += 1
        return outcomes

    def _roll_back(self, error: Exception) -> None:
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as worse:
            error = worse
        if needs_new_connection(error):
            self._connection.close()
            self._connection = None

    def _in_our_words(self, error: Exception) -> Exception:
        if isinstance(error, HandspanError):
            return error
        if not isinstance(error, sqlite3.Error):
            _log.error("A work of the store failed", exc_info=error)
        return told(error, self._file)


def _attempt(connection: sqlite3.Connection, job: WriteJob) -> Outcome:
    """What the work says. A refusal before anything was written is an answer; any other failure is for the group."""
    changes = connection.total_changes
    try:
        return Outcome(job.future, job.work(connection), None)
    except HandspanError as refusal:
        if connection.total_changes != changes:
            raise
        return Outcome(job.future, None, refusal)


def _acknowledge(outcomes: list[Outcome]) -> None:
    """Tell everybody, with one word to each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.future.get_loop(), []).append(outcome)
    for loop, told_here in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(_tell, told_here)


def _tell(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.future.done():  # cancelled meanwhile; what was written stays written
            continue
        if outcome.error is None:
            outcome.future.set_result(outcome.value)
        else:
            outcome.future.set_exception(outcome.error)
