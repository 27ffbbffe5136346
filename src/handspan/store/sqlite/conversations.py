"""Sessions and their messages as rows. Messages are only appended; the results follow their calls (SPEC A2, M4)."""

import asyncio
import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Final

import msgspec

from handspan.core.errors import NotYours, StoreError, ToolError
from handspan.core.messages import (
    AssistantMessage,
    Message,
    RepliesInARow,
    ResultsMessage,
    UnpairedCalls,
    check_all,
    check_next,
)
from handspan.core.records import SessionPage, SessionRecord, SessionState
from handspan.core.store import ArtifactStore, Leases
from handspan.core.values import encode, sanitize
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import PageCursor, Row, clamp_limit
from handspan.store.sqlite.usage import INSERT_USAGE, usage_values

SESSION: Final = "id, owner, agent, name, created, active, state, length, removed, skills"
# One statement checks all: the session is the owner's, calls and results pair, no reply follows another reply, and the
# session has the length that the caller expects. It accepts exactly what `check_next` accepts.
_APPEND: Final = (
    "INSERT INTO messages (session, seq, number, at, opens, body)"
    " SELECT id, length + 1, length + 1 + removed, ?, ?, ? FROM sessions"
    " WHERE id = ? AND owner = ? AND open_calls IS ? AND NOT (ends_with_reply AND ?) AND (? IS NULL OR length = ?)"
)
# The same as the trigger of the messages does. Dropped messages are counted, so that no number is given twice.
_REWIND: Final = (
    "UPDATE sessions SET removed = removed + length - ?1,"
    " (length, open_calls, ends_with_reply) = (SELECT COALESCE(MAX(seq), 0), opens,"
    ' COALESCE(substr(body, 1, 19) = CAST(\'{"type":"assistant"\' AS BLOB), 0)'
    " FROM messages WHERE session = sessions.id AND seq = ?1) WHERE id = ?2"
)
_BEGIN_TURN: Final = (
    "UPDATE sessions SET state = 'running', run = ?, active = ? WHERE id = ? AND owner = ? AND state <> 'running'"
    f" RETURNING {SESSION}"
)
_FEW_MESSAGES: Final = 8


@cache
def _decoder() -> msgspec.json.Decoder[list[Message]]:
    """Return the decoder. The first read makes it: that takes a while, and most starts read no messages."""
    return msgspec.json.Decoder(list[Message])


