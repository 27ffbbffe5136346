"""Adding messages to a conversation by hand, and removing some (graph.md 8.2, 8.3).

Each function is the work of one transaction. It raises `ToolError`: `file_not_found` for a thread that is not the
owner's, `busy` while a turn runs or calls wait for results.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, UserMessage
from handspan.core.records import SessionRecord
from handspan.core.values import encode, sanitize
from handspan.store.tables.conversations import (
    INSERT_MESSAGE,
    check_not_running,
    drop_messages,
    get_session,
    set_length,
)
from handspan.store.tables.database import TableConnection

TalkMessage: TypeAlias = UserMessage | AssistantMessage

_FAR: Final = 2**40
"""Above all sequence numbers. Rows that move get such numbers first: no two rows may ever have the same number."""

Kind: TypeAlias = Literal["user", "assistant", "results"]
_KINDS: Final[dict[bytes, Kind]] = {b"user": "user", b"assi": "assistant", b"resu": "results"}


class _Line(NamedTuple):
    """What is known of a message without decoding it."""

    kind: Kind
    opens: str | None
    """The ids of its calls, as JSON; None without calls."""


async def add(
    thread: str, owner: str, messages: tuple[TalkMessage, ...], at: float, connection: TableConnection
) -> None:
    """Append these messages.

    Raises `ToolError` (`invalid_arguments`) for an assistant's message that is the first, or follows another one.
    """
    found = await get_session(thread, owner, connection)
    check_not_running(found)
    last = await _last_line(found, connection)
    kind = last.kind if last else "assistant"  # with this, an assistant's message can't be the first
    for seq, message in enumerate(messages, found.length + 1):
        before, kind = kind, "assistant" if type(message) is AssistantMessage else "user"
        if before == kind == "assistant":
            text = "An assistant's message has to follow a person's: put a message of 'user' before it."
            raise ToolError("invalid_arguments", text)
        await connection.execute(INSERT_MESSAGE, (found.id, seq, seq + found.removed, at, None, encode(message)))
    if messages:
        sql = "UPDATE sessions SET length = ?, active = ?, ends_with_reply = ? WHERE id = ?"
        await connection.execute(sql, (found.length + len(messages), at, kind == "assistant", found.id))


async def remove(thread: str, owner: str, seq: int, connection: TableConnection) -> int:
    """Remove the message with this sequence number and those that depend on it. Return how many were removed."""
    found = await get_session(thread, owner, connection)
    check_not_running(found)
    first, last = removal_range([line.kind for line in await _lines(found, connection)], seq)
    await _remove_range(found, first, last, connection)
    return last - first + 1


async def clear(thread: str, owner: str, connection: TableConnection) -> int:
    """Remove all messages and return their number."""
    found = await get_session(thread, owner, connection)
    check_not_running(found)
    if found.length:
        await _remove_range(found, 1, found.length, connection)
    return found.length


def removal_range(kinds: Sequence[Kind], seq: int) -> tuple[int, int]:
    """Return the first and last message to remove, if a person removes the message `seq` (graph.md 8.3).

    `kinds`: those of all messages of the conversation. Calls go together with their results. The answer to a user's
    message goes with it if that answer would become the first message, or follow another answer: not every model
    accepts such a conversation.
    """
    before, kind, behind = ("", *kinds, "")[seq - 1 : seq + 2]
    if kind == "results":
        return seq - 1, seq
    if kind == "assistant":
        return seq, seq + (behind == "results")
    if behind != "assistant" or before not in ("", "assistant"):
        return seq, seq
    return seq, next((place for place in range(seq + 1, len(kinds)) if kinds[place] == "user"), len(kinds))


async def _remove_range(session: SessionRecord, first: int, last: int, connection: TableConnection) -> None:
    """Remove these messages. Later messages move up, so that there is no gap, and keep their numbers."""
    if last == session.length:
        await _last_line(session, connection)  # raises when the last calls wait for results
    count = last - first + 1
    await drop_messages(session.id, first, last, connection)
    for table in ("messages", "usage"):
        far = f"UPDATE {table} SET seq = seq + {_FAR - count} WHERE session = ? AND seq > ?"
        back = f"UPDATE {table} SET seq = seq - {_FAR} WHERE session = ? AND seq > {_FAR // 2}"
        await connection.execute(far, (session.id, last))
        await connection.execute(back, (session.id,))
    await set_length(session.id, session.length - count, connection)


async def _last_line(session: SessionRecord, connection: TableConnection) -> _Line | None:
    """Return the line of the last message. Raises `ToolError` (`busy`) when its calls wait for results."""
    lines = await _lines(session, connection, after=session.length - 1)
    if lines and lines[-1].opens is not None:
        text = f"The thread {session.id!r} waits for the results of calls: send them, or stop its run first."
        raise ToolError("busy", f"{text} (POST /v1/graph/stop)")
    return lines[-1] if lines else None


async def _lines(session: SessionRecord, connection: TableConnection, after: int = 0) -> list[_Line]:
    # The body of a message begins with its type: so these bytes show the kind.
    sql = "SELECT substr(body, 10, 4), opens FROM messages WHERE session = ? AND seq > ? ORDER BY seq"
    rows = await connection.fetch_all(sql, (sanitize(session.id), after))
    return [_Line(_KINDS[bytes(begin)], opens) for begin, opens in rows]
