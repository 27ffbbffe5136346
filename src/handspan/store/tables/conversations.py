"""Sessions and their messages as rows; at an append the session's lease is checked (SPEC A2, M4).

Messages are only appended, and results follow their calls. A turn whose session another process has taken over can
append no more: `check_lease` refuses it.
"""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.errors import NotYours, StoreError, TakenOver, ToolError
from handspan.core.events import TurnEnd
from handspan.core.finishing import finish
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
from handspan.store.tables.database import Database, TableConnection, Work, join_unit, unit_around
from handspan.store.tables.rows import ALL_ROWS, PageCursor, Row, clamp_limit
from handspan.store.tables.turn_ends import clear_end_before, read_ends, store_end
from handspan.store.tables.usage import INSERT_USAGE, usage_values

_T = TypeVar("_T")

SESSION: Final = "id, owner, agent, name, created, active, state, length, removed, skills"
# One statement checks all: the session is the owner's, calls and results pair, no reply follows another reply, the
# session has the length that the caller expects, and no other process has taken the turn over. It accepts exactly what
# `check_next` accepts, and makes room for one message.
_EXTEND: Final = (
    "UPDATE sessions SET length = length + 1, active = ?, open_calls = ?, ends_with_reply = ?"
    " WHERE id = ? AND owner = ? AND COALESCE(open_calls, '') = ? AND NOT (ends_with_reply AND ?)"
    " AND (?/*integer*/ IS NULL OR length = ?) AND (?/*text*/ IS NULL OR run = ?) RETURNING length, removed"
)
INSERT_MESSAGE: Final = "INSERT INTO messages (session, seq, number, at, opens, body) VALUES (?, ?, ?, ?, ?, ?)"
"""Adds a message to a session whose row already counts it."""
# `removed` counts the messages that are dropped, so that no number is given twice.
_REWIND: Final = (
    "UPDATE sessions SET removed = removed + length - ?, length = ?, open_calls = ?, ends_with_reply = ? WHERE id = ?"
)
_LAST: Final = "SELECT opens, substr(body, 1, 19) FROM messages WHERE session = ? AND seq = ?"
_BEGIN_TURN: Final = (
    "UPDATE sessions SET state = 'running', run = ?, active = ? WHERE id = ? AND owner = ?"
    f" AND (state <> 'running' OR run IS NULL) RETURNING {SESSION}"
)
# A turn that was handed over runs in no process.
_HANDED_OVER: Final = "state = 'running' AND run IS NULL"
_HAND_OVER: Final = (
    "UPDATE sessions SET state = 'running', run = NULL WHERE id = ? AND owner = ?"
    " AND (state = 'waiting' OR (state = 'running' AND run = ?))"
)
_TAKE_TURN: Final = f"UPDATE sessions SET run = ? WHERE id = ? AND owner = ? AND {_HANDED_OVER} RETURNING {SESSION}"
# Without a given state, the session gets the state that its messages show.
_END_OWN_TURN: Final = (
    "UPDATE sessions SET run = NULL,"
    " state = COALESCE(?/*text*/, CASE WHEN open_calls IS NULL THEN 'idle' ELSE 'waiting' END)"
    " WHERE id = ? AND owner = ? AND state = 'running' AND run = ?"
)
_END_TURN: Final = (
    "UPDATE sessions SET state = ?, run = NULL WHERE id = ? AND owner = ? AND (?/*text*/ IS NULL OR run = ?)"
)
_REPLY_BEGINS: Final = b'{"type":"assistant"'
_FEW_MESSAGES: Final = 8


