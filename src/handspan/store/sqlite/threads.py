"""Threads, which are sessions as the graph API shows them: searched, read in parts, changed by hand (graph.md 8)."""

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
from handspan.core.values import sanitize
from handspan.store.sqlite.conversations import SESSION, get_session
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.thread_changes import TalkMessage, add, clear, remove

_PAGE: Final = (
    f"SELECT {SESSION} FROM sessions WHERE owner = ? AND (? = '' OR instr(fold(name), ?) OR instr(fold(id), ?))"
    " ORDER BY active DESC, id DESC LIMIT ? OFFSET ?"
)


class StoredThreads:
    """The threads of owners. Raises `ToolError` (`file_not_found`) for a thread that the owner does not have."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def page(self, *, owner: str, search: str = "", offset: int = 0, limit: int = 100) -> list[SessionRecord]:
        """Return the owner's threads with this text in their name or id, the last active first."""
        wanted = sanitize(search).casefold()

        def work(connection: sqlite3.Connection) -> list[SessionRecord]:
            connection.create_function("fold", 1, str.casefold, deterministic=True)
            rows = connection.execute(_PAGE, (sanitize(owner), wanted, wanted, wanted, limit, offset))
            return [SessionRecord(*row) for row in rows]

        return await self._database.read(work)

    async def entries(self, thread: str, *, owner: str, offset: int = 0, limit: int | None = None) -> list[ThreadEntry]:
        """Return the entries of the thread, or a part of them, the oldest first."""
        return await self._database.read(partial(_load_entries, thread, owner, offset, limit))

    async def find(self, thread: str, number: int, *, owner: str) -> list[ThreadEntry]:
        """Return the entries of one message; none if there is no such message."""

        def work(connection: sqlite3.Connection) -> list[ThreadEntry]:
            seq = _find_seq(get_session(thread, owner, connection), number, connection)
            return list(_entries(thread, seq, seq, connection)) if seq is not None else []

        return await self._database.read(work)

    async def numbers(self, thread: str, *, owner: str) -> list[int]:
        """Return the numbers of the messages, in their order."""
        sql = "SELECT number FROM messages WHERE session = ? ORDER BY seq"

        def work(connection: sqlite3.Connection) -> list[int]:
            session = get_session(thread, owner, connection)
            return [number for (number,) in connection.execute(sql, (session.id,))]

        return await self._database.read(work)

    async def tools_called(self, thread: str, *, owner: str) -> list[ToolFacts]:
        """Return the tools that were called in the thread, as they were then; the last called one is the last."""
        sql = "SELECT tool FROM calls WHERE session = ? AND owner = ? GROUP BY tool ORDER BY MAX(at)"
        key = (sanitize(thread), sanitize(owner))
        rows = await self._database.fetch_all(sql, key)
        return [decode_facts(tool) for (tool,) in rows]

    async def add(self, thread: str, messages: Sequence[TalkMessage], *, owner: str) -> None:
        """Append messages, all or none. They cost nothing, because no model was asked.

        Raises `ToolError`: `busy` while a turn runs or calls wait for results, `invalid_arguments` for an assistant's
        message without a user's before it.
        """
        await self._database.write(partial(add, thread, owner, tuple(messages), self._clock()))

    async def remove(self, thread: str, number: int, *, owner: str) -> int:
        """Remove this message and those that depend on it. Return their number; 0 if it does not exist any more.

        Raises `ToolError` (`busy`) while a turn runs or calls wait for results.
        """

        def work(connection: sqlite3.Connection) -> int:
            seq = _find_seq(get_session(thread, owner, connection), number, connection)
            return remove(thread, owner, seq, connection) if seq is not None else 0

        return await self._database.write(work)

    async def clear(self, thread: str, *, owner: str) -> int:
        """Remove all messages and return their number. Raises `ToolError` (`busy`) as `remove` does."""
        return await self._database.write(partial(clear, thread, owner))


def _find_seq(session: SessionRecord, number: int, connection: sqlite3.Connection) -> int | None:
    """Return the sequence number of the message. It may be lower than its number by as many as were removed."""
    sql = "SELECT seq FROM messages WHERE session = ? AND seq BETWEEN ? AND ? AND number = ?"
    row = connection.execute(sql, (session.id, number - session.removed, number, number)).fetchone()
    return None if row is None else row[0]


def _load_entries(
    thread: str, owner: str, offset: int, limit: int | None, connection: sqlite3.Connection
) -> list[ThreadEntry]:
    """Return the entries from `offset` on, and decode only the messages that have them."""
    length = get_session(thread, owner, connection).length
    if offset == 0 and limit is None:
        return list(_entries(thread, 1, length, connection))
    ends = list(accumulate(_entry_counts(thread, connection)))  # the number of entries up to each message
    total = ends[-1] if ends else 0
    if offset >= total:
        return []
    until = total if limit is None else min(total, offset + limit)
    first, last = bisect_right(ends, offset) + 1, bisect_left(ends, until) + 1
    skipped = ends[first - 2] if first > 1 else 0
    return list(_entries(thread, first, last, connection))[offset - skipped : until - skipped]


def _entry_counts(thread: str, connection: sqlite3.Connection) -> Iterator[int]:
    """Return the number of entries of each message: one for each result, else one."""
    opened: str | None = None
    for (opens,) in connection.execute(
        "SELECT opens FROM messages WHERE session = ? ORDER BY seq", (sanitize(thread),)
    ):
        yield 1 if opened is None else len(msgspec.json.decode(opened))
        opened = opens


def _entries(thread: str, first: int, last: int, connection: sqlite3.Connection) -> Iterator[ThreadEntry]:
    """Return the entries of the messages from `first` to `last`."""
    sql = "SELECT seq, number, at, body FROM messages WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq"
    calls: tuple[CallPart, ...] = ()
    # One message before the first: a results message needs the calls that it answers.
    for seq, number, at, body in connection.execute(sql, (sanitize(thread), first - 1, last)):
        message = _decode(thread, body)
        if seq >= first:
            yield from _split_message(number, at, message, calls)
        calls = message.calls if type(message) is AssistantMessage else ()


def _split_message(number: int, at: float, message: Message, calls: tuple[CallPart, ...]) -> Iterator[ThreadEntry]:
    if type(message) is ResultsMessage:
        for place, call in enumerate(calls):
            yield ThreadEntry(number, at, message, place, call)
    else:
        yield ThreadEntry(number, at, message)


def _decode(thread: str, body: bytes) -> Message:
    try:
        return _decoder().decode(body)
    except msgspec.DecodeError as error:
        text = f"The messages of the thread {thread!r} are damaged: {error}. Delete it, or put a backup in place."
        raise StoreError(text) from error


@cache
def _decoder() -> msgspec.json.Decoder[Message]:
    """Return the decoder. The first read makes it: that takes a while, and most starts read no messages."""
    return msgspec.json.Decoder(Message)
