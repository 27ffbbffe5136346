"""Turns as columns of their session: how they begin, end and change their process, and how they ended (SPEC L7).

The lease of a turn is in the column `run`. The end of a turn is a column of its last message: it moves, and goes, with
that message. A turn that ended with its whole answer has none, so a plain turn costs nothing more.
"""

from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import StoreError, TakenOver
from handspan.core.events import TurnEnd
from handspan.core.records import SessionRecord, SessionState
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import TableConnection
from handspan.store.tables.sessions import SESSION, get_session, running_error, session_of

_BEGIN: Final = (
    "UPDATE sessions SET state = 'running', run = ?, active = ? WHERE id = ? AND owner = ? AND deleted_at IS NULL"
    f" AND (state <> 'running' OR run IS NULL) RETURNING {SESSION}"
)
# Without a given state, the session gets the state that its messages show.
_END: Final = (
    "UPDATE sessions SET run = NULL,"
    " state = COALESCE(?/*text*/, CASE WHEN open_calls IS NULL THEN 'idle' ELSE 'waiting' END)"
    " WHERE id = ? AND owner = ? AND (?/*text*/ IS NULL OR run = ?)"
)
HANDED_OVER: Final = "state = 'running' AND run IS NULL"
"""Whether a turn was handed over: it runs in no process."""
HAND_OVER: Final = (
    "UPDATE sessions SET state = 'running', run = NULL WHERE id = ? AND owner = ?"
    " AND (state = 'waiting' OR (state = 'running' AND run = ?))"
)
TAKE_OVER: Final = f"UPDATE sessions SET run = ? WHERE id = ? AND owner = ? AND {HANDED_OVER} RETURNING {SESSION}"
_SET_END: Final = (
    "UPDATE messages SET ended = ? WHERE session = ? AND seq = (SELECT length FROM sessions WHERE id = ? AND owner = ?)"
)
# With the kind of the next message: if that is no person's, the turn went on.
_READ_ENDS: Final = (
    "SELECT ends.seq, ends.ended, substr(following.body, 10, 4) FROM messages AS ends"
    " LEFT JOIN messages AS following ON following.session = ends.session AND following.seq = ends.seq + 1"
    " WHERE ends.session = ? AND ends.seq >= ? AND ends.ended IS NOT NULL ORDER BY ends.seq"
)
_PERSON: Final = b"user"
# The end of a turn that went on with the message `seq`.
_CLEAR_END: Final = (
    "UPDATE messages SET ended = NULL WHERE session = ? AND seq = ? AND ended IS NOT NULL AND EXISTS ("
    "SELECT 1 FROM messages AS following WHERE following.session = ? AND following.seq = ?"
    " AND substr(following.body, 10, 4) <> ?)"
)


class BeginTurn(Struct, frozen=True):
    """The work that marks a session as running and returns it. Raises `ToolError` (`busy`) when it runs already."""

    session: str
    owner: str
    lease: str
    now: float

    async def __call__(self, connection: TableConnection) -> SessionRecord:
        values = (self.lease, self.now, sanitize(self.session), sanitize(self.owner))
        row = await connection.fetch_one(_BEGIN, values)
        if row is not None:
            return session_of(row)
        await get_session(self.session, self.owner, connection)
        raise running_error(self.session)  # also when it does not run any more by now: this turn has not begun


class EndTurn(Struct, frozen=True):
    """The work that ends a turn, and stores how it ended.

    Raises `ToolError` (`file_not_found`) when the owner has no such session.
    """

    session: str
    owner: str
    state: SessionState | None
    """The state of the session from now on; None: the state that the messages show."""
    lease: str | None
    """The lease of the turn; None if it is not known. A turn that another process has taken over does not end."""
    end: TurnEnd | None = None
    """None: with a whole answer, or the turn goes on later."""
    is_late: bool = False
    """Whether an earlier try failed: by now the session may be gone."""

    async def __call__(self, connection: TableConnection) -> None:
        values = (self.state, sanitize(self.session), sanitize(self.owner), self.lease, self.lease)
        has_ended = await connection.execute(_END, values)
        if has_ended and self.end is not None:
            await store_end(self.session, self.owner, self.end, connection)
        elif not has_ended and not self.is_late:
            await get_session(self.session, self.owner, connection)


async def check_lease(session: str, lease: str | None, connection: TableConnection) -> None:
    """Raise `TakenOver` when another process has taken over the turn with this lease."""
    sql = "SELECT run FROM sessions WHERE id = ?"
    if lease is not None and await connection.fetch_value(sql, (sanitize(session),)) != lease:
        raise TakenOver(session)


@cache
def _decoder() -> msgspec.json.Decoder[TurnEnd]:
    """Return the decoder, which the first read makes."""
    return msgspec.json.Decoder(TurnEnd)


async def store_end(session: str, owner: str, end: TurnEnd, connection: TableConnection) -> None:
    """Store the end with the last message of the session. Without a message nothing is stored."""
    key = sanitize(session)
    await connection.execute(_SET_END, (encode(end), key, key, sanitize(owner)))


async def read_ends(session: SessionRecord, after: int, connection: TableConnection) -> dict[int, TurnEnd]:
    """Return the ends that count, by the sequence numbers of their messages, from `after` on."""
    rows = await connection.fetch_all(_READ_ENDS, (session.id, after))
    running = session.length if session.state == "running" else None  # the turn of the last message may go on
    try:
        return {
            seq: _decoder().decode(ended)
            for seq, ended, following in rows
            if seq != running and (following is None or bytes(following) == _PERSON)
        }
    except msgspec.DecodeError as error:
        raise StoreError(f"The ends of turns of the session {session.id!r} are damaged: {error}.") from error


async def clear_end_before(session: str, seq: int, connection: TableConnection) -> None:
    """Forget the end of a turn that went on with the message `seq`, before that message is removed."""
    await connection.execute(_CLEAR_END, (session, seq - 1, session, seq, _PERSON))
