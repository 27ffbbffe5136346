"""The journal does not grow for ever: calls that ended long ago are removed, a few at a time (SPEC E8, S6).

What is open stays, however old it is, and so do the calls of a session whose turn is: the loop would run them again.
Usage stays too, it is sums of small rows.
"""

import sqlite3
from functools import partial
from typing import Final

from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Row

MOST_AT_ONCE: Final = 200
"""Calls that the writer removes between two works of others."""
_MOST_BYTES: Final = 4 * 1024 * 1024

_CAN_GO: Final = (
    "state = 'done' AND at + duration < ? AND NOT EXISTS (SELECT 1 FROM sessions"
    " WHERE sessions.id = calls.session AND (sessions.state <> 'idle' OR sessions.open_calls IS NOT NULL))"
)
_OLD: Final = f"SELECT id, size FROM calls WHERE owner = ? AND at < ? AND {_CAN_GO} ORDER BY at, id LIMIT ?"
_REMOVE: Final = f"DELETE FROM calls WHERE id = ? AND {_CAN_GO}"
_REMOVE_QUESTIONS: Final = "DELETE FROM questions WHERE call_id = ?1 AND NOT EXISTS (SELECT 1 FROM calls WHERE id = ?1)"
_REMOVE_WITHOUT_CALL: Final = "DELETE FROM questions WHERE call_id = '' AND expires_at < ?"


async def prune(database: Database, before: float) -> int:
    """Remove every call that ended before that time; how many there were. Others read and write in between."""
    await database.write(lambda connection: connection.execute(_REMOVE_WITHOUT_CALL, (before,)).rowcount)
    removed = 0
    while old := await database.read(partial(_some_old, before)):
        count = await database.write(partial(_remove, old, before))
        if count == 0:  # another process is at it
            break
        removed += count
    return removed


def _some_old(before: float, connection: sqlite3.Connection) -> list[str]:
    """The oldest calls that can go. Owner by owner, since that is how calls are found by their time."""
    found: list[str] = []
    owner = _next_owner(connection, "SELECT MIN(owner) FROM calls")
    while owner is not None and not found:
        rows = connection.execute(_OLD, (owner, before, before, MOST_AT_ONCE)).fetchall()
        found = _not_too_much(rows)
        owner = _next_owner(connection, "SELECT MIN(owner) FROM calls WHERE owner > ?", (owner,))
    return found


def _next_owner(connection: sqlite3.Connection, sql: str, values: Row = ()) -> str | None:
    owner: str | None = connection.execute(sql, values).fetchone()[0]
    return owner


def _not_too_much(rows: list[Row]) -> list[str]:
    """As many as are removed in a moment, but at least one."""
    found: list[str] = []
    left = _MOST_BYTES
    for call_id, size in rows:
        left -= size
        if found and left < 0:
            break
        found.append(call_id)
    return found


def _remove(ids: list[str], before: float, connection: sqlite3.Connection) -> int:
    removed = connection.executemany(_REMOVE, [(call_id, before) for call_id in ids]).rowcount
    connection.executemany(_REMOVE_QUESTIONS, [(call_id,) for call_id in ids])
    return removed
