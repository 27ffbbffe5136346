"""How turns ended, beside the last message of each turn (SPEC L7).

The end is a column of the message: it moves, and goes, with its message. A turn that ended with its whole answer has
none, so a plain turn costs nothing more.
"""

from functools import cache
from typing import Final

import msgspec

from handspan.core.errors import StoreError
from handspan.core.events import TurnEnd
from handspan.core.records import SessionRecord
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import TableConnection

_SET: Final = (
    "UPDATE messages SET ended = ? WHERE session = ? AND seq = (SELECT length FROM sessions WHERE id = ? AND owner = ?)"
)
# With the kind of the next message: if that is no person's, the turn went on.
_READ: Final = (
    "SELECT ends.seq, ends.ended, substr(following.body, 10, 4) FROM messages AS ends"
    " LEFT JOIN messages AS following ON following.session = ends.session AND following.seq = ends.seq + 1"
    " WHERE ends.session = ? AND ends.seq >= ? AND ends.ended IS NOT NULL ORDER BY ends.seq"
)
_PERSON: Final = b"user"
# The end of a turn that went on with the message `seq`.
_CLEAR: Final = (
    "UPDATE messages SET ended = NULL WHERE session = ? AND seq = ? AND ended IS NOT NULL AND EXISTS ("
    "SELECT 1 FROM messages AS following WHERE following.session = ? AND following.seq = ?"
    " AND substr(following.body, 10, 4) <> ?)"
)


@cache
def _decoder() -> msgspec.json.Decoder[TurnEnd]:
    """Return the decoder, which the first read makes."""
    return msgspec.json.Decoder(TurnEnd)


async def store_end(session: str, owner: str, end: TurnEnd, connection: TableConnection) -> None:
    """Store the end with the last message of the session. Without a message nothing is stored."""
    key = sanitize(session)
    await connection.execute(_SET, (encode(end), key, key, sanitize(owner)))


async def read_ends(session: SessionRecord, after: int, connection: TableConnection) -> dict[int, TurnEnd]:
    """Return the ends that count, by the sequence numbers of their messages, from `after` on."""
    rows = await connection.fetch_all(_READ, (session.id, after))
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
    await connection.execute(_CLEAR, (session, seq - 1, session, seq, _PERSON))
