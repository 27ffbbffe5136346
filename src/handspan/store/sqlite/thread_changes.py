"""Changing a conversation by hand: messages put at its end, or taken out of it (graph.md 8.2, 8.3).

Each function is the work of one transaction. `ToolError`: `file_not_found` for a thread that is not the owner's, `busy`
while it is at work, or waits for calls.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, UserMessage
from handspan.core.records import SessionRecord
from handspan.core.values import encode, plain
from handspan.store.sqlite.conversations import drop_messages, end_at, refuse_running, session_of

Said: TypeAlias = UserMessage | AssistantMessage

_FAR: Final = 2**40
"""Above all places: where rows wait while others move, since no two may have one place for a moment."""

Kind: TypeAlias = Literal["user", "assistant", "results"]
_KINDS: Final[dict[str, Kind]] = {"user": "user", "assi": "assistant", "resu": "results"}


class _Line(NamedTuple):
    """What is known of a message without reading it."""

    kind: Kind
    opens: str | None


def add(thread: str, owner: str, messages: tuple[Said, ...], at: float, connection: sqlite3.Connection) -> None:
    """Put these at the end. `ToolError` (`invalid_arguments`) where an assistant would speak first, or twice."""
    found = session_of(thread, owner, connection)
    refuse_running(found)
    last = _last(found, connection)
    kind = last.kind if last else "assistant"  # nobody has spoken: an assistant does not begin
    for seq, message in enumerate(messages, found.length + 1):
        before, kind = kind, "assistant" if type(message) is AssistantMessage else "user"
        if before == kind == "assistant":
            text = "An assistant's message has to follow a person's: put a message of 'user' before it."
            raise ToolError("invalid_arguments", text)
        sql = "INSERT INTO messages (session, seq, number, at, opens, body) VALUES (?, ?, ?, ?, NULL, ?)"
        connection.execute(sql, (found.id, seq, seq + found.removed, at, encode(message)))


def remove(thread: str, owner: str, seq: int, connection: sqlite3.Connection) -> int:
    """Take out the message at this place with those that can't stand without it; how many they were."""
    found = session_of(thread, owner, connection)
    refuse_running(found)
    first, last = taken_along([line.kind for line in _lines(found, connection)], seq)
    _take_out(found, first, last, connection)
    return last - first + 1


def clear(thread: str, owner: str, connection: sqlite3.Connection) -> int:
    """Take out all; how many they were."""
    found = session_of(thread, owner, connection)
    refuse_running(found)
    if found.length:
        _take_out(found, 1, found.length, connection)
    return found.length


def taken_along(kinds: Sequence[Kind], seq: int) -> tuple[int, int]:
    """From where to where a conversation of such messages has to lose them if it is to lose this one (graph.md 8.3).

    A round of calls goes with its results. What a person said takes its answer along where that would stand at the
    beginning, or straight behind another answer: not every model takes such a conversation.
    """
    before, kind, behind = ("", *kinds, "")[seq - 1 : seq + 2]
    if kind == "results":
        return seq - 1, seq
    if kind == "assistant":
        return seq, seq + (behind == "results")
    if behind != "assistant" or before not in ("", "assistant"):
        return seq, seq
    return seq, next((place for place in range(seq + 1, len(kinds)) if kinds[place] == "user"), len(kinds))


def _take_out(session: SessionRecord, first: int, last: int, connection: sqlite3.Connection) -> None:
    """Remove these messages; those behind them move up, since a conversation has no gaps, and keep their numbers."""
    if last == session.length:
        _last(session, connection)
    count = last - first + 1
    drop_messages(session.id, first, last, connection)
    for table in ("messages", "usage"):
        far = f"UPDATE {table} SET seq = seq + {_FAR - count} WHERE session = ? AND seq > ?"
        back = f"UPDATE {table} SET seq = seq - {_FAR} WHERE session = ? AND seq > {_FAR // 2}"
        connection.execute(far, (session.id, last))
        connection.execute(back, (session.id,))
    end_at(session.id, session.length - count, connection)


def _last(session: SessionRecord, connection: sqlite3.Connection) -> _Line | None:
    """The last message; `ToolError` (`busy`) when it has calls that wait for their results."""
    lines = _lines(session, connection, after=session.length - 1)
    if lines and lines[-1].opens is not None:
        text = f"The thread {session.id!r} waits for the results of calls: send them, or stop its run first."
        raise ToolError("busy", f"{text} (POST /v1/graph/stop)")
    return lines[-1] if lines else None


def _lines(session: SessionRecord, connection: sqlite3.Connection, after: int = 0) -> list[_Line]:
    # The first bytes of a body tell its kind: a message has it in front.
    sql = "SELECT CAST(substr(body, 10, 4) AS TEXT), opens FROM messages WHERE session = ? AND seq > ? ORDER BY seq"
    rows = connection.execute(sql, (plain(session.id), after))
    return [_Line(_KINDS[begin], opens) for begin, opens in rows]
