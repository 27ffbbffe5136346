"""Notes beside finished calls: what came for them too late (ws.md 6.7 k). They are deleted with their calls."""

import sqlite3
from typing import Final

from handspan.core.calls import MOST_NOTES, Note, cut_note
from handspan.store.sqlite.rows import plain

_ADD: Final = (
    "INSERT INTO call_notes (call_id, at, text) SELECT id, ?, ? FROM calls WHERE id = ? AND state = 'done'"
    " AND (SELECT COUNT(*) FROM call_notes WHERE call_id = calls.id) < ?"
)
_OF_CALL: Final = (
    "SELECT note.at, note.text FROM call_notes AS note JOIN calls ON calls.id = note.call_id"
    " WHERE calls.id = ? AND calls.owner = ? ORDER BY note.rowid"
)


def add_note(call_id: str, at: float, text: str, connection: sqlite3.Connection) -> bool:
    """Keep this; False when there is no such finished call, or it has enough notes."""
    values = (at, plain(cut_note(text)), plain(call_id), MOST_NOTES)
    return connection.execute(_ADD, values).rowcount == 1


def notes_of(call_id: str, owner: str, connection: sqlite3.Connection) -> list[Note]:
    """The notes of the owner's call, the first one first."""
    return [Note(*row) for row in connection.execute(_OF_CALL, (plain(call_id), plain(owner)))]