@cache
def _decoder() -> msgspec.json.Decoder[Message]:
    """Return the decoder. The first read makes it: that takes a while, and most starts read no messages."""
    return msgspec.json.Decoder(Message)


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
        self._leases = leases
        self._turns: dict[str, str] = {}
        """The lease of each turn that this process runs, by session. A turn can write only while it has this lease."""
        self._artifacts = artifacts
        self._lost_ends: dict[str, EndOwnTurn] = {}
        """Turns to end later, by session.

        The end of such a turn could not be stored, or the write of its begin failed and may be stored all the same.
        """
        self._clock = clock
        self._new: dict[str, SessionRecord] = {}
        """Sessions of a unit of work that is not committed yet."""

    async def create(
        self, *, owner: str, agent: str = "General", name: str = "", session: str | None = None
    ) -> SessionRecord:
        """Create an empty session and return it. `session`: its id; if the owner has this session, it is returned.

        Raises `NotYours` when another owner has a session of this id.
        """
        now, session_id = self._clock(), sanitize(session or os.urandom(16).hex())
        made = SessionRecord(session_id, sanitize(owner), sanitize(agent), sanitize(name), now, now, "idle", 0)
        unit = unit_around(self._database)
        if unit is None:
            return await self._database.write(partial(_create, made))
        self._new[session_id] = made  # the write finds out whether another owner has this id
        unit.add(partial(_create, made), lambda: self._new.pop(session_id, None))
        return made

    async def find(self, session: str, *, owner: str) -> SessionRecord | None:
        """Return this session, or None if it does not exist. Raises `NotYours` when another owner has it."""
        new = self._new.get(session)
        if new is not None and new.owner == sanitize(owner):
            return new
        return await self._database.read_few(partial(_find, session, owner))

    async def get(self, session: str, *, owner: str) -> SessionRecord:
        """Return this session, without its messages."""
        return await self._database.read_few(partial(get_session, session, owner))

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
        if after:  # mostly one or two messages are new since the last turn: to read them on a thread would cost more
            newer = await self._database.read_few(partial(load_messages, session, owner, after, limit=_FEW_MESSAGES))
            if len(newer) < _FEW_MESSAGES:
                return newer
        return await self._database.read(partial(load_messages, session, owner, after))

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        """Add messages, all or none.

        Raises `UnpairedCalls` or `RepliesInARow` when a message can't follow the one before it, `ToolError` (`busy`)
        when the session has another length than `after`.
        """
        for last, coming in itertools.pairwise(messages):
            check_next(last, coming)
        if messages:
            lease = self._turns.get(session)
            work = append_messages(session, messages, owner, self._clock(), after, cost, lease)
            await join_unit(self._database, work)

    def keep(
        self, session: str, message: Message, *, owner: str, after: int, cost: float | None = None
    ) -> asyncio.Future[None] | None:
        """Begin to `append` one message. Return the pending write, or None if the unit of work acknowledges it."""
        lease, unit = self._turns.get(session), unit_around(self._database)
        work = append_messages(session, (message,), owner, self._clock(), after, cost, lease)
        if unit is None:
            return self._database.write(work)
        unit.add(work)
        return None

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Remove the messages after this sequence number. Their calls stay in the journal, their cost in the sums."""
        await self._database.write(partial(_rewind, session, length, owner, self._turns.get(session)))

    async def ends(self, session: str, *, owner: str, after: int = 0) -> dict[int, TurnEnd]:
        """Return how turns ended, by the sequence numbers of their last messages, from `after` on."""

        async def work(connection: TableConnection) -> dict[int, TurnEnd]:
            return await read_ends(await get_session(session, owner, connection), after, connection)

        return {} if session in self._new else await self._database.read_few(work)

    async def begin_turn(self, session: str, *, owner: str) -> SessionRecord:
        """Mark the session as running and return it. Raises `ToolError` (`busy`) when it runs already.

        Inside a unit of work the error may come only from the commit; then nothing of the unit is stored.
        """
        if self._lost_ends:
            await self.end_lost_turns()
        lease = self._leases.own
        work, unit = BeginTurn(session, owner, lease, self._clock()), unit_around(self._database)
        if unit is None:
            begun = await self._write_begin(work, session, EndOwnTurn(session, owner, None, lease))
        else:
            begun = self._new.get(session) or await self.get(session, owner=owner)
            check_not_running(begun)
            unit.add(work)
        self._turns[session] = lease
        return begun

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False, end: TurnEnd | None = None) -> None:
        """Mark the session as idle, or as `waiting` for results of its open calls.

        `end`: how the turn ended, stored with the last message; None after a whole answer.
        """
        state: SessionState = "waiting" if waiting else "idle"
        lease = self._turns.pop(session, None)
        try:
            await join_unit(self._database, EndTurn(session, owner, state, lease, end))
            if (unit := unit_around(self._database)) is not None:
                await unit.flush()  # the next turn may run in a process that reads the database
        except StoreError:
            # The rest of the unit may have been too large. Its end is stored alone: else the next turn could not begin.
            self._lost_ends[session] = EndOwnTurn(session, owner, state, lease or self._leases.own, end)
            with contextlib.suppress(StoreError):
                await self.end_lost_turns()
            raise

    async def hand_over(self, session: str, *, owner: str) -> None:
        """Give up the turn of this process, or a turn that waits, without ending it: another process goes on with it.

        Until a process does so, the session counts as running. Does nothing while another process runs the turn.
        """
        lease = self._turns.pop(session, None) or self._leases.own
        if (unit := unit_around(self._database)) is not None:
            await unit.flush()  # it may have the begin of the turn
        await self._database.execute(_HAND_OVER, (sanitize(session), sanitize(owner), lease))

    async def take_over_turn(self, session: str, *, owner: str) -> SessionRecord | None:
        """Take over a turn that was handed over, with its lease, and return the session; None if no such turn waits."""
        lease = self._leases.own
        key = (sanitize(session), sanitize(owner))

        async def work(connection: TableConnection) -> Row | None:
            return await connection.fetch_one(_TAKE_TURN, (lease, *key))

        row = await self._write_begin(work, session, EndOwnTurn(session, owner, "running", lease))
        if row is None:
            return None
        self._turns[session] = lease
        return SessionRecord(*row)

    async def _write_begin(self, work: Work[_T], session: str, end: "EndOwnTurn") -> _T:
        """Write the begin of a turn, and return what the work returns.

        A write that fails may be stored all the same: `end` takes it back later.
        """
        try:
            return await self._database.write(work)
        except StoreError:
            self._lost_ends[session] = end
            raise

    async def handed_over(self) -> Sequence[tuple[str, str]]:
        """Return session and owner of the turns that were handed over, and that no process runs yet."""
        rows = await self._database.fetch_all(f"SELECT id, owner FROM sessions WHERE {_HANDED_OVER}")
        return [(session, owner) for session, owner in rows]

    async def end_lost_turns(self) -> None:
        """Store the ends of turns that ended while the store took no writes. Raises `StoreError`."""
        for session in tuple(self._lost_ends):
            if session in self._lost_ends:  # else another caller was faster, and the next turn may have begun
                await self._database.write(self._lost_ends[session])
                self._lost_ends.pop(session, None)

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        """Change the name."""
        await self._change("name = ?", (sanitize(name),), session, owner)

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        """Name a session that has no name. Return False if it has one; inside a unit of work return always True."""
        sql = "UPDATE sessions SET name = ? WHERE id = ? AND owner = ? AND name = ''"
        values = (sanitize(name), sanitize(session), sanitize(owner))
        unit = unit_around(self._database)
        if unit is None:
            return await self._database.execute(sql, values) == 1
        unit.add(lambda connection: connection.execute(sql, values))
        return True

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        """Continue this session with another agent, and with that agent's own skills."""
        await self._change("agent = ?, skills = NULL", (sanitize(agent),), session, owner)

    async def choose_skills(self, session: str, skills: Sequence[str], *, owner: str) -> None:
        """Store which skills are on in this session, in place of its agent's own skills."""
        await self._change("skills = ?", (sanitize("\n".join(skills)),), session, owner)

    async def delete(self, session: str, *, owner: str) -> None:
        """Remove the session with everything in it. Only people delete sessions: they have no retention (SPEC S6).

        Raises `ToolError` (`busy`) while a turn runs. A cancelled caller waits for the end of the removal, too.
        """
        await finish(self._delete(session, owner))

    async def _delete(self, session: str, owner: str) -> None:
        """Mark the session as running, so that no turn begins meanwhile; then remove everything."""
        if self._lost_ends:
            await self.end_lost_turns()
        check_not_running(await self.get(session, owner=owner))
        lease = self._leases.own
        release = EndOwnTurn(session, owner, None, lease)
        await self._write_begin(BeginTurn(session, owner, lease, self._clock()), session, release)
        try:
            # The artifacts go first: if that fails, the session can still be deleted.
            await self._artifacts.forget_session(session, owner=owner)
            await self._database.write(partial(_delete, session, owner, lease))
        except Exception:  # any error: the session can be used again
            self._lost_ends[session] = release
            with contextlib.suppress(StoreError):
                await self.end_lost_turns()
            raise

    async def _change(self, assignment: str, values: Row, session: str, owner: str) -> None:
        await join_unit(self._database, partial(_update, assignment, values, session, owner))


