"""The whole store, on one SQLite database in the state folder."""

from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.store import ArtifactStore
from handspan.core.words import is_beginning
from handspan.store.artifacts import FolderArtifacts
from handspan.store.idempotency import FileIdempotency
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.leases import FileLeases
from handspan.store.switches import file_skill_switches, file_switches
from handspan.store.tables.search import SearchSql
from handspan.store.tables.store import BesideTables, StoreOptions, TableStore

SEARCH_SQL: Final = SearchSql(
    "id IN (SELECT rowid FROM said_words WHERE said_words MATCH ?)",
    "id IN (SELECT rowid FROM result_words WHERE result_words MATCH ?)",
    lambda words: " ".join(f'"{word}"{"*" * is_beginning(word)}' for word in words),
)
SqliteStore: TypeAlias = TableStore[SqliteDatabase]


def sqlite_store(
    folder: Path,
    artifacts: ArtifactStore | None = None,
    options: StoreOptions | None = None,
) -> SqliteStore:
    """Return a store in this folder. `artifacts`: None stores them in this folder, too."""
    database = SqliteDatabase(folder)
    beside = BesideTables(
        artifacts or FolderArtifacts(folder / "artifacts"),
        FileIdempotency(folder),
        file_switches(folder),
        file_skill_switches(folder),
    )
    leases = FileLeases(folder / "runs")
    return TableStore(
        database, leases, beside, options or StoreOptions(), search=SEARCH_SQL, find_now=database.find_now
    )
