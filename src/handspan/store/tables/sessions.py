"""Sessions as rows: made, and found by their id and owner."""

from typing import Final

import msgspec

from handspan.core.errors import NotYours, SessionDeleted, ToolError
from handspan.core.records import SessionEdit, SessionFilter, SessionRecord
from handspan.core.values import sanitize
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import Row, marks, missing

SESSION: Final = (
    "id, owner, agent, name, created, active, state, length, removed, skills, compacted, kind, model, pinned, archived"
)
"""The columns of a `SessionRecord`."""
_CREATE: Final = f"INSERT INTO sessions ({SESSION}) VALUES ({marks(SESSION)}) ON CONFLICT (id) DO NOTHING"


async def create_session(session: SessionRecord, connection: TableConnection) -> SessionRecord:
    """Enter a session, unless it exists. Return the stored one. Raises `NotYours` and `SessionDeleted`."""
    if await connection.execute(_CREATE, msgspec.structs.astuple(session)) == 1:
        return session
    return await find_session(session.id, session.owner, connection) or session


async def find_session(session: str, owner: str, connection: TableConnection) -> SessionRecord | None:
    """Return this session, or None if it does not exist. Raises `NotYours` and `SessionDeleted`."""
    row = await connection.fetch_one(f"SELECT {SESSION}, deleted_at FROM sessions WHERE id = ?", (sanitize(session),))
    if row is None:
        return None
    found = session_of(row[:-1])
    if found.owner != sanitize(owner):
        raise NotYours(session)
    if row[-1] is not None:
        raise SessionDeleted(session)
    return found


async def get_session(session: str, owner: str, connection: TableConnection) -> SessionRecord:
    """Return the owner's session of this id. Raises `ToolError` (`file_not_found`) when the owner does not have it."""
    sql = f"SELECT {SESSION} FROM sessions WHERE id = ? AND owner = ? AND deleted_at IS NULL"
    row = await connection.fetch_one(sql, (sanitize(session), sanitize(owner)))
    if row is None:
        raise missing("session", session)
    return session_of(row)


def session_of(row: Row) -> SessionRecord:
    """Return the record of a row with the columns `SESSION`. SQLite has 0 and 1 for False and True."""
    return SessionRecord(*(*row[:-2], row[-2] == 1, row[-1] == 1))


def filter_terms(wanted: SessionFilter) -> tuple[str, Row]:
    """Return the SQL condition for the sessions that fit, to put behind another one, and its values."""
    # Exactly the conditions of the indexes of these columns: else SQLite does not use a partial index.
    terms = {"pinned": wanted.pinned, "archived": wanted.archived}
    sql = "".join(f" AND {'' if value else 'NOT '}{column}" for column, value in terms.items() if value is not None)
    kinds = wanted.kinds
    if kinds is not None:
        sql += f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else " AND FALSE"
    return sql, kinds or ()


async def edit_session(session: str, edit: SessionEdit, owner: str, connection: TableConnection) -> None:
    """Change the columns that are named. Raises `ToolError` (`file_not_found`)."""
    values = {name: value for name, value in msgspec.structs.asdict(edit).items() if value is not None}
    columns = [f"{name} = ?" for name in values]
    if edit.name is not None:
        columns.append("name_indexed = FALSE")
    if columns:
        given = [sanitize(value) if isinstance(value, str) else value for value in values.values()]
        await update_session(", ".join(columns), tuple(given), session, owner, connection=connection)


async def update_session(assignment: str, values: Row, session: str, owner: str, connection: TableConnection) -> None:
    """Change these columns. Raises `ToolError` (`file_not_found`) when the owner does not have the session."""
    sql = f"UPDATE sessions SET {assignment} WHERE id = ? AND owner = ? AND deleted_at IS NULL"
    if await connection.execute(sql, (*values, sanitize(session), sanitize(owner))) == 0:
        await get_session(session, owner, connection)


def check_not_running(session: SessionRecord) -> None:
    """Raise `ToolError` (`busy`) while a turn of this session runs."""
    if session.state == "running":
        raise running_error(session.id)


def running_error(session: str) -> ToolError:
    """Return the error for a session whose turn runs."""
    return ToolError("busy", f"The session {session!r} is running: wait for its turn to end, or stop it.")
