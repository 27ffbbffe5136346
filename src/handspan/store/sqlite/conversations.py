"""Sessions and their messages: appended, never changed; each call's results right behind it (SPEC A2, M4)."""

import asyncio
import itertools
import os
import sqlite3
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

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
from handspan.core.store import KeptArtifacts, Leases
from handspan.core.values import encode, plain
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Mark, Row, page_size
from handspan.store.sqlite.usage import USE, usage_row

SESSION: Final = "id, owner, agent, name, created, active, state, length, removed"
# One statement decides: is it the owner's, do calls and results pair, are there no replies in a row, is it as long as
# the caller thinks. It lets pass what `check_next` lets pass, and nothing else.
_APPEND: Final = (
    "INSERT INTO messages (session, seq, number, at, opens, body)"
    " SELECT id, length + 1, length + 1 + removed, ?, ?, ? FROM sessions"
    " WHERE id = ? AND owner = ? AND open_calls IS ? AND NOT (ends_with_reply AND ?) AND (? IS NULL OR length = ?)"
)
# As the trigger of the messages does it. What was dropped is counted: no number is given twice.
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
_FEW: Final = 8


@cache
def _decoder() -> msgspec.json.Decoder[list[Message]]:
    """Made when the first conversation is read: it takes a while, and most starts read none."""
    return msgspec.json.Decoder(list[Message])


