"""Threads, which are sessions as the graph API shows them: searched, read in parts, changed by hand (graph.md 8)."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, islice
from typing import Final

import msgspec

from handspan.core.calls import ToolFacts, decode_facts
from handspan.core.errors import StoreError
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage
from handspan.core.records import SessionRecord, ThreadEntry
from handspan.core.values import sanitize
from handspan.store.tables.conversations import SESSION, get_session
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import ALL_ROWS
from handspan.store.tables.thread_changes import TalkMessage, add, clear, remove
from handspan.store.tables.turn_ends import read_ends

_PAGE: Final = f"SELECT {SESSION} FROM sessions WHERE owner = ? ORDER BY active DESC, id DESC LIMIT ? OFFSET ?"


class StoredThreads:
    """The threads of owners. Raises `ToolError` (`file_not_found`) for a thread that the owner does not have."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def page(self, *, owner: str, search: str = "", offset: int = 0, limit: int = 100) -> list[SessionRecord]:
        """Return the owner's threads with this text in their name or id, the last active first."""
        if not search:
            rows = await self._database.fetch_all(_PAGE, (sanitize(owner), limit, offset))
            return [SessionRecord(*row) for row in rows]
        # Each database has its own idea of capital letters. So Python compares, which reads all threads of the owner.
        wanted = sanitize(search).casefold()
        rows = await self._database.fetch_all(_PAGE, (sanitize(owner), ALL_ROWS, 0))
        threads = (SessionRecord(*row) for row in rows)
        found = (each for each in threads if wanted in each.name.casefold() or wanted in each.id.casefold())
        return list(islice(found, offset, offset + limit))

    async def entries(self, thread: str, *, owner: str, offset: int = 0, limit: int | None = None) -> list[ThreadEntry]:
        """Return the entries of the thread, or a part of them, the oldest first."""
        return await self._database.read(partial(_load_entries, thread, owner, offset, limit))

    async def find(self, thread: str, number: int, *, owner: str) -> list[ThreadEntry]:
        """Return the entries of one message; none if there is no such message."""

        async def work(connection: TableConnection) -> list[ThreadEntry]:
            session = await get_session(thread, owner, connection)
            seq = await _find_seq(session, number, connection)
            return await _entries(session, seq, seq, connection) if seq is not None else []

        return await self._database.read(work)

    async def numbers(self, thread: str, *, owner: str) -> list[int]:
        """Return the numbers of the messages, in their order."""
        sql = "SELECT number FROM messages WHERE session = ? ORDER BY seq"

        async def work(connection: TableConnection) -> list[int]:
            session = await get_session(thread, owner, connection)
            return [number for (number,) in await connection.fetch_all(sql, (session.id,))]

        return await self._database.read(work)

    async def tools_called(self, thread: str, *, owner: str) -> list[ToolFacts]:
        """Return the tools that were called in the thread, as they were then. The tool that was called last is last."""
        sql = "SELECT tool FROM calls WHERE session = ? AND owner = ? GROUP BY tool ORDER BY MAX(at)"
        key = (sanitize(thread), sanitize(owner))
        rows = await self._database.fetch_all(sql, key)
        return [decode_facts(tool) for (tool,) in rows]

    async def add(self, thread: str, messages: Sequence[TalkMessage], *, owner: str) -> None:
        """Append messages, all or none. They cost nothing, because no model was asked.

        Raises `ToolError`: `busy` while a turn runs or calls wait for results, `invalid_arguments` for an assistant's
        message that does not follow a user's message.
        """
        await self._database.write(partial(add, thread, owner, tuple(messages), self._clock()))

    async def remove(self, thread: str, number: int, *, owner: str) -> int:
        """Remove this message and those that depend on it. Return how many; 0 if the message does not exist any more.

        Raises `ToolError` (`busy`) while a turn runs or calls wait for results.
        """

        async def work(connection: TableConnection) -> int:
            seq = await _find_seq(await get_session(thread, owner, connection), number, connection)
            return await remove(thread, owner, seq, connection) if seq is not None else 0

        return await self._database.write(work)

    async def clear(self, thread: str, *, owner: str) -> int:
        """Remove all messages and return their number. Raises `ToolError` (`busy`) as `remove` does."""
        return await self._database.write(partial(clear, thread, owner))


async def _find_seq(session: SessionRecord, number: int, connection: TableConnection) -> int | None:
    """Return the sequence number of the message with this number; None if there is no such message.

    The sequence number may be lower than the number, at most by the count of removed messages.
    """
    sql = "SELECT seq FROM messages WHERE session = ? AND seq BETWEEN ? AND ? AND number = ?"
    row = await connection.fetch_one(sql, (session.id, number - session.removed, number, number))
    return None if row is None else row[0]


async def _load_entries(
    thread: str, owner: str, offset: int, limit: int | None, connection: TableConnection
) -> list[ThreadEntry]:
    """Return the entries from `offset` on. Decode only the messages of these entries."""
    session = await get_session(thread, owner, connection)
    if offset == 0 and limit is None:
        return await _entries(session, 1, session.length, connection)
    ends = list(accumulate(await _entry_counts(thread, connection)))  # the number of entries up to each message
    total = ends[-1] if ends else 0
    if offset >= total:
        return []
    until = total if limit is None else min(total, offset + limit)
    first, last = bisect_right(ends, offset) + 1, bisect_left(ends, until) + 1
    skipped = ends[first - 2] if first > 1 else 0
    return (await _entries(session, first, last, connection))[offset - skipped : until - skipped]


async def _entry_counts(thread: str, connection: TableConnection) -> list[int]:
    """Return how many entries each message has: a message with results has one for each result, any other has one."""
    sql = "SELECT opens FROM messages WHERE session = ? ORDER BY seq"
    opened = [None, *(opens for (opens,) in await connection.fetch_all(sql, (sanitize(thread),)))]
    return [1 if opens is None else len(msgspec.json.decode(opens)) for opens in opened[:-1]]


async def _entries(session: SessionRecord, first: int, last: int, connection: TableConnection) -> list[ThreadEntry]:
    """Return the entries of the messages from `first` to `last`."""
    ends = await read_ends(session, first, connection)
    sql = "SELECT seq, number, at, body FROM messages WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq"
    entries: list[ThreadEntry] = []
    calls: tuple[CallPart, ...] = ()
    # One message before the first: a results message needs the calls that it answers.
    for seq, number, at, body in await connection.fetch_all(sql, (session.id, first - 1, last)):
        message = _decode(session.id, body)
        if seq >= first:
            entries += _split_message(number, at, message, calls)
            if seq in ends:
                entries[-1] = msgspec.structs.replace(entries[-1], ended=ends[seq])
        calls = message.calls if type(message) is AssistantMessage else ()
    return entries


def _split_message(number: int, at: float, message: Message, calls: tuple[CallPart, ...]) -> Iterator[ThreadEntry]:
    """Yield the entries of a message. `calls`: the calls of the message before it, which its results answer."""
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
