"""Checks whether the rows of a database fit together: `handspan store check` runs this."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from handspan.core.records import BRIEF_SESSION
from handspan.store.tables.database import Database, TableConnection

COUNTED: Final = ("sessions", "messages", "calls", "questions", "agents", "tokens", "devices", "memories")
_FAULTS: Final = {
    "sessions with another length than their messages": (
        "SELECT COUNT(*) FROM sessions WHERE length <> (SELECT COUNT(*) FROM messages WHERE session = sessions.id)"
        " OR length <> COALESCE((SELECT MAX(seq) FROM messages WHERE session = sessions.id), 0)"
    ),
    "messages without a session": (
        "SELECT COUNT(*) FROM messages WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = messages.session)"
    ),
    "versions without a session": (
        "SELECT COUNT(*) FROM left_messages"
        " WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = left_messages.session)"
    ),
    "marks without a session": (
        "SELECT COUNT(*) FROM context_marks"
        " WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = context_marks.session)"
    ),
    "words without a session": (
        "SELECT COUNT(*) FROM searched WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = searched.session)"
    ),
    "usage without a session": (
        f"SELECT COUNT(*) FROM usage WHERE session NOT LIKE '{BRIEF_SESSION}%'"
        " AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = usage.session)"
    ),
    "ended calls without a result": "SELECT COUNT(*) FROM calls WHERE state = 'done' AND result IS NULL",
    "notes without a call": (
        "SELECT COUNT(*) FROM call_notes WHERE NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = call_notes.call_id)"
    ),
}


class StoreCheck(Struct, frozen=True):
    """What a store holds, and what does not fit together."""

    counts: Mapping[str, int]
    """How many rows each table has."""
    faults: Mapping[str, int]
    """How many rows each fault has; empty when all is well."""


async def check_database(database: Database) -> StoreCheck:
    """Return the check of a database that is not open yet. It is opened for this, and closed again."""
    await database.open()
    try:
        return await database.read(check_tables)
    finally:
        await database.close()


async def check_tables(connection: TableConnection) -> StoreCheck:
    """Return the check of all tables, as they are at one moment."""
    counts = {table: await connection.fetch_value(f"SELECT COUNT(*) FROM {table}") for table in COUNTED}
    faults = {name: await connection.fetch_value(sql) for name, sql in _FAULTS.items()}
    return StoreCheck(counts, {name: count for name, count in faults.items() if count})
