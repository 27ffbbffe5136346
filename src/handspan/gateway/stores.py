"""Which database the settings choose; its check, its copy, and the move to another one."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from msgspec import structs

from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.store import Store
from handspan.net.guard import NetGuard
from handspan.store.artifacts import FolderArtifacts
from handspan.store.sqlite.database import SqliteDatabase, copy_database
from handspan.store.sqlite.store import sqlite_store
from handspan.store.tables.store import StoreOptions

if TYPE_CHECKING:
    from handspan.store.postgres.move import MoveReport
    from handspan.store.tables.check import StoreCheck

_POSTGRES: Final = "handspan.store.postgres.store"
_MOVE: Final = "handspan.store.postgres.move"
"""Loaded only with the setting `store.url`."""


def make_store(settings: Settings, guard: NetGuard, *, is_alone: bool) -> Store:
    """Return the store that the settings choose. Raises `ConfigError` when its library is missing.

    `is_alone`: no other process with `is_alone` may use the same database server (SPEC K1).
    """
    if not settings.store.url:
        artifacts = FolderArtifacts(settings.state / "artifacts", settings.store.artifacts)
        store_settings = settings.store
        options = StoreOptions(
            journal_days=settings.journal_days,
            most_versions=store_settings.versions,
            undo_seconds=store_settings.undo_seconds,
        )
        return sqlite_store(settings.state, artifacts, options)
    store: Store = _load_postgres(_POSTGRES).store_of(settings, guard, is_gateway=is_alone)
    return store


async def check_store(settings: Settings) -> "StoreCheck":
    """Return what the store of these settings holds, and what does not fit together."""
    from handspan.store.tables.check import check_database  # noqa: PLC0415 - for one command alone

    if not settings.store.url:
        database = SqliteDatabase(settings.state)
        if not database.file.exists():
            missing = f"There is no database {str(database.file)!r}"
            raise ConfigError(f"{missing}: name the right folder with --state, or PostgreSQL with `store.url`.")
        return await check_database(database)
    opener = _load_postgres(_POSTGRES)
    return await check_database(opener.database_of(settings))


def copy_store(settings: Settings, to: Path) -> None:
    """Copy the database of the state folder, as it is at one moment, to a new file. A gateway may run meanwhile."""
    copy_database(settings.state, to)


async def move_store(settings: Settings, url: str, tell: Callable[[str], None]) -> "MoveReport":
    """Return what was moved from the state folder's database into the PostgreSQL database at this address."""
    opener, mover = _load_postgres(_POSTGRES), _load_postgres(_MOVE)
    address = opener.address_of(structs.replace(settings.store, url=url))
    objects = settings.store.objects
    bucket = opener.bucket_of(objects, NetGuard(settings.tools.url_policy))
    artifacts = mover.MovedArtifacts(settings.state / "artifacts", bucket, objects.above)
    report: MoveReport = await mover.move_to_postgres(settings.state, address, tell, artifacts)
    return report


def _load_postgres(module: str) -> ModuleType:
    """Return a module of PostgreSQL. Raises `ConfigError` when its library is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        text = f"store.url needs a library that is not installed ({error.name}): pip install 'handspan[postgres]'"
        raise ConfigError(text) from None