class AppendMessages(Struct, frozen=True):
    """The work that adds messages to a session. Only the first message can be refused: `append` checks the others."""

    session: str
    owner: str
    messages: tuple[Message, ...]
    after: int | None
    rows: tuple[Row, ...]
    """For each message: its time, the calls that it opens, whether it is a reply, the session's id and owner, the calls
    that it answers, its body."""
    uses: tuple[Row | None, ...]
    """For each message: what a reply used, as the last values of `INSERT_USAGE`; None if it is no reply."""
    lease: str | None = None
    """The lease of the turn that adds the messages; None when no turn does."""

    async def __call__(self, connection: TableConnection) -> None:
        """Add them."""
        for place, (row, use) in enumerate(zip(self.rows, self.uses, strict=True)):
            at, opens, is_reply, session, owner, answered, body = row
            expected = None if self.after is None else self.after + place
            checks = (session, owner, answered, is_reply, expected, expected, self.lease, self.lease)
            extended = await connection.fetch_one(_EXTEND, (at, opens, is_reply, *checks))
            if extended is None:
                await check_lease(self.session, self.lease, connection)
                raise await _append_error(connection, self.session, self.owner, self.messages[0], self.after)
            seq, removed = extended
            await connection.execute(INSERT_MESSAGE, (session, seq, seq + removed, at, opens, body))
            if use is not None:
                await connection.execute(INSERT_USAGE, (session, seq, owner, *use))


