"""The journal of calls: pages by a filter, notes beside calls, and retention: old calls are removed (SPEC E8, S6)."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from handspan.core.calls import MAX_NOTES, Note, cut_note
from handspan.core.records import CallFilter, CallStatus
from handspan.core.values import encode, sanitize
from handspan.store.journal_clock import JournalTime
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import NOT_DELETED, RECORD, PageCursor, Row, put_row

# Exactly the conditions of the indexes `calls_open` and `calls_failed`: else SQLite does not use a partial index.
_OPEN: Final = "state <> 'done'"
_FAILED: Final = "status NOT IN ('open', 'success')"


_TOUCH: Final = "UPDATE calls SET at = at WHERE id = ? AND state = 'done'"
_ADD_NOTE: Final = (
    "INSERT INTO call_notes (call_id, at, text) SELECT id, ?/*double precision*/, ?/*text*/"
    " FROM calls WHERE id = ? AND state = 'done'"
    " AND (SELECT COUNT(*) FROM call_notes WHERE call_id = calls.id) < ?"
)
_NOTES: Final = (
    "SELECT note.at, note.text FROM call_notes AS note JOIN calls ON calls.id = note.call_id"
    " WHERE calls.id = ? AND calls.owner = ? ORDER BY note.rowid"
)
MAX_AT_ONCE: Final = 200
"""Calls that one transaction removes at most, so that other writes do not wait long."""
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes of calls that one transaction removes at most, for the same reason."""

# Open calls stay, and so do the calls of a session with an open turn: the loop would run them again.
_CAN_GO: Final = (
    "state = 'done' AND at + waited + duration < ? AND NOT EXISTS (SELECT 1 FROM sessions"
    " WHERE sessions.id = calls.session AND (sessions.state <> 'idle' OR sessions.open_calls IS NOT NULL))"
)
_OLD: Final = f"SELECT id, size FROM calls WHERE owner = ? AND at < ? AND {_CAN_GO} ORDER BY at, id LIMIT ?"
_REMOVE: Final = f"DELETE FROM calls WHERE id = ? AND {_CAN_GO}"
_REMOVE_QUESTIONS: Final = (
    "DELETE FROM questions WHERE call_id = ? AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = questions.call_id)"
)
_STORE_TIME: Final = put_row("journal_time", "id", "believed, seen")
_REMOVE_WITHOUT_CALL: Final = "DELETE FROM questions WHERE call_id = '' AND expires_at < ?"


# A quantile (50 or 95 percent) is the smallest time that this share of the calls does not exceed: the duration of the
# call at that place. The place is calculated in whole numbers.
_TIMINGS: Final = (
    "SELECT name, COUNT(*) AS calls, SUM(failed), MAX(CASE WHEN place = (total + 1) / 2 THEN duration END),"
    " MAX(CASE WHEN place = (total * 95 + 99) / 100 THEN duration END)"
    " FROM (SELECT name, duration, CASE WHEN status = 'success' THEN 0 ELSE 1 END AS failed,"
    " ROW_NUMBER() OVER (PARTITION BY name ORDER BY duration) AS place, COUNT(*) OVER (PARTITION BY name) AS total"
    " FROM calls WHERE {} AND state = 'done') AS timed GROUP BY name ORDER BY calls DESC, name"
)


def timings_query(owner: str, wanted: CallFilter) -> tuple[str, Row]:
    """Return the statement and its values for the times of the owner's finished calls, one row for each tool."""
    where, values = _where(owner, wanted)
    return _TIMINGS.format(where), values


def open_query(owner: str, session: str | None) -> tuple[str, Row]:
    """Return the statement and its values for the owner's calls without a result, the oldest first."""
    where, values = _where(owner, CallFilter(session=session, status="open"))
    return f"SELECT {RECORD} FROM calls WHERE {where} ORDER BY at, id", values


def page_query(owner: str, wanted: CallFilter, before: PageCursor, limit: int) -> tuple[str, Row]:
    """Return the statement and its values for the owner's calls before the cursor, the newest first."""
    where, values = _where(owner, wanted)
    sql = f"SELECT {RECORD} FROM calls WHERE {where} AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?"
    return sql, (*values, before.at, before.id, limit)


def _where(owner: str, wanted: CallFilter) -> tuple[str, Row]:
    """Return the SQL condition for the owner's calls that fit the filter, and its values."""
    terms: list[tuple[str, Row]] = [("owner = ?", (sanitize(owner),)), *_terms(wanted), (NOT_DELETED, ())]
    return " AND ".join(sql for sql, _ in terms), tuple(value for _, given in terms for value in given)


