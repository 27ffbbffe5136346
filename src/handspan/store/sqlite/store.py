"""The whole store, on one SQLite database in the state folder."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from handspan.core.store import ArtifactStore
from handspan.store.artifacts import FolderArtifacts
from handspan.store.idempotency import FileIdempotency
from handspan.store.journal_clock import elapsed_seconds
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.leases import FileLeases
from handspan.store.switches import file_skill_switches, file_switches
from handspan.store.tables.store import BesideTables, TableStore

SqliteStore: TypeAlias = TableStore[SqliteDatabase]


def sqlite_store(
    folder: Path,
    artifacts: ArtifactStore | None = None,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
    elapsed: Callable[[], float] = elapsed_seconds,
) -> SqliteStore:
    """Return a store in this folder. `artifacts`: None stores them in this folder, too.

    For the other parameters see `TableStore`.
    """
    database = SqliteDatabase(folder)
    beside = BesideTables(
        artifacts or FolderArtifacts(folder / "artifacts"),
        FileIdempotency(folder),
        file_switches(folder),
        file_skill_switches(folder),
    )
    leases = FileLeases(folder / "runs")
    return TableStore(database, leases, beside, clock, journal_days, elapsed, database.find_now)
