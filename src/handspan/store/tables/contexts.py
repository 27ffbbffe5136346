"""What models see of long conversations, as rows: marks, and the windows of models (SPEC L1).

A row of marks counts while its message is in the conversation. So going back to before that message finds older marks
or none, and a version that is chosen again has its own.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from handspan.core.messages import AssistantMessage, CallResult, ResultsMessage
from handspan.core.records import ContextMarks, SessionRecord
from handspan.core.store import Leases
from handspan.core.values import sanitize
from handspan.store.tables.database import Database, TableConnection, join_unit
from handspan.store.tables.messages import decoder
from handspan.store.tables.rows import Row
from handspan.store.tables.sessions import find_session, get_session
from handspan.store.tables.turns import check_lease
from handspan.store.tables.usage import INSERT_USAGE, usage_values

DROP_MARKS: Final = "DELETE FROM context_marks WHERE session = ?"
_MARKS: Final = (
    "SELECT marks.short, marks.summarized, marks.made, marks.room, marks.at, marks.summary FROM context_marks AS marks"
    " JOIN messages ON messages.session = marks.session AND messages.number = marks.number"
    " AND messages.seq BETWEEN marks.number - ?/*bigint*/ AND marks.number WHERE marks.session = ?"
)
_NUMBER: Final = "SELECT number FROM messages WHERE session = ? AND seq = ?"
# Numbers grow with sequence numbers, and are greater by the count of removed messages at most.
_SEQ: Final = (
    "SELECT MAX(seq) FROM messages WHERE session = ? AND seq BETWEEN ?/*bigint*/ AND ?/*bigint*/ AND number <= ?"
)
_SET: Final = (
    "INSERT INTO context_marks (session, number, short, summarized, made, room, at, summary)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, number) DO UPDATE SET short = excluded.short,"
    " summarized = excluded.summarized, made = excluded.made, room = excluded.room, at = excluded.at,"
    " summary = excluded.summary"
)
_NOTE_MOVE: Final = "UPDATE sessions SET compacted = compacted + 1 WHERE id = ?"
_RESULTS: Final = (
    "SELECT results.body FROM messages AS calls JOIN sessions ON sessions.id = calls.session AND sessions.owner = ?"
    " JOIN messages AS results ON results.session = calls.session AND results.seq = calls.seq + 1"
    " WHERE calls.session = ? AND calls.opens LIKE ?"
)
_LAST_COUNT: Final = (
    "SELECT input + output FROM usage WHERE session = ? AND owner = ? AND seq > 0 ORDER BY seq DESC LIMIT 1"
)
_LEARN: Final = (
    "INSERT INTO model_windows (model, tokens) VALUES (?, ?) ON CONFLICT (model) DO UPDATE SET tokens = excluded.tokens"
)


class StoredContexts:
    """Stores marks and windows. Implements `ContextBook`."""

    def __init__(self, database: Database, leases: Leases, clock: Callable[[], float]) -> None:
        self._database = database
        self._leases = leases
        self._clock = clock

    async def marks(self, session: str, *, owner: str) -> ContextMarks:
        found = await self._database.read_few(
            partial(_load_marks, session, owner, " ORDER BY marks.number DESC LIMIT 1")
        )
        return found[0] if found else ContextMarks()

    async def summaries(self, session: str, *, owner: str) -> Sequence[ContextMarks]:
        only = " AND marks.summary <> '' ORDER BY marks.number"
        return await self._database.read(partial(_load_marks, session, owner, only))

    async def set_marks(self, session: str, marks: ContextMarks, *, owner: str) -> None:
        """Store marks by the numbers of their messages, which no other message gets."""
        lease, at = self._leases.own, self._clock()

        async def work(connection: TableConnection) -> None:
            found = await get_session(session, owner, connection)
            await check_lease(session, lease, connection)
            places = (max(marks.short, marks.summarized), marks.short, marks.summarized, marks.made)
            numbers = [await connection.fetch_value(_NUMBER, (found.id, seq)) if seq else 0 for seq in places]
            await connection.execute(_SET, (found.id, *numbers, marks.room, at, sanitize(marks.summary)))
            await connection.execute(_NOTE_MOVE, (found.id,))

        await join_unit(self._database, work)

    async def count_summary(self, session: str, reply: AssistantMessage, cost: float | None, *, owner: str) -> None:
        """Count a reply that is no message: its row has a number below those of all messages."""
        values = usage_values(reply, self._clock(), cost)

        async def work(connection: TableConnection) -> None:
            found = await get_session(session, owner, connection)
            lowest = await connection.fetch_value("SELECT MIN(seq) FROM usage WHERE session = ?", (found.id,))
            await connection.execute(INSERT_USAGE, (found.id, min(0, lowest or 0) - 1, found.owner, *values))

        await join_unit(self._database, work)

    async def find_result(self, session: str, call_id: str, *, owner: str) -> CallResult | None:
        values = (sanitize(owner), sanitize(session), f'%"{sanitize(call_id)}"%')
        for (body,) in await self._database.fetch_all(_RESULTS, values):
            message = decoder().decode(body)
            results = message.results if isinstance(message, ResultsMessage) else ()
            if (found := next((one for one in results if one.call_id == call_id), None)) is not None:
                return found
        return None

    async def last_count(self, session: str, *, owner: str) -> int | None:
        rows = await self._database.fetch_all(_LAST_COUNT, (sanitize(session), sanitize(owner)))
        count: int | None = rows[0][0] if rows else None
        return count

    async def windows(self) -> Mapping[str, int]:
        return dict(await self._database.fetch_all("SELECT model, tokens FROM model_windows"))

    async def learn_window(self, model: str, tokens: int) -> None:
        await self._database.execute(_LEARN, (sanitize(model), tokens))


async def forget_marks(session: str, seq: int, connection: TableConnection) -> None:
    """Delete the marks that may stand for this message: a summary must not keep what a person deletes."""
    number = await connection.fetch_value(_NUMBER, (session, seq))
    await connection.execute(f"{DROP_MARKS} AND number >= ?", (session, number))


async def _load_marks(session: str, owner: str, which: str, connection: TableConnection) -> list[ContextMarks]:
    """Return the marks that count now; none for a session that is not stored yet."""
    found = await find_session(session, owner, connection)
    if found is None or not found.compacted:
        return []
    rows = await connection.fetch_all(_MARKS + which, (found.removed, found.id))
    return [await _read_marks(found, row, connection) for row in rows]


async def _read_marks(session: SessionRecord, row: Row, connection: TableConnection) -> ContextMarks:
    """Return these marks with sequence numbers in place of numbers."""
    short, summarized, made, room, at, summary = row
    seqs = []
    for number in (short, summarized, made):
        values = (session.id, number - session.removed, number, number)
        seqs.append((await connection.fetch_value(_SEQ, values) or 0) if number else 0)
    return ContextMarks(seqs[0], seqs[1], summary, made=seqs[2], room=room, at=at)
