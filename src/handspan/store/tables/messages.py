"""Messages of sessions as rows: only appended, and results follow their calls. Each checks the lease of its turn."""

from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import StoreError, ToolError
from handspan.core.messages import (
    AssistantMessage,
    Message,
    RepliesInARow,
    ResultsMessage,
    UnpairedCalls,
    check_all,
)
from handspan.core.records import DatedMessage
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import ALL_ROWS, Row
from handspan.store.tables.sessions import get_session
from handspan.store.tables.turns import check_lease, clear_end_before
from handspan.store.tables.usage import INSERT_USAGE, usage_values

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
_REPLY_BEGINS: Final = b'{"type":"assistant"'


@cache
def decoder() -> msgspec.json.Decoder[Message]:
    """Return the decoder of messages. The first read makes it: that takes a while, and most starts read no messages."""
    return msgspec.json.Decoder(Message)


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
        """Append the messages. Raises `ToolError` when the session has changed, or its lease is lost."""
        for place, (row, use) in enumerate(zip(self.rows, self.uses, strict=True)):
            at, opens, is_reply, session, owner, answered, body = row
            expected = None if self.after is None else self.after + place
            checks = (session, owner, answered, is_reply, expected, expected, self.lease, self.lease)
            extended = await connection.fetch_one(_EXTEND, (at, opens, is_reply, *checks))
            if extended is None:
                await check_lease(self.session, self.lease, connection)
                raise await _append_error(connection, self.session, self.owner, self.messages[0], after=self.after)
            seq, removed = extended
            await connection.execute(INSERT_MESSAGE, (session, seq, seq + removed, at, opens, body))
            if use is not None:
                await connection.execute(INSERT_USAGE, (session, seq, owner, *use))


def append_messages(
    session: str,
    messages: tuple[Message, ...],
    owner: str,
    at: float,
    *,
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
    return AppendMessages(session, owner, messages, after=after, rows=tuple(rows), uses=tuple(uses), lease=lease)


async def load_messages(
    session: str, owner: str, after: int, connection: TableConnection, limit: int = ALL_ROWS
) -> list[Message]:
    """Return the messages of the owner's session. Raises `StoreError` when calls and results do not pair."""
    await get_session(session, owner, connection)
    sql = "SELECT body FROM messages WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = await connection.fetch_all(sql, (sanitize(session), after, limit))
    return _decode(session, [body for (body,) in rows], after)


async def load_dated(session: str, owner: str, after: int, connection: TableConnection) -> list[DatedMessage]:
    """Return the messages of the owner's session with their times. Raises `StoreError` as `load_messages` does."""
    await get_session(session, owner, connection)
    sql = "SELECT at, body FROM messages WHERE session = ? AND seq > ? ORDER BY seq"
    rows = await connection.fetch_all(sql, (sanitize(session), after))
    messages = _decode(session, [body for _, body in rows], after)
    return [DatedMessage(message, at) for (at, _), message in zip(rows, messages, strict=True)]


def _decode(session: str, bodies: list[bytes], after: int) -> list[Message]:
    """Return the messages behind this number. Raises `StoreError` when calls and results do not pair."""
    try:
        decode = decoder().decode  # message by message: to join them first is not faster, and needs more memory
        messages = [decode(body) for body in bodies]
        # With `after`, the first message may answer a message that is not loaded.
        check_all(messages[1:] if after and messages and type(messages[0]) is ResultsMessage else messages)
    except (msgspec.DecodeError, UnpairedCalls) as error:
        raise StoreError(
            f"The messages of the session {session!r} are damaged: {error}. Delete it, or put a backup in place."
        ) from error
    return messages


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
