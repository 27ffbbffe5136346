"""Sessions and their messages as rows; at an append the session's lease is checked (SPEC A2, M4).

Messages are only appended, and results follow their calls. A turn whose session another process has taken over can
append no more: `check_lease` refuses it.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct

from handspan.core.budgets import Settlement
from handspan.core.errors import StoreError, TakenOver
from handspan.core.events import TurnEnd
from handspan.core.messages import Message, check_next
from handspan.core.records import (
    ALL_SESSIONS,
    DatedMessage,
    SessionEdit,
    SessionFilter,
    SessionKind,
    SessionPage,
    SessionRecord,
    SessionState,
    Version,
)
from handspan.core.store import ArtifactStore, Leases
from handspan.core.tasks import finish
from handspan.core.values import sanitize
from handspan.store.tables.budgets import Settle
from handspan.store.tables.database import (
    AllWorks,
    Database,
    TableConnection,
    WaitingWork,
    Work,
    join_unit,
    unit_around,
)
from handspan.store.tables.messages import AppendMessages, append_messages, load_dated, load_messages
from handspan.store.tables.rows import PageCursor, Row, clamp_limit, missing
from handspan.store.tables.sessions import (
    SESSION,
    check_not_running,
    create_session,
    edit_session,
    filter_terms,
    find_session,
    get_session,
    session_of,
    update_session,
)
from handspan.store.tables.turns import (
    HAND_OVER,
    HANDED_OVER,
    TAKE_OVER,
    BeginTurn,
    EndTurn,
    check_lease,
    read_ends,
)
from handspan.store.tables.versions import choose_version, list_versions, load_left, rewind

_T = TypeVar("_T")

_FEW_MESSAGES: Final = 8
_RESTORE: Final = (
    "UPDATE sessions SET deleted_at = NULL WHERE id = ? AND owner = ? AND deleted_at IS NOT NULL"
    f" AND state <> 'running' RETURNING {SESSION}"  # a running one is being removed
)
_CLAIM: Final = (
    "UPDATE sessions SET state = 'running', run = ? WHERE id = ? AND owner = ? AND deleted_at <= ?"
    " AND (state <> 'running' OR run IS NULL)"
)


class StoredConversations:
    """Stores sessions. Implements `Conversations`."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        artifacts: ArtifactStore,
        clock: Callable[[], float],
        most_versions: int,
        undo_seconds: float,
    ) -> None:
        """`most_versions`: how many versions of a session stay beside the current one.

        `undo_seconds`: how long a session can be restored that was deleted with `undo`.
        """
        self._database = database
        self._leases = leases
        self._turns: dict[str, str] = {}
        """The lease of each turn that this process runs, by session. A turn can write only while it has this lease."""
        self._artifacts = artifacts
        self._lost_ends: dict[str, EndTurn] = {}
        """Turns to end later, by session.

        The end of such a turn could not be stored, or the write of its begin failed and may be stored all the same.
        """
        self._clock = clock
        self._most_versions = most_versions
        self._undo_seconds = undo_seconds
        self._new: dict[str, SessionRecord] = {}
        """Sessions of a unit of work that is not committed yet."""

    async def create(
        self,
        *,
        owner: str,
        agent: str = "General",
        name: str = "",
        session: str | None = None,
        kind: SessionKind = "chat",
    ) -> SessionRecord:
        """Make a session: at once, or as part of the unit of work around the caller."""
        now, session_id = self._clock(), sanitize(session or os.urandom(16).hex())
        made = SessionRecord(
            session_id,
            sanitize(owner),
            sanitize(agent),
            sanitize(name),
            created=now,
            active=now,
            state="idle",
            length=0,
            kind=kind,
        )
        unit = unit_around(self._database)
        if unit is None:
            return await self._database.write(partial(create_session, made))
        self._new[session_id] = made  # the write finds out whether another owner has this id
        unit.add(partial(create_session, made), lambda: self._new.pop(session_id, None))
        return made

    async def find(self, session: str, *, owner: str) -> SessionRecord | None:
        new = self._new.get(session)
        if new is not None and new.owner == sanitize(owner):
            return new
        return await self._database.read_few(partial(find_session, session, owner))

    async def get(self, session: str, *, owner: str) -> SessionRecord:
        return await self._database.read_few(partial(get_session, session, owner))

    async def page(
        self, wanted: SessionFilter = ALL_SESSIONS, *, owner: str, limit: int = 50, after: str | None = None
    ) -> SessionPage:
        """Return a page of the wanted sessions of the owner, the one used last first."""
        cursor, limit = PageCursor.parse(after), clamp_limit(limit)
        terms, given = filter_terms(wanted)
        # Few are pinned or archived: they have indexes of their own, which have no `active`. So no message moves them,
        # and the `+` keeps a database from the index that has it.
        active = "+active" if wanted.pinned or wanted.archived else "active"
        sql = (
            f"SELECT {SESSION} FROM sessions WHERE owner = ? AND ({active}, id) < (?, ?) AND deleted_at IS NULL{terms}"
            f" ORDER BY {active} DESC, id DESC LIMIT ?"
        )
        values = (sanitize(owner), cursor.at, cursor.id, *given, limit + 1)
        rows = await self._database.fetch_all(sql, values)
        found = tuple(session_of(row) for row in rows[:limit])
        return SessionPage(found, str(PageCursor(found[-1].active, found[-1].id)) if len(rows) > limit else None)

    async def load(self, session: str, *, owner: str, after: int = 0) -> list[Message]:
        if session in self._new:
            return []
        if after:  # mostly one or two messages are new since the last turn: to read them on a thread would cost more
            newer = await self._database.read_few(partial(load_messages, session, owner, after, limit=_FEW_MESSAGES))
            if len(newer) < _FEW_MESSAGES:
                return newer
        return await self._database.read(partial(load_messages, session, owner, after))

    async def load_dated(self, session: str, *, owner: str, after: int = 0) -> list[DatedMessage]:
        if session in self._new:
            return []
        return await self._database.read(partial(load_dated, session, owner, after))

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        for last, coming in itertools.pairwise(messages):
            check_next(last, coming)
        if messages:
            work = self._append(session, messages, owner, after=after, cost=cost)
            await join_unit(self._database, work)  # with the caller's unit of work, else at once

    def keep(
        self,
        session: str,
        message: Message,
        *,
        owner: str,
        after: int,
        cost: float | None = None,
        settles: Sequence[Settlement] = (),
    ) -> asyncio.Future[None] | None:
        """Begin to store a message, and what its request did cost. Return None inside a unit of work, which does it."""
        work: Work[None] = self._append(session, (message,), owner, after=after, cost=cost)
        if settles:
            work = WaitingWork(AllWorks((work, Settle(tuple(settles)))))
        unit = unit_around(self._database)
        if unit is None:
            return self._database.write(work)
        unit.add(work)
        return None

    def _append(
        self, session: str, messages: tuple[Message, ...], owner: str, *, after: int | None, cost: float | None
    ) -> AppendMessages:
        """Return the work that adds these messages with the lease of the session's turn."""
        lease = self._turns.get(session)
        return append_messages(session, messages, owner, self._clock(), after=after, cost=cost, lease=lease)

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Leave the messages after this length as a version."""
        lease, now = self._turns.get(session), self._clock()

        async def work(connection: TableConnection) -> None:
            found = await get_session(session, owner, connection)
            await check_lease(session, lease, connection)
            if length < found.length:
                await rewind(found, length, connection, at=now, most=self._most_versions)

        await self._database.write(work)

    async def versions(self, session: str, *, owner: str) -> list[Version]:
        return await self._database.read(partial(list_versions, session, owner))

    async def left_messages(
        self, session: str, *, owner: str, branch: int | None = None
    ) -> dict[int, list[DatedMessage]]:
        """Return the messages of the versions that were left, by branch."""
        return await self._database.read(partial(load_left, session, owner, branch))

    async def choose_version(self, session: str, branch: int, *, owner: str) -> None:
        lease = self._turns.get(session)
        await self._database.write(partial(choose_version, session, branch, owner, lease, self._clock()))

    async def ends(self, session: str, *, owner: str, after: int = 0) -> dict[int, TurnEnd]:
        async def work(connection: TableConnection) -> dict[int, TurnEnd]:
            return await read_ends(await get_session(session, owner, connection), after, connection)

        return {} if session in self._new else await self._database.read_few(work)

    async def begin_turn(self, session: str, *, owner: str) -> SessionRecord:
        """Claim the session for a turn, with the lease of this process: at once, or in the unit of work."""
        if self._lost_ends:
            await self.end_lost_turns()
        lease = self._leases.own
        work, unit = BeginTurn(session, owner, lease, self._clock()), unit_around(self._database)
        if unit is None:
            begun = await self._write_begin(work, EndTurn(session, owner, None, lease, is_late=True))
        else:
            begun = self._new.get(session) or await self.get(session, owner=owner)
            check_not_running(begun)
            unit.add(work)
        self._turns[session] = lease
        return begun

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False, end: TurnEnd | None = None) -> None:
        """Give the session free, and store how the turn ended. An end that can't be stored is tried again later."""
        state: SessionState = "waiting" if waiting else "idle"
        lease = self._turns.pop(session, None)
        try:
            await join_unit(self._database, EndTurn(session, owner, state, lease, end=end))
            if (unit := unit_around(self._database)) is not None:
                await unit.flush()  # the next turn may run in a process that reads the database
        except StoreError:
            # The rest of the unit may have been too large. Its end is stored alone: else the next turn could not begin.
            lost = EndTurn(session, owner, state, lease or self._leases.own, end=end, is_late=True)
            self._lost_ends[session] = lost
            with contextlib.suppress(StoreError):
                await self.end_lost_turns()
            raise

    async def hand_over(self, session: str, *, owner: str) -> None:
        lease = self._turns.pop(session, None) or self._leases.own
        if (unit := unit_around(self._database)) is not None:
            await unit.flush()  # it may have the begin of the turn
        await self._database.execute(HAND_OVER, (sanitize(session), sanitize(owner), lease))

    async def take_over_turn(self, session: str, *, owner: str) -> SessionRecord | None:
        """Claim a turn that was handed over. Return None if another process has it, or it is over."""
        lease = self._leases.own
        key = (sanitize(session), sanitize(owner))

        async def work(connection: TableConnection) -> Row | None:
            return await connection.fetch_one(TAKE_OVER, (lease, *key))

        row = await self._write_begin(work, EndTurn(session, owner, "running", lease, is_late=True))
        if row is None:
            return None
        self._turns[session] = lease
        return session_of(row)

    async def _write_begin(self, work: Work[_T], end: EndTurn) -> _T:
        """Write the begin of a turn, and return what the work returns.

        A write that fails may be stored all the same: `end` takes it back later.
        """
        try:
            return await self._database.write(work)
        except StoreError:
            self._lost_ends[end.session] = end
            raise

    async def handed_over_turns(self) -> Sequence[tuple[str, str]]:
        rows = await self._database.fetch_all(f"SELECT id, owner FROM sessions WHERE {HANDED_OVER}")
        return [(session, owner) for session, owner in rows]

    async def end_lost_turns(self) -> None:
        """Store the ends of turns that ended while the store took no writes. Raises `StoreError`."""
        for session in tuple(self._lost_ends):
            if session in self._lost_ends:  # else another caller was faster, and the next turn may have begun
                await self._database.write(self._lost_ends[session])
                self._lost_ends.pop(session, None)

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        await self.edit(session, SessionEdit(name=name), owner=owner)

    async def edit(self, session: str, edit: SessionEdit, *, owner: str) -> None:
        await join_unit(self._database, partial(edit_session, session, edit, owner))

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        sql = "UPDATE sessions SET name = ?, name_indexed = FALSE WHERE id = ? AND owner = ? AND name = ''"
        values = (sanitize(name), sanitize(session), sanitize(owner))
        unit = unit_around(self._database)
        if unit is None:
            return await self._database.execute(sql, values) == 1
        unit.add(lambda connection: connection.execute(sql, values))
        return True

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        await self._change("agent = ?, skills = NULL", (sanitize(agent),), session, owner)

    async def choose_skills(self, session: str, skills: Sequence[str], *, owner: str) -> None:
        await self._change("skills = ?", (sanitize("\n".join(skills)),), session, owner)

    async def find_idle(self, prefix: str, before: float) -> Sequence[tuple[str, str]]:
        idle = "state = 'idle' AND deleted_at IS NULL"
        sql = f"SELECT id, owner FROM sessions WHERE id LIKE ? AND {idle} AND active < ? LIMIT 100"
        rows = await self._database.fetch_all(sql, (f"{prefix}%", before))
        return [(session, owner) for session, owner in rows]

    async def delete(
        self, session: str, *, owner: str, undo: bool = False, keeps_records: bool = False
    ) -> float | None:
        if undo and self._undo_seconds > 0:
            return await self._hide(session, owner)
        # A cancelled caller waits for the end of the removal, too.
        await finish(self._delete(session, owner, keeps_records=keeps_records))
        return None

    async def restore(self, session: str, *, owner: str) -> SessionRecord:
        """Take the deletion of a session back, and return it. Raises `ToolError` when it is gone."""
        key = (sanitize(session), sanitize(owner))

        async def work(connection: TableConnection) -> Row | None:
            return await connection.fetch_one(_RESTORE, key)

        row = await self._database.write(work)
        if row is None:
            raise missing("session", session)
        return session_of(row)

    async def deleted(self, *, owner: str) -> Sequence[str]:
        sql = "SELECT id FROM sessions WHERE deleted_at IS NOT NULL AND owner = ?"
        return [session for (session,) in await self._database.fetch_all(sql, (sanitize(owner),))]

    async def remove_deleted(self) -> int:
        """Remove the deleted sessions whose time is over. Those that another node removes are left to that node."""
        until = self._clock() - self._undo_seconds
        sql = "SELECT id, owner FROM sessions WHERE deleted_at IS NOT NULL AND deleted_at <= ?"
        count = 0
        for session, owner in await self._database.fetch_all(sql, (until,)):
            claim = _ClaimDeleted(session, owner, self._leases.own, until)
            with contextlib.suppress(TakenOver):
                await finish(self._remove(session, owner, claim))
                count += 1
        return count

    async def _hide(self, session: str, owner: str) -> float:
        """Mark the session as deleted, and return until when it can be restored."""
        if self._lost_ends:
            await self.end_lost_turns()
        now = self._clock()

        async def work(connection: TableConnection) -> None:
            check_not_running(await get_session(session, owner, connection))
            await connection.execute("UPDATE sessions SET deleted_at = ? WHERE id = ?", (now, sanitize(session)))

        await self._database.write(work)
        return now + self._undo_seconds

    async def _delete(self, session: str, owner: str, *, keeps_records: bool) -> None:
        """Mark the session as running, so that no turn begins meanwhile; then remove everything."""
        if self._lost_ends:
            await self.end_lost_turns()
        check_not_running(await self.get(session, owner=owner))
        claim = BeginTurn(session, owner, self._leases.own, self._clock())
        await self._remove(session, owner, claim, keeps_records=keeps_records)

    async def _remove(self, session: str, owner: str, claim: Work[Any], *, keeps_records: bool = False) -> None:
        """Remove the session. `claim`: marks it as running."""
        lease = self._leases.own
        release = EndTurn(session, owner, None, lease, is_late=True)
        await self._write_begin(claim, release)
        try:
            # The artifacts go first: if that fails, the session can still be deleted.
            await self._artifacts.forget_session(session, owner=owner)
            await self._database.write(partial(_delete, session, lease, keeps_records=keeps_records))
        except Exception:  # any error: the session can be used again
            self._lost_ends[session] = release
            with contextlib.suppress(StoreError):
                await self.end_lost_turns()
            raise

    async def _change(self, assignment: str, values: Row, session: str, owner: str) -> None:
        await join_unit(self._database, partial(update_session, assignment, values, session, owner))


class _ClaimDeleted(Struct, frozen=True):
    """The work that marks a deleted session as running, so that it can be removed. Raises `TakenOver` if it can't."""

    session: str
    owner: str
    lease: str
    until: float

    async def __call__(self, connection: TableConnection) -> None:
        if await connection.execute(_CLAIM, (self.lease, self.session, self.owner, self.until)) == 0:
            raise TakenOver(self.session)


async def _delete(session: str, lease: str, connection: TableConnection, *, keeps_records: bool = False) -> None:
    await check_lease(session, lease, connection)
    key = (sanitize(session),)
    tables = ("messages", "left_messages", "context_marks", "searched", "questions", "responses")
    for table in (*tables, *(() if keeps_records else ("usage", "calls"))):
        await connection.execute(f"DELETE FROM {table} WHERE session = ?", key)
    if keeps_records:  # no turn goes on with a call that is open, so it would stay open for ever
        await connection.execute("DELETE FROM calls WHERE session = ? AND state <> 'done'", key)
    await connection.execute("DELETE FROM sessions WHERE id = ?", key)
