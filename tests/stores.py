"""The one place where tests make what lasts. `tests/store` runs with each of `BACKENDS`, other tests with the first."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from handspan.core.store import ArtifactStore, Store
from handspan.store.artifacts import ArtifactLimits, FolderArtifacts
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.store import SqliteStore

BACKENDS: Final = ("sqlite",)
CHOSEN: Final = "HANDSPAN_TEST_BACKEND"
"""The environment variable that names the backend, for the processes that tests start too."""


def open_store(
    folder: Path,
    artifacts: ArtifactStore | None = None,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
) -> Store:
    """A store that keeps all in this folder, or for it: `async with open_store(folder) as store:`."""
    backend = os.environ.get(CHOSEN, BACKENDS[0])
    assert backend in BACKENDS, backend
    return SqliteStore(folder, artifacts, clock, journal_days)


def open_artifacts(folder: Path, limits: ArtifactLimits | None = None) -> FolderArtifacts:
    """Artifacts in this folder."""
    return FolderArtifacts(folder, limits)


def database_of(store: Store | None) -> Database:
    """What is behind a store of SQLite, for tests that break it or look into it."""
    assert isinstance(store, SqliteStore)
    return store.database


def commits_of(store: Store | None) -> int:
    """How often the database has written what had gathered."""
    return database_of(store).commits


async def run_sql(store: Store | None, sql: str) -> list[tuple[object, ...]]:
    """What a statement does or finds in the tables of a store."""
    return await database_of(store).write(lambda connection: connection.execute(sql).fetchall())


def rows_in(folder: Path, sql: str) -> list[tuple[object, ...]]:
    """What another process finds in the tables of a store in this folder."""
    with contextlib.closing(sqlite3.connect(folder / "handspan.db")) as connection:
        return connection.execute(sql).fetchall()


def is_sound(folder: Path) -> bool:
    """Whether the database itself finds nothing wrong in its files."""
    return rows_in(folder, "PRAGMA integrity_check") == [("ok",)]