def append_messages(
    session: str,
    messages: tuple[Message, ...],
    owner: str,
    at: float,
    after: int | None = None,
    cost: float | None = None,
    lease: str | None = None,
) -> AppendMessages:
    """Return the work that adds these messages."""
    key = (sanitize(session), sanitize(owner))
    rows, uses = [], []
    for message in messages:
        is_reply = type(message) is AssistantMessage
        rows.append((at, _open_ids(message), is_reply, *key, _answered_ids(message) or "", encode(message)))
        uses.append(usage_values(message, at, cost) if type(message) is AssistantMessage else None)
    return AppendMessages(session, owner, messages, after, tuple(rows), tuple(uses), lease)


class BeginTurn(Struct, frozen=True):
    """The work that marks a session as running and returns it."""

    session: str
    owner: str
    lease: str
    now: float

    async def __call__(self, connection: TableConnection) -> SessionRecord:
        """Mark it. Raises `ToolError` (`busy`) when it runs already."""
        values = (self.lease, self.now, sanitize(self.session), sanitize(self.owner))
        row = await connection.fetch_one(_BEGIN_TURN, values)
        if row is not None:
            return SessionRecord(*row)
        await get_session(self.session, self.owner, connection)
        raise _running_error(self.session)  # also when it does not run any more by now: this turn has not begun


