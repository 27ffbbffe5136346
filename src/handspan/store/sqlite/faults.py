"""What the database says when it can't, in words that somebody can act on."""

import sqlite3
from pathlib import Path
from typing import Final

from handspan.core.errors import StoreError

_WORDS: Final = {
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


def told(error: Exception, file: Path) -> StoreError:
    """The error in our words."""
    words = _WORDS.get(_code(error), "{}").format(_name(error))
    return StoreError(f"The database {str(file)!r} can't be used: {words}.")


def needs_new_connection(error: Exception) -> bool:
    """Whether it is better to open the database again before the next try."""
    return isinstance(error, sqlite3.Error) and _code(error) not in _CONNECTION_IS_FINE


def _code(error: Exception) -> int:
    """The primary result code: the low byte of the extended one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _name(error: Exception) -> str:
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    return f"{error}; {name}"