class StoredConversations:
    """Stores sessions. Raises `ToolError` (`file_not_found`) for a session that the owner does not have."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        artifacts: ArtifactStore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._lease = leases.own
        self._artifacts = artifacts
        self._clock = clock
        self._new: dict[str, SessionRecord] = {}
        """Sessions of a unit of work that is not committed yet."""

    async def create(
        self, *, owner: str, agent: str = "General", name: str = "", session: str | None = None
    ) -> SessionRecord:
        """Return a new, empty session. With `session` it has this id; the owner's session of that id is returned if it
        exists. Raises `NotYours` when another owner has it.
        """
        now, session_id = self._clock(), sanitize(session or os.urandom(16).hex())
        made = SessionRecord(session_id, sanitize(owner), sanitize(agent), sanitize(name), now, now, "idle", 0)
        unit = self._database.unit
        if unit is None:
            return await self._database.write(partial(_create, made))
        self._new[session_id] = made  # the write finds out whether another owner has it
        unit.add(partial(_create, made), lambda: self._new.pop(session_id, None))
        return made

    async def find(self, session: str, *, owner: str) -> SessionRecord | None:
        """Return this session, or None if no owner has it. Raises `NotYours` when another owner has it."""
        new = self._new.get(session)
        if new is not None and new.owner == sanitize(owner):
            return new
        return self._database.read_now(partial(_find, session, owner))

    async def get(self, session: str, *, owner: str) -> SessionRecord:
        """Return this session, without its messages."""
        return self._database.read_now(partial(get_session, session, owner))

    async def page(self, *, owner: str, limit: int = 50, after: str | None = None) -> SessionPage:
        """Return the owner's sessions, the last active first. `after` is the `next` of the previous page."""
        cursor, limit = PageCursor.parse(after), clamp_limit(limit)
        sql = (
            f"SELECT {SESSION} FROM sessions WHERE owner = ? AND (active, id) < (?, ?)"
            " ORDER BY active DESC, id DESC LIMIT ?"
        )
        values = (sanitize(owner), cursor.at, cursor.id, limit + 1)
        rows = await self._database.fetch_all(sql, values)
        found = tuple(SessionRecord(*row) for row in rows[:limit])
        return SessionPage(found, str(PageCursor(found[-1].active, found[-1].id)) if len(rows) > limit else None)

    async def load(self, session: str, *, owner: str, after: int = 0) -> list[Message]:
        """Return the messages, or those after this sequence number."""
        if session in self._new:
            return []
        if after:  # since the last turn there are one or two: a thread would cost more than they do
            newer = self._database.read_now(partial(load_messages, session, owner, after, limit=_FEW_MESSAGES))
            if len(newer) < _FEW_MESSAGES:
                return newer
        return await self._database.read(partial(load_messages, session, owner, after))

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        """Add messages, all or none.

        Raises `UnpairedCalls` or `RepliesInARow` when one can't follow the one before it, `ToolError` (`busy`) when
        the session has another length than `after`.
        """
        for last, coming in itertools.pairwise(messages):
            check_next(last, coming)
        if messages:
            await self._database.join(append_messages(session, messages, owner, self._clock(), after, cost))

    def keep(
        self, session: str, message: Message, *, owner: str, after: int, cost: float | None = None
    ) -> asyncio.Future[None] | None:
        """Begin to `append` one message. Return the pending write, or None if the unit of work acknowledges it."""
        work, unit = append_messages(session, (message,), owner, self._clock(), after, cost), self._database.unit
        if unit is None:
            return self._database.write(work)
        unit.add(work)
        return None

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Remove the messages after this sequence number. Their calls stay in the journal, their cost in the sums."""
        await self._database.write(partial(_rewind, session, length, owner))

    async def begin_turn(self, session: str, *, owner: str) -> SessionRecord:
        """Mark the session as running and return it. Raises `ToolError` (`busy`) when it runs already.

        Inside a unit of work the error may come only from the commit; then nothing of the unit is stored.
        """
        work, unit = partial(_begin_turn, session, owner, self._lease, self._clock()), self._database.unit
        if unit is None:
            return await self._database.write(work)
        known = self._new.get(session) or await self.get(session, owner=owner)
        check_not_running(known)
        unit.add(work)
        return known

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False) -> None:
        """Mark the session as idle, or as `waiting` for results of its open calls."""
        state: SessionState = "waiting" if waiting else "idle"
        await self._change("state = ?, run = NULL", (state,), session, owner)
        if (unit := self._database.unit) is not None:  # the next turn may run in a process that reads the database
            await unit.flush()

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        """Change the name."""
        await self._change("name = ?", (sanitize(name),), session, owner)

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        """Set the first name. Return False if it has a name; inside a unit of work always True."""
        sql = "UPDATE sessions SET name = ? WHERE id = ? AND owner = ? AND name = ''"
        values = (sanitize(name), sanitize(session), sanitize(owner))
        unit = self._database.unit
        if unit is None:
            return await self._database.execute(sql, values) == 1
        unit.add(lambda connection: connection.execute(sql, values))
        return True

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        """Continue this session with another agent, and with that agent's own skills."""
        await self._change("agent = ?, skills = NULL", (sanitize(agent),), session, owner)

    async def choose_skills(self, session: str, skills: Sequence[str], *, owner: str) -> None:
        """Store which skills are on in this session, in place of its agent's own."""
        await self._change("skills = ?", (sanitize("\n".join(skills)),), session, owner)

    async def delete(self, session: str, *, owner: str) -> None:
        """Remove the session with everything in it (SPEC S6). Raises `ToolError` (`busy`) while it runs."""
        check_not_running(await self.get(session, owner=owner))
        # The artifacts go first: if that fails, the session can still be deleted.
        await self._artifacts.forget_session(session, owner=owner)
        await self._database.write(partial(_delete, session, owner))

    async def _change(self, assignment: str, values: Row, session: str, owner: str) -> None:
        await self._database.join(partial(_update, assignment, values, session, owner))


def append_messages(
    session: str,
    messages: tuple[Message, ...],
    owner: str,
    at: float,
    after: int | None = None,
    cost: float | None = None,
) -> Callable[[sqlite3.Connection], None]:
    """Return the work that adds these messages. It can refuse only the first of them."""
    key = (sanitize(session), sanitize(owner))
    rows = [
        (at, _open_ids(message), encode(message), *key, _answered_ids(message), type(message) is AssistantMessage)
        for message in messages
    ]
    uses = [usage_values(message, at, cost) if type(message) is AssistantMessage else None for message in messages]

    def work(connection: sqlite3.Connection) -> None:
        for place, (row, use) in enumerate(zip(rows, uses, strict=True)):
            expected = None if after is None else after + place
            if connection.execute(_APPEND, (*row, expected, expected)).rowcount == 0:
                raise _append_error(connection, session, owner, messages[0], after)
            if use is not None:
                connection.execute(INSERT_USAGE, (*use, key[0]))

    return work


def get_session(session: str, owner: str, connection: sqlite3.Connection) -> SessionRecord:
    """Return the owner's session of this id. Raises `ToolError` (`file_not_found`)."""
    sql = f"SELECT {SESSION} FROM sessions WHERE id = ? AND owner = ?"
    row = connection.execute(sql, (sanitize(session), sanitize(owner))).fetchone()
    if row is None:
        text = f"There is no session {session[:60]!r}: it was never made, is not yours, or was deleted."
        raise ToolError("file_not_found", text)
    return SessionRecord(*row)


