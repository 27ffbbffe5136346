"""Sessions as clients over HTTP know them, threads: searched, read in parts, changed by hand (graph.md 8)."""

import sqlite3
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Final

import msgspec

from handspan.core.calls import ToolFacts, decode_facts
from handspan.core.errors import StoreError
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage
from handspan.core.records import SessionRecord, ThreadEntry
from handspan.core.values import plain
from handspan.store.sqlite.conversations import SESSION, session_of
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.thread_changes import Said, add, clear, remove

_PAGE: Final = (
    f"SELECT {SESSION} FROM sessions WHERE owner = ? AND (? = '' OR instr(folded(name), ?) OR instr(folded(id), ?))"
    " ORDER BY active DESC, id DESC LIMIT ? OFFSET ?"
)


class StoredThreads:
    """The threads of owners. One that the owner does not have is a `ToolError` (`file_not_found`)."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def page(self, *, owner: str, search: str = "", offset: int = 0, limit: int = 100) -> list[SessionRecord]:
        """The owner's threads with this in their name or id, the last active first."""
        wanted = _folded(plain(search))

        def work(connection: sqlite3.Connection) -> list[SessionRecord]:
            connection.create_function("folded", 1, _folded, deterministic=True)
            rows = connection.execute(_PAGE, (plain(owner), wanted, wanted, wanted, limit, offset))
            return [SessionRecord(*row) for row in rows]

        return await self._database.read(work)

    async def entries(self, thread: str, *, owner: str, offset: int = 0, limit: int | None = None) -> list[ThreadEntry]:
        """What was said in it, the first one first; or so much of it."""
        return await self._database.read(partial(_part, thread, owner, offset, limit))

    async def find(self, thread: str, number: int, *, owner: str) -> list[ThreadEntry]:
        """The entries of one message; none when there is no such message."""

        def work(connection: sqlite3.Connection) -> list[ThreadEntry]:
            seq = _place(session_of(thread, owner, connection), number, connection)
            return list(_entries(thread, seq, seq, connection)) if seq is not None else []

        return await self._database.read(work)

    async def numbers(self, thread: str, *, owner: str) -> list[int]:
        """The numbers of its messages, in their order."""
        sql = "SELECT number FROM messages WHERE session = ? ORDER BY seq"

        def work(connection: sqlite3.Connection) -> list[int]:
            session = session_of(thread, owner, connection)
            return [number for (number,) in connection.execute(sql, (session.id,))]

        return await self._database.read(work)

    async def tools_called(self, thread: str, *, owner: str) -> list[ToolFacts]:
        """The tools that were called in it, as they were then; the one that was called last comes last."""
        sql = "SELECT tool FROM calls WHERE session = ? AND owner = ? GROUP BY tool ORDER BY MAX(at)"
        key = (plain(thread), plain(owner))
        rows = await self._database.read(lambda connection: connection.execute(sql, key).fetchall())
        return [decode_facts(tool) for (tool,) in rows]

    async def add(self, thread: str, messages: Sequence[Said], *, owner: str) -> None:
        """Put messages at the end, all or none; they cost nothing, since no model was asked.

        `ToolError`: `busy` while the thread is at work or waits for calls, `invalid_arguments` where an assistant would
        speak first, or twice in a row.
        """
        await self._database.write(partial(add, thread, owner, tuple(messages), self._clock()))

    async def remove(self, thread: str, number: int, *, owner: str) -> int:
        """Remove this message with those that can't stand without it; how many they were. `ToolError` (`busy`).

        0: it is gone already.
        """

        def work(connection: sqlite3.Connection) -> int:
            seq = _place(session_of(thread, owner, connection), number, connection)
            return remove(thread, owner, seq, connection) if seq is not None else 0

        return await self._database.write(work)

    async def clear(self, thread: str, *, owner: str) -> int:
        """Remove all messages; how many they were. `ToolError` (`busy`) while it is at work, or waits for calls."""
        return await self._database.write(partial(clear, thread, owner))


def _place(session: SessionRecord, number: int, connection: sqlite3.Connection) -> int | None:
    """Where the message of this number stands now: it may have moved up by as many as were removed."""
    sql = "SELECT seq FROM messages WHERE session = ? AND seq BETWEEN ? AND ? AND number = ?"
    row = connection.execute(sql, (session.id, number - session.removed, number, number)).fetchone()
    return None if row is None else row[0]


def _part(thread: str, owner: str, offset: int, limit: int | None, connection: sqlite3.Connection) -> list[ThreadEntry]:
    length = session_of(thread, owner, connection).length
    if offset == 0 and limit is None:
        return list(_entries(thread, 1, length, connection))
    ends = list(accumulate(_sizes(thread, connection)))  # how many entries there are up to each message
    total = ends[-1] if ends else 0
    if offset >= total:
        return []
    until = total if limit is None else min(total, offset + limit)
    first, last = bisect_right(ends, offset) + 1, bisect_left(ends, until) + 1
    skipped = ends[first - 2] if first > 1 else 0
    return list(_entries(thread, first, last, connection))[offset - skipped : until - skipped]


def _sizes(thread: str, connection: sqlite3.Connection) -> Iterator[int]:
    """How many entries each message is."""
    opened: str | None = None
    for (opens,) in connection.execute("SELECT opens FROM messages WHERE session = ? ORDER BY seq", (plain(thread),)):
        yield 1 if opened is None else len(msgspec.json.decode(opened))
        opened = opens


def _entries(thread: str, first: int, last: int, connection: sqlite3.Connection) -> Iterator[ThreadEntry]:
    sql = "SELECT seq, number, at, body FROM messages WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq"
    calls: tuple[CallPart, ...] = ()
    for seq, number, at, body in connection.execute(
        sql, (plain(thread), first - 1, last)
    ):  # one more: results need its calls
        message = _decoded(thread, body)
        if seq >= first:
            yield from _of_message(number, at, message, calls)
        calls = message.calls if type(message) is AssistantMessage else ()


def _of_message(number: int, at: float, message: Message, calls: tuple[CallPart, ...]) -> Iterator[ThreadEntry]:
    if type(message) is ResultsMessage:
        for place, call in enumerate(calls):
            yield ThreadEntry(number, at, message, place, call)
    else:
        yield ThreadEntry(number, at, message)


def _decoded(thread: str, body: bytes) -> Message:
    try:
        return _decoder().decode(body)
    except msgspec.DecodeError as error:
        text = f"The messages of the thread {thread!r} are damaged: {error}. Delete it, or put a backup in place."
        raise StoreError(text) from error


@cache
def _decoder() -> msgspec.json.Decoder[Message]:
    """Made when the first message is read: it takes a while, and most starts read none."""
    return msgspec.json.Decoder(Message)


def _folded(text: str) -> str:
    return text.casefold()
