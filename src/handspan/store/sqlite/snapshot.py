"""A copy of the database as it is at one moment. Other processes may write to the database meanwhile."""

import contextlib
import os
import sqlite3
from pathlib import Path

from handspan.core.errors import StoreError
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.writer import store_error


def copy_database(state: Path, to: Path) -> None:
    """Copy the database of this state folder to a new file. Raises `StoreError` when it can't be copied."""
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