def load_messages(
    session: str, owner: str, after: int, connection: sqlite3.Connection, limit: int = -1
) -> list[Message]:
    """Return the messages of the owner's session. Raises `StoreError` when calls and results do not pair."""
    get_session(session, owner, connection)
    sql = "SELECT body FROM messages WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
    bodies = [body for (body,) in connection.execute(sql, (sanitize(session), after, limit))]
    try:
        messages = _decoder().decode(b"[%b]" % b",".join(bodies)) if bodies else []
        # The first message of a part may answer a message before that part.
        check_all(messages[1:] if after and messages and type(messages[0]) is ResultsMessage else messages)
    except (msgspec.DecodeError, UnpairedCalls) as error:
        raise StoreError(
            f"The messages of the session {session!r} are damaged: {error}. Delete it, or put a backup in place."
        ) from error
    return messages


def _create(session: SessionRecord, connection: sqlite3.Connection) -> SessionRecord:
    sql = f"INSERT OR IGNORE INTO sessions ({SESSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    if connection.execute(sql, msgspec.structs.astuple(session)).rowcount == 1:
        return session
    return _find(session.id, session.owner, connection) or session


def _find(session: str, owner: str, connection: sqlite3.Connection) -> SessionRecord | None:
    row = connection.execute(f"SELECT {SESSION} FROM sessions WHERE id = ?", (sanitize(session),)).fetchone()
    found = None if row is None else SessionRecord(*row)
    if found is not None and found.owner != sanitize(owner):
        raise NotYours(session)
    return found


def _rewind(session: str, length: int, owner: str, connection: sqlite3.Connection) -> None:
    found = get_session(session, owner, connection)
    if found.length <= length:
        return
    drop_messages(found.id, length + 1, found.length, connection)
    set_length(found.id, length, connection)


def drop_messages(session: str, first: int, last: int, connection: sqlite3.Connection) -> None:
    """Delete these messages; the cost of their replies still counts. Call `set_length` in the same transaction."""
    # Their sequence numbers are used again: so the usage rows move to numbers below all that exist.
    lowest = connection.execute("SELECT MIN(0, MIN(seq)) FROM usage WHERE session = ?", (session,)).fetchone()[0]
    these = (session, first, last)
    connection.execute("UPDATE usage SET seq = ? - seq WHERE session = ? AND seq BETWEEN ? AND ?", (lowest, *these))
    connection.execute("DELETE FROM messages WHERE session = ? AND seq BETWEEN ? AND ?", these)


def set_length(session: str, length: int, connection: sqlite3.Connection) -> None:
    """Set the number of messages, and which calls the last one of them opens."""
    connection.execute(_REWIND, (length, session))


def _begin_turn(session: str, owner: str, lease: str, now: float, connection: sqlite3.Connection) -> SessionRecord:
    row = connection.execute(_BEGIN_TURN, (lease, now, sanitize(session), sanitize(owner))).fetchone()
    if row is None:
        check_not_running(get_session(session, owner, connection))
    return SessionRecord(*row)


def _update(assignment: str, values: Row, session: str, owner: str, connection: sqlite3.Connection) -> None:
    sql = f"UPDATE sessions SET {assignment} WHERE id = ? AND owner = ?"
    if connection.execute(sql, (*values, sanitize(session), sanitize(owner))).rowcount == 0:
        get_session(session, owner, connection)


def _delete(session: str, owner: str, connection: sqlite3.Connection) -> None:
    check_not_running(get_session(session, owner, connection))
    for table in ("messages", "usage", "calls", "questions"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


def check_not_running(session: SessionRecord) -> None:
    """Raise `ToolError` (`busy`) while a turn of this session runs."""
    if session.state == "running":
        raise ToolError("busy", f"The session {session.id!r} is running: wait for its turn to end, or stop it.")


def _append_error(
    connection: sqlite3.Connection, session: str, owner: str, message: Message, after: int | None
) -> Exception:
    """Return the reason why a message could not be added."""
    found = get_session(session, owner, connection)
    if after is not None and found.length != after:
        text = f"The session {session!r} has {found.length} messages and not {after}: load what was added meanwhile."
        return ToolError("busy", text)
    sql = "SELECT open_calls FROM sessions WHERE id = ?"
    open_calls = connection.execute(sql, (found.id,)).fetchone()[0]
    if open_calls is None and type(message) is AssistantMessage:
        return RepliesInARow(f"the session {session!r} ends with an assistant message: another one can't follow it")
    answers = _answered_ids(message) or "nothing"
    return UnpairedCalls(f"a message that answers {answers} can't follow one that asks for {open_calls or 'nothing'}")


def _open_ids(message: Message) -> str | None:
    """Return the ids of the calls that the next message has to answer, as JSON."""
    calls = message.calls if type(message) is AssistantMessage else ()
    return _encode_ids(call.id for call in calls) if calls else None


def _answered_ids(message: Message) -> str | None:
    return _encode_ids(result.call_id for result in message.results) if type(message) is ResultsMessage else None


def _encode_ids(ids: Iterable[str]) -> str:
    return encode(list(ids)).decode()
