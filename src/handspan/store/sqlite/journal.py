"""Which calls of the journal are wanted, as SQL that an index serves; and the notes beside them (SPEC E8)."""

import sqlite3
from typing import Final

from msgspec import Struct

from handspan.core.calls import MOST_NOTES, Note, cut_note
from handspan.core.records import CallStatus
from handspan.core.values import plain
from handspan.store.sqlite.rows import RECORD, Mark, Row

# As `calls_open` and `calls_failed` have it: SQLite uses such an index for these very words only.
_OPEN: Final = "state <> 'done'"
_FAILED: Final = "status NOT IN ('open', 'success')"


_ADD_NOTE: Final = (
    "INSERT INTO call_notes (call_id, at, text) SELECT id, ?, ? FROM calls WHERE id = ? AND state = 'done'"
    " AND (SELECT COUNT(*) FROM call_notes WHERE call_id = calls.id) < ?"
)
_NOTES: Final = (
    "SELECT note.at, note.text FROM call_notes AS note JOIN calls ON calls.id = note.call_id"
    " WHERE calls.id = ? AND calls.owner = ? ORDER BY note.rowid"
)


class CallFilter(Struct, frozen=True):
    """What the calls have in common; None: that may be anything."""

    session: str | None = None
    tool: str | None = None
    status: CallStatus | None = None
    since: float | None = None
    """Seconds since 1970: those that began then or later."""
    until: float | None = None
    """Those that began earlier."""


def page_query(owner: str, wanted: CallFilter, before: Mark, limit: int) -> tuple[str, Row]:
    """The statement and its values for the calls of this owner before that place, the last one first."""
    terms: list[tuple[str, Row]] = [("owner = ?", (plain(owner),)), *_terms(wanted)]
    where = " AND ".join(sql for sql, _ in terms)
    values = [value for _, given in terms for value in given]
    sql = f"SELECT {RECORD} FROM calls WHERE {where} AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?"
    return sql, (*values, before.at, before.id, limit)


def _terms(wanted: CallFilter) -> list[tuple[str, Row]]:
    terms: list[tuple[str, Row]] = []
    if wanted.session is not None:
        terms.append(("session = ?", (plain(wanted.session),)))
    if wanted.tool is not None:
        # With `+` no index is used for it: a session has fewer calls than a tool.
        name = "name" if wanted.session is None else "+name"
        terms.append((f"{name} = ?", (plain(wanted.tool),)))
    if wanted.status is not None:
        terms.append(_of_status(wanted.status))
    if wanted.since is not None:
        terms.append(("at >= ?", (wanted.since,)))
    if wanted.until is not None:
        terms.append(("at < ?", (wanted.until,)))
    return terms


def _of_status(status: CallStatus) -> tuple[str, Row]:
    match status:
        case "open":
            return _OPEN, ()
        case "error":
            return _FAILED, ()
        case "success":
            return "status = 'success'", ()
        case code:
            return f"{_FAILED} AND status = ?", (code,)


def add_note(call_id: str, at: float, text: str, connection: sqlite3.Connection) -> bool:
    """Keep this; False when there is no such finished call, or it has enough notes."""
    values = (at, plain(cut_note(text)), plain(call_id), MOST_NOTES)
    return connection.execute(_ADD_NOTE, values).rowcount == 1


def notes_of(call_id: str, owner: str, connection: sqlite3.Connection) -> list[Note]:
    """The notes of the owner's call, the first one first."""
    return [Note(*row) for row in connection.execute(_NOTES, (plain(call_id), plain(owner)))]
