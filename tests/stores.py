"""The one place where tests make what lasts. `tests/store` runs with each of `BACKENDS`, other tests with the first."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from handspan.config.store_settings import ArtifactSettings
from handspan.core.store import Store
from handspan.store.artifacts import FolderArtifacts
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.store import postgres_store
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.store import sqlite_store
from handspan.store.tables.store import StoreOptions, TableStore
from tests.postgres_engine import run_sql_at, schema_url

BACKENDS: Final = ("sqlite", "postgres")
CHOSEN: Final = "TESTS_BACKEND"
"""The environment variable that names the backend, for the processes that tests start too."""
LEASE_SECONDS: Final = 0.5
"""A start after a crash waits so long. A lease whose connection lives is never lost by its time."""


def open_store(
    folder: Path,
    limits: ArtifactSettings | None = None,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
    most_versions: int = 50,
    undo_seconds: float = 30.0,
) -> Store:
    """A store that keeps all in this folder, or for it: `async with open_store(folder) as store:`."""
    options = StoreOptions(clock, journal_days, most_versions=most_versions, undo_seconds=undo_seconds)
    if not is_postgres():
        return sqlite_store(folder, open_artifacts(folder / "artifacts", limits), options)
    address = StoreAddress(schema_url(folder), connections=6, timeout=30.0)
    return postgres_store(address, folder, options, lease_seconds=LEASE_SECONDS, limits=limits)


def is_postgres() -> bool:
    """Whether `open_store` opens a PostgreSQL here."""
    backend = os.environ.get(CHOSEN, BACKENDS[0])
    assert backend in BACKENDS, backend
    return backend == "postgres"


def open_artifacts(folder: Path, limits: ArtifactSettings | None = None) -> FolderArtifacts:
    """Artifacts in this folder."""
    return FolderArtifacts(folder, limits)


def database_of(store: Store | None) -> SqliteDatabase:
    """What is behind a store of SQLite, for tests that break it or look into it."""
    assert isinstance(store, TableStore) and isinstance(store.database, SqliteDatabase)
    return store.database


def commits_of(store: Store | None) -> int:
    """How often the database has written what had gathered."""
    return _any_database(store).commits


async def run_sql(store: Store | None, sql: str) -> list[tuple[object, ...]]:
    """What a statement does or finds in the tables of a store."""
    return list(await _any_database(store).write(lambda connection: connection.fetch_all(sql)))


def _any_database(store: Store | None) -> SqliteDatabase | PostgresDatabase:
    assert isinstance(store, TableStore) and isinstance(store.database, (SqliteDatabase, PostgresDatabase))
    return store.database


def rows_in(folder: Path, sql: str) -> list[tuple[object, ...]]:
    """What another process finds in the tables of a store in this folder."""
    if is_postgres():
        return run_sql_at(schema_url(folder), sql)
    with contextlib.closing(sqlite3.connect(folder / "handspan.db")) as connection:
        return connection.execute(sql).fetchall()


def is_sound(folder: Path) -> bool:
    """Whether the database itself finds nothing wrong in its files."""
    return is_postgres() or rows_in(folder, "PRAGMA integrity_check") == [("ok",)]


def has_connections(folder: Path) -> bool:
    """Whether the server still has connections of processes with a lease: it notices the end of a killed one late."""
    return is_postgres() and bool(
        rows_in(folder, "SELECT 1 FROM leases JOIN pg_stat_activity ON pid = backend LIMIT 1")
    )


def leases_in(folder: Path) -> int:
    """How many processes have a lease, or left one behind."""
    return len(rows_in(folder, "SELECT id FROM leases")) if is_postgres() else len(os.listdir(folder / "runs"))


def postgres_variables(folder: Path) -> dict[str, str]:
    """The environment in which gateways with their files below this folder, and `open_store`, use PostgreSQL."""
    return {CHOSEN: "postgres", "HANDSPAN_DATABASE_URL": schema_url(folder / "state"), "HANDSPAN_STORE__TIMEOUT": "30"}


def store_settings(folder: Path) -> dict[str, object]:
    """The setting `store` of a gateway with this state folder."""
    return {"url": schema_url(folder), "timeout": 30} if is_postgres() else {}


@contextlib.contextmanager
def refusing_writes(folder: Path, limit: int) -> Iterator[None]:
    """The server says that its disk is full, where a result is larger than this; with 1 to every write of a call."""
    rows_in(folder, _FULL.format(calls=f"{limit} = 1 OR octet_length(NEW.result) > {limit}", migrations="true"))
    for table in ("calls", "migrations"):
        if not rows_in(folder, f"SELECT 1 FROM pg_trigger WHERE tgname = 'no_room' AND tgrelid = '{table}'::regclass"):
            rows_in(folder, _TRIGGER.format(table=table))
    try:
        yield
    finally:
        # The triggers stay: to drop them would wait for readers, which wait for the loop that runs this.
        rows_in(folder, _FULL.format(calls="false", migrations="false"))


_TRIGGER: Final = (
    "CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION full_{table}()"
)
_FULL: Final = """DO $do$ BEGIN
CREATE OR REPLACE FUNCTION full_calls() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF {calls} THEN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
CREATE OR REPLACE FUNCTION full_migrations() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF {migrations} THEN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
END $do$"""