class StoredConversations:
    """Sessions in the database. A session that the owner does not have is a `ToolError` (`file_not_found`)."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        artifacts: KeptArtifacts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._run = leases.own
        self._artifacts = artifacts
        self._clock = clock
        self._new: dict[str, SessionRecord] = {}
        """Made in a unit that is not committed yet."""

    async def create(
        self, *, owner: str, agent: str = "General", name: str = "", session: str | None = None
    ) -> SessionRecord:
        """A new, empty session; with an id in `session` the owner's one, made only if need be. `NotYours`."""
        now, given = self._clock(), plain(session or os.urandom(12).hex())
        made = SessionRecord(given, plain(owner), plain(agent), plain(name), now, now, "idle", 0)
        unit = self._database.unit
        if unit is None:
            return await self._database.write(partial(_create, made))
        self._new[given] = made  # whether it is somebody else's comes out when it is written
        unit.add(partial(_create, made), lambda: self._new.pop(given, None))
        return made

    async def find(self, session: str, *, owner: str) -> SessionRecord | None:
        """This session, for who may also begin one under this id: None where there is none. `NotYours`."""
        new = self._new.get(session)
        if new is not None and new.owner == plain(owner):
            return new
        return self._database.read_now(partial(_found, session, owner))

    async def get(self, session: str, *, owner: str) -> SessionRecord:
        """This session, without its messages."""
        return self._database.read_now(partial(session_of, session, owner))

    async def page(self, *, owner: str, limit: int = 50, after: str | None = None) -> SessionPage:
        """The owner's sessions, the last active first; `after` is the `next` of the page before."""
        mark, limit = Mark.read(after), page_size(limit)
        sql = (
            f"SELECT {SESSION} FROM sessions WHERE owner = ? AND (active, id) < (?, ?)"
            " ORDER BY active DESC, id DESC LIMIT ?"
        )
        values = (plain(owner), mark.at, mark.id, limit + 1)
        rows = await self._database.read(lambda connection: connection.execute(sql, values).fetchall())
        found = tuple(SessionRecord(*row) for row in rows[:limit])
        return SessionPage(found, str(Mark(found[-1].active, found[-1].id)) if len(rows) > limit else None)

    async def load(self, session: str, *, owner: str, after: int = 0) -> list[Message]:
        """The messages, or those after this sequence number."""
        if session in self._new:
            return []
        if after:  # what is new since a turn is a message or two: a thread would cost more than they do
            newer = self._database.read_now(partial(messages_of, session, owner, after, most=_FEW))
            if len(newer) < _FEW:
                return newer
        return await self._database.read(partial(messages_of, session, owner, after))

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        """Add messages, all or none. `UnpairedCalls` when one must not stand there, `busy` when `after` is not so."""
        for last, coming in itertools.pairwise(messages):
            check_next(last, coming)
        if messages:
            await self._database.join(append_work(session, messages, owner, self._clock(), after, cost))

    def keep(
        self, session: str, message: Message, *, owner: str, after: int, cost: float | None = None
    ) -> asyncio.Future[None] | None:
        """`append` for one message that is on its way even if nobody waits; None when a unit acknowledges it."""
        work, unit = append_work(session, (message,), owner, self._clock(), after, cost), self._database.unit
        if unit is None:
            return self._database.write(work)
        unit.add(work)
        return None

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Drop the messages after this sequence number. Their calls stay in the journal, and what they cost counts."""
        await self._database.write(partial(_rewind, session, length, owner))

    async def begin_turn(self, session: str, *, owner: str) -> SessionRecord:
        """The session, running from now on. `ToolError` (`busy`) when it runs already.

        Inside a unit of work that may come out only when the block is committed: nothing of it is kept then.
        """
        work, unit = partial(_begin_turn, session, owner, self._run, self._clock()), self._database.unit
        if unit is None:
            return await self._database.write(work)
        known = self._new.get(session) or await self.get(session, owner=owner)
        refuse_running(known)
        unit.add(work)
        return known

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False) -> None:
        """The session does not run any more; `waiting`: its open calls get their results later."""
        state: SessionState = "waiting" if waiting else "idle"
        await self._change("state = ?, run = NULL", (state,), session, owner)
        if (unit := self._database.unit) is not None:  # whoever has the next turn looks into the database
            await unit.flush()

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        """Give it another name."""
        await self._change("name = ?", (plain(name),), session, owner)

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        """Give it its first name; False when it has one. Inside a unit of work it is not known yet whether it has."""
        sql = "UPDATE sessions SET name = ? WHERE id = ? AND owner = ? AND name = ''"
        values = (plain(name), plain(session), plain(owner))
        unit = self._database.unit
        if unit is None:
            return await self._database.write(lambda connection: connection.execute(sql, values).rowcount) == 1
        unit.add(lambda connection: connection.execute(sql, values))
        return True

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        """Let another agent go on with it."""
        await self._change("agent = ?", (plain(agent),), session, owner)

    async def delete(self, session: str, *, owner: str) -> None:
        """Remove it with all that belongs to it (SPEC S6). `ToolError` (`busy`) while it runs."""
        refuse_running(await self.get(session, owner=owner))
        # First: what is left when this fails can still be deleted.
        await self._artifacts.forget_session(session, owner=owner)
        await self._database.write(partial(_delete, session, owner))

    async def _change(self, assignment: str, values: Row, session: str, owner: str) -> None:
        await self._database.join(partial(_update, assignment, values, session, owner))


def append_work(
    session: str,
    messages: tuple[Message, ...],
    owner: str,
    at: float,
    after: int | None = None,
    cost: float | None = None,
) -> Callable[[sqlite3.Connection], None]:
    """The work that adds these messages; only the first of them can be refused."""
    whose = (plain(session), plain(owner))
    rows = [
        (at, _opens(message), encode(message), *whose, _answers(message), type(message) is AssistantMessage)
        for message in messages
    ]
    uses = [usage_row(message, at, cost) if type(message) is AssistantMessage else None for message in messages]

    def work(connection: sqlite3.Connection) -> None:
        for place, (row, use) in enumerate(zip(rows, uses, strict=True)):
            expected = None if after is None else after + place
            if connection.execute(_APPEND, (*row, expected, expected)).rowcount == 0:
                raise _refusal(connection, session, owner, messages[0], after)
            if use is not None:
                connection.execute(USE, (*use, whose[0]))

    return work


def session_of(session: str, owner: str, connection: sqlite3.Connection) -> SessionRecord:
    """The owner's session of this id."""
    sql = f"SELECT {SESSION} FROM sessions WHERE id = ? AND owner = ?"
    row = connection.execute(sql, (plain(session), plain(owner))).fetchone()
    if row is None:
        text = f"There is no session {session[:60]!r}: it was never made, is not yours, or was deleted."
        raise ToolError("file_not_found", text)
    return SessionRecord(*row)


def messages_of(session: str, owner: str, after: int, connection: sqlite3.Connection, most: int = -1) -> list[Message]:
    """The messages of the owner's session, paired throughout; or at most so many."""
    session_of(session, owner, connection)
    sql = "SELECT body FROM messages WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
    bodies = [body for (body,) in connection.execute(sql, (plain(session), after, most))]
    try:
        messages = _decoder().decode(b"[%b]" % b",".join(bodies)) if bodies else []
        # What comes first in a part may be the answer to what is not part of it.
        check_all(messages[1:] if after and messages and type(messages[0]) is ResultsMessage else messages)
    except (msgspec.DecodeError, UnpairedCalls) as error:
        raise StoreError(
            f"The messages of the session {session!r} are damaged: {error}. Delete it, or put a backup in place."
        ) from error
    return messages