class EndTurn(Struct, frozen=True):
    """The work that marks a session as idle, or as waiting, and stores how its turn ended."""

    session: str
    owner: str
    state: SessionState
    lease: str | None
    """The lease of the turn; None if it is not known. A turn that another process has taken over does not end."""
    end: TurnEnd | None = None
    """None: with a whole answer, or the turn goes on later."""

    async def __call__(self, connection: TableConnection) -> None:
        """Mark it. Raises `ToolError` (`file_not_found`) when the owner has no such session."""
        values = (self.state, sanitize(self.session), sanitize(self.owner), self.lease, self.lease)
        if await connection.execute(_END_TURN, values) == 0:
            await get_session(self.session, self.owner, connection)
        elif self.end is not None:
            await store_end(self.session, self.owner, self.end, connection)


class EndOwnTurn(Struct, frozen=True):
    """The work that ends a turn later, if the session still has its lease."""

    session: str
    owner: str
    state: SessionState | None
    """None: the state that the messages show."""
    lease: str
    end: TurnEnd | None = None

    async def __call__(self, connection: TableConnection) -> None:
        """End it."""
        values = (self.state, sanitize(self.session), sanitize(self.owner), self.lease)
        if await connection.execute(_END_OWN_TURN, values) and self.end is not None:
            await store_end(self.session, self.owner, self.end, connection)


async def get_session(session: str, owner: str, connection: TableConnection) -> SessionRecord:
    """Return the owner's session of this id. Raises `ToolError` (`file_not_found`) when the owner does not have it."""
    sql = f"SELECT {SESSION} FROM sessions WHERE id = ? AND owner = ?"
    row = await connection.fetch_one(sql, (sanitize(session), sanitize(owner)))
    if row is None:
        text = f"There is no session {session[:60]!r}: it was never made, is not yours, or was deleted."
        raise ToolError("file_not_found", text)
    return SessionRecord(*row)


async def load_messages(
    session: str, owner: str, after: int, connection: TableConnection, limit: int = ALL_ROWS
) -> list[Message]:
    """Return the messages of the owner's session. Raises `StoreError` when calls and results do not pair."""
    await get_session(session, owner, connection)
    sql = "SELECT body FROM messages WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = await connection.fetch_all(sql, (sanitize(session), after, limit))
    try:
        decode = _decoder().decode  # message by message: to join them first is not faster, and needs more memory
        messages = [decode(body) for (body,) in rows]
        # With `after`, the first message may answer a message that is not loaded.
        check_all(messages[1:] if after and messages and type(messages[0]) is ResultsMessage else messages)
    except (msgspec.DecodeError, UnpairedCalls) as error:
        raise StoreError(
            f"The messages of the session {session!r} are damaged: {error}. Delete it, or put a backup in place."
        ) from error
    return messages


async def _create(session: SessionRecord, connection: TableConnection) -> SessionRecord:
    """Enter a session, unless it exists. Return the stored one. Raises `NotYours` when another owner has it."""
    sql = f"INSERT INTO sessions ({SESSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
    if await connection.execute(sql, msgspec.structs.astuple(session)) == 1:
        return session
    return await _find(session.id, session.owner, connection) or session


async def _find(session: str, owner: str, connection: TableConnection) -> SessionRecord | None:
    row = await connection.fetch_one(f"SELECT {SESSION} FROM sessions WHERE id = ?", (sanitize(session),))
    found = None if row is None else SessionRecord(*row)
    if found is not None and found.owner != sanitize(owner):
        raise NotYours(session)
    return found