def _terms(wanted: CallFilter) -> list[tuple[str, Row]]:
    """Return the SQL conditions of the filter, each with its values."""
    terms: list[tuple[str, Row]] = []
    if wanted.session is not None:
        terms.append(("session = ?", (sanitize(wanted.session),)))
    if wanted.tool is not None:
        # `|| ''` keeps a database from using the index of names: a session has fewer calls than a tool.
        name = "name" if wanted.session is None else "name || ''"
        terms.append((f"{name} = ?", (sanitize(wanted.tool),)))
    if wanted.origin is not None:
        terms.append(_origin_term(wanted.origin))
    if wanted.status is not None:
        terms.append(_status_term(wanted.status))
    if wanted.since is not None:
        terms.append(("at >= ?", (wanted.since,)))
    if wanted.until is not None:
        terms.append(("at < ?", (wanted.until,)))
    return terms


def _origin_term(origin: str) -> tuple[str, Row]:
    """Return the condition for an origin. It compares the first bytes of the stored `ToolFacts`, not their JSON."""
    kind, _, name = sanitize(origin).removesuffix(")").partition("(")
    begin = b'{"origin":{"kind":' + encode(kind) + (b',"name":' + encode(name) if name else b"") + b","
    return "substr(tool, 1, ?) = ?", (len(begin), begin)


def _status_term(status: CallStatus) -> tuple[str, Row]:
    """Return the SQL that selects calls with this status, and its values."""
    match status:
        case "open":
            return _OPEN, ()
        case "error":
            return _FAILED, ()
        case "success":
            return "status = 'success'", ()
        case code:
            return f"{_FAILED} AND status = ?", (code,)


async def add_note(call_id: str, at: float, text: str, connection: TableConnection) -> bool:
    """Store a note. Return False if there is no such finished call, or it has `MAX_NOTES`."""
    # Two processes that count at once would both find room. This write locks the row: the second process waits for it.
    await connection.execute(_TOUCH, (sanitize(call_id),))
    values = (at, sanitize(cut_note(text)), sanitize(call_id), MAX_NOTES)
    return await connection.execute(_ADD_NOTE, values) == 1


async def load_notes(call_id: str, owner: str, connection: TableConnection) -> list[Note]:
    """Return the notes of the owner's call, the oldest first."""
    return [Note(*row) for row in await connection.fetch_all(_NOTES, (sanitize(call_id), sanitize(owner)))]


async def find_newest(connection: TableConnection) -> float | None:
    """Return when the newest call began; None for an empty journal. It reads owner by owner, as `_find_old` does."""
    found: list[float] = []
    owner = await _next_owner(connection, "SELECT MIN(owner) FROM calls")
    while owner is not None:
        found.append(await connection.fetch_value("SELECT MAX(at) FROM calls WHERE owner = ?", (owner,)))
        owner = await _next_owner(connection, "SELECT MIN(owner) FROM calls WHERE owner > ?", (owner,))
    return max(found, default=None)


async def load_journal_time(connection: TableConnection) -> JournalTime | None:
    """Return the stored time of the journal; None before the first pruning."""
    row = await connection.fetch_one("SELECT believed, seen FROM journal_time")
    return None if row is None else JournalTime(*row)


async def store_journal_time(database: Database, now: JournalTime) -> None:
    """Store the time of the journal for the next process."""
    await database.execute(_STORE_TIME, (1, now.believed, now.seen))


async def prune(database: Database, before: float) -> int:
    """Remove every call that ended before this time, in small steps, and return their number."""
    await database.execute(_REMOVE_WITHOUT_CALL, (before,))
    removed = 0
    while old := await database.read(partial(_find_old, before)):
        count = await database.write(partial(_remove, old, before))
        if count == 0:  # another process removes them
            break
        removed += count
    return removed


async def _find_old(before: float, connection: TableConnection) -> list[str]:
    """Return some of the oldest calls that can be removed. It reads owner by owner: the index begins with the owner."""
    found: list[str] = []
    owner = await _next_owner(connection, "SELECT MIN(owner) FROM calls")
    while owner is not None and not found:
        rows = await connection.fetch_all(_OLD, (owner, before, before, MAX_AT_ONCE))
        found = _take_while_small(rows)
        owner = await _next_owner(connection, "SELECT MIN(owner) FROM calls WHERE owner > ?", (owner,))
    return found


async def _next_owner(connection: TableConnection, sql: str, values: Row = ()) -> str | None:
    owner: str | None = await connection.fetch_value(sql, values)
    return owner


def _take_while_small(rows: Sequence[Row]) -> list[str]:
    """Return the ids of as many calls as one transaction can remove quickly, but at least one."""
    found: list[str] = []
    left = _MAX_BYTES
    for call_id, size in rows:
        left -= size
        if found and left < 0:
            break
        found.append(call_id)
    return found


async def _remove(ids: list[str], before: float, connection: TableConnection) -> int:
    removed = await connection.execute_many(_REMOVE, [(call_id, before) for call_id in ids])
    await connection.execute_many(_REMOVE_QUESTIONS, [(call_id,) for call_id in ids])
    return removed