def _create(session: SessionRecord, connection: sqlite3.Connection) -> SessionRecord:
    sql = f"INSERT OR IGNORE INTO sessions ({SESSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    if connection.execute(sql, msgspec.structs.astuple(session)).rowcount == 1:
        return session
    return _found(session.id, session.owner, connection) or session


def _found(session: str, owner: str, connection: sqlite3.Connection) -> SessionRecord | None:
    row = connection.execute(f"SELECT {SESSION} FROM sessions WHERE id = ?", (plain(session),)).fetchone()
    found = None if row is None else SessionRecord(*row)
    if found is not None and found.owner != plain(owner):
        raise NotYours(session)
    return found


def _rewind(session: str, length: int, owner: str, connection: sqlite3.Connection) -> None:
    found = session_of(session, owner, connection)
    if found.length <= length:
        return
    drop_messages(found.id, length + 1, found.length, connection)
    end_at(found.id, length, connection)


def drop_messages(session: str, first: int, last: int, connection: sqlite3.Connection) -> None:
    """Delete these messages; what their replies cost still counts. Then `end_at`, in the same transaction."""
    # The places are given again: what the dropped replies cost moves below all that were moved before.
    lowest = connection.execute("SELECT MIN(0, MIN(seq)) FROM usage WHERE session = ?", (session,)).fetchone()[0]
    these = (session, first, last)
    connection.execute("UPDATE usage SET seq = ? - seq WHERE session = ? AND seq BETWEEN ? AND ?", (lowest, *these))
    connection.execute("DELETE FROM messages WHERE session = ? AND seq BETWEEN ? AND ?", these)


def end_at(session: str, length: int, connection: sqlite3.Connection) -> None:
    """Let the session have only so many messages, and what the last one of them opens."""
    connection.execute(_REWIND, (length, session))


def _begin_turn(session: str, owner: str, run: str, now: float, connection: sqlite3.Connection) -> SessionRecord:
    row = connection.execute(_BEGIN_TURN, (run, now, plain(session), plain(owner))).fetchone()
    if row is None:
        refuse_running(session_of(session, owner, connection))
    return SessionRecord(*row)


def _update(assignment: str, values: Row, session: str, owner: str, connection: sqlite3.Connection) -> None:
    sql = f"UPDATE sessions SET {assignment} WHERE id = ? AND owner = ?"
    if connection.execute(sql, (*values, plain(session), plain(owner))).rowcount == 0:
        session_of(session, owner, connection)


def _delete(session: str, owner: str, connection: sqlite3.Connection) -> None:
    refuse_running(session_of(session, owner, connection))
    for table in ("messages", "usage", "calls", "questions"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


def refuse_running(session: SessionRecord) -> None:
    """`ToolError` (`busy`) while its turn runs."""
    if session.state == "running":
        raise ToolError("busy", f"The session {session.id!r} is running: wait for its turn to end, or stop it.")


def _refusal(
    connection: sqlite3.Connection, session: str, owner: str, message: Message, after: int | None
) -> Exception:
    """Why a message could not be added."""
    found = session_of(session, owner, connection)
    if after is not None and found.length != after:
        text = f"The session {session!r} has {found.length} messages and not {after}: load what was added meanwhile."
        return ToolError("busy", text)
    sql = "SELECT open_calls FROM sessions WHERE id = ?"
    open_calls = connection.execute(sql, (found.id,)).fetchone()[0]
    if open_calls is None and type(message) is AssistantMessage:
        return RepliesInARow(f"the session {session!r} ends with an assistant message: another one can't follow it")
    answers = _answers(message) or "nothing"
    return UnpairedCalls(f"a message that answers {answers} can't follow one that asks for {open_calls or 'nothing'}")


def _opens(message: Message) -> str | None:
    """The calls that have to be answered next."""
    calls = message.calls if type(message) is AssistantMessage else ()
    return _ids(call.id for call in calls) if calls else None


def _answers(message: Message) -> str | None:
    return _ids(result.call_id for result in message.results) if type(message) is ResultsMessage else None


def _ids(ids: Any) -> str:
    return encode(list(ids)).decode()