async def check_lease(session: str, lease: str | None, connection: TableConnection) -> None:
    """Raise `TakenOver` when another process has taken over the turn with this lease."""
    sql = "SELECT run FROM sessions WHERE id = ?"
    if lease is not None and await connection.fetch_value(sql, (sanitize(session),)) != lease:
        raise TakenOver(session)


async def _rewind(session: str, length: int, owner: str, lease: str | None, connection: TableConnection) -> None:
    found = await get_session(session, owner, connection)
    await check_lease(session, lease, connection)
    if found.length <= length:
        return
    await drop_messages(found.id, length + 1, found.length, connection)
    await set_length(found.id, length, connection)


async def drop_messages(session: str, first: int, last: int, connection: TableConnection) -> None:
    """Delete these messages; the cost of their replies still counts. Call `set_length` in the same transaction."""
    await clear_end_before(session, first, connection)
    # Later messages get these sequence numbers again: so the usage rows move to numbers below all others.
    lowest = min(0, await connection.fetch_value("SELECT MIN(seq) FROM usage WHERE session = ?", (session,)) or 0)
    these = (session, first, last)
    await connection.execute(
        "UPDATE usage SET seq = ? - seq WHERE session = ? AND seq BETWEEN ? AND ?", (lowest, *these)
    )
    await connection.execute("DELETE FROM messages WHERE session = ? AND seq BETWEEN ? AND ?", these)


async def set_length(session: str, length: int, connection: TableConnection) -> None:
    """Set the number of messages, and what the session's row says of the last one: its calls, and if it is a reply."""
    last = await connection.fetch_one(_LAST, (session, length))
    opens, begin = last or (None, b"")
    await connection.execute(_REWIND, (length, length, opens, bytes(begin) == _REPLY_BEGINS, session))


async def _update(assignment: str, values: Row, session: str, owner: str, connection: TableConnection) -> None:
    sql = f"UPDATE sessions SET {assignment} WHERE id = ? AND owner = ?"
    if await connection.execute(sql, (*values, sanitize(session), sanitize(owner))) == 0:
        await get_session(session, owner, connection)


async def _delete(session: str, owner: str, lease: str, connection: TableConnection) -> None:
    await get_session(session, owner, connection)
    await check_lease(session, lease, connection)
    for table in ("messages", "usage", "calls", "questions"):
        await connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    await connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


def check_not_running(session: SessionRecord) -> None:
    """Raise `ToolError` (`busy`) while a turn of this session runs."""
    if session.state == "running":
        raise _running_error(session.id)


def _running_error(session: str) -> ToolError:
    return ToolError("busy", f"The session {session!r} is running: wait for its turn to end, or stop it.")


async def _append_error(
    connection: TableConnection, session: str, owner: str, message: Message, after: int | None
) -> Exception:
    """Return the reason why a message could not be added."""
    found = await get_session(session, owner, connection)
    if after is not None and found.length != after:
        text = f"The session {session!r} has {found.length} messages and not {after}: load what was added meanwhile."
        return ToolError("busy", text)
    sql = "SELECT open_calls FROM sessions WHERE id = ?"
    open_calls = await connection.fetch_value(sql, (found.id,))
    if open_calls is None and type(message) is AssistantMessage:
        return RepliesInARow(f"the session {session!r} ends with an assistant message: another one can't follow it")
    answers = _answered_ids(message) or "nothing"
    return UnpairedCalls(f"a message that answers {answers} can't follow one that asks for {open_calls or 'nothing'}")


def _open_ids(message: Message) -> str | None:
    """Return the ids of the calls that the next message has to answer, as JSON."""
    calls = message.calls if type(message) is AssistantMessage else ()
    return _encode_ids([call.id for call in calls]) if calls else None


def _answered_ids(message: Message) -> str | None:
    return _encode_ids([result.call_id for result in message.results]) if type(message) is ResultsMessage else None


def _encode_ids(ids: list[str]) -> str:
    return encode(ids).decode()
