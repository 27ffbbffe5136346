"""Threads, which are sessions as the graph API shows them: searched, read in parts, changed by hand (graph.md 8)."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from handspan.core.calls import ToolFacts, decode_facts
from handspan.core.errors import StoreError, ToolError
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, UserMessage
from handspan.core.records import SessionRecord, ThreadEntry
from handspan.core.values import encode, sanitize
from handspan.store.tables.contexts import forget_marks
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.messages import INSERT_MESSAGE, decoder, drop_messages, set_length
from handspan.store.tables.rows import ALL_ROWS
from handspan.store.tables.search import drop_lost_words
from handspan.store.tables.sessions import SESSION, check_not_running, get_session, session_of
from handspan.store.tables.turns import read_ends
from handspan.store.tables.versions import drop_orphans, remove_left

_PAGE: Final = (
    f"SELECT {SESSION} FROM sessions WHERE owner = ? AND deleted_at IS NULL"
    " ORDER BY active DESC, id DESC LIMIT ? OFFSET ?"
)
_FAR: Final = 2**40
"""Above all sequence numbers. Rows that move get such numbers first: no two rows may ever have the same number."""

Kind: TypeAlias = Literal["user", "assistant", "results"]
_KINDS: Final[dict[bytes, Kind]] = {b"user": "user", b"assi": "assistant", b"resu": "results"}


class _Line(NamedTuple):
    """What is known of a message without decoding it."""

    kind: Kind
    opens: str | None
    """The ids of its calls, as JSON; None without calls."""


class StoredThreads:
    """The threads of owners. Implements `ThreadBook`."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def page(self, *, owner: str, search: str = "", offset: int = 0, limit: int = 100) -> list[SessionRecord]:
        """Return a page of the owner's threads, the one used last first. `search`: a part of their name or id."""
        if not search:
            rows = await self._database.fetch_all(_PAGE, (sanitize(owner), limit, offset))
            return [session_of(row) for row in rows]
        # Each database has its own idea of capital letters. So Python compares, which reads all threads of the owner.
        wanted = sanitize(search).casefold()
        rows = await self._database.fetch_all(_PAGE, (sanitize(owner), ALL_ROWS, 0))
        threads = (session_of(row) for row in rows)
        found = (each for each in threads if wanted in each.name.casefold() or wanted in each.id.casefold())
        return list(islice(found, offset, offset + limit))

    async def entries(self, thread: str, *, owner: str, offset: int = 0, limit: int | None = None) -> list[ThreadEntry]:
        return await self._database.read(partial(_load_entries, thread, owner, offset, limit))

    async def find(self, thread: str, number: int, *, owner: str) -> list[ThreadEntry]:
        async def work(connection: TableConnection) -> list[ThreadEntry]:
            session = await get_session(thread, owner, connection)
            seq = await _find_seq(session, number, connection)
            return await _entries(session, seq, seq, connection) if seq is not None else []

        return await self._database.read(work)

    async def numbers(self, thread: str, *, owner: str) -> list[int]:
        sql = "SELECT number FROM messages WHERE session = ? ORDER BY seq"

        async def work(connection: TableConnection) -> list[int]:
            session = await get_session(thread, owner, connection)
            return [number for (number,) in await connection.fetch_all(sql, (session.id,))]

        return await self._database.read(work)

    async def tools_called(self, thread: str, *, owner: str) -> list[ToolFacts]:
        sql = "SELECT tool FROM calls WHERE session = ? AND owner = ? GROUP BY tool ORDER BY MAX(at)"
        key = (sanitize(thread), sanitize(owner))
        rows = await self._database.fetch_all(sql, key)
        return [decode_facts(tool) for (tool,) in rows]

    async def add(self, thread: str, messages: Sequence[UserMessage | AssistantMessage], *, owner: str) -> None:
        """Append messages that no turn has made."""
        at = self._clock()

        async def work(connection: TableConnection) -> None:
            session = await get_session(thread, owner, connection)
            check_not_running(session)
            await _add(session, messages, at, connection)

        await self._database.write(work)

    async def remove(self, thread: str, number: int, *, owner: str) -> int:
        """Remove a message, with the results or calls that belong to it. Return how many messages."""

        async def work(connection: TableConnection) -> int:
            session = await get_session(thread, owner, connection)
            seq = await _find_seq(session, number, connection)
            if seq is None:
                count = await remove_left(session.id, number, connection)
            else:
                check_not_running(session)
                first, last = removal_range([line.kind for line in await _lines(session, connection)], seq)
                await _remove_range(session, first, last, connection)
                count = last - first + 1
            await drop_lost_words(session.id, connection)
            return count

        return await self._database.write(work)

    async def clear(self, thread: str, *, owner: str) -> int:
        """Remove all messages of a thread and of its versions. Return how many the thread had."""

        async def work(connection: TableConnection) -> int:
            session = await get_session(thread, owner, connection)
            check_not_running(session)
            if session.length:
                await _remove_range(session, 1, session.length, connection)
            for table in ("left_messages", "context_marks"):
                await connection.execute(f"DELETE FROM {table} WHERE session = ?", (session.id,))
            await drop_lost_words(session.id, connection)
            return session.length

        return await self._database.write(work)


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
    """Return the entries of the messages from `first` to `last`, by their sequence numbers.

    `seq` is the place of a message now, without gaps; `number` stays with a message when others are removed.
    """
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
            yield ThreadEntry(number, at, message, place, call=call)
    else:
        yield ThreadEntry(number, at, message)


def _decode(thread: str, body: bytes) -> Message:
    try:
        return decoder().decode(body)
    except msgspec.DecodeError as error:
        text = f"The messages of the thread {thread!r} are damaged: {error}. Delete it, or put a backup in place."
        raise StoreError(text) from error


async def _add(
    session: SessionRecord, messages: Sequence[UserMessage | AssistantMessage], at: float, connection: TableConnection
) -> None:
    """Append these messages. Raises `ToolError` (`invalid_arguments`) as `ThreadBook.add` does."""
    last = await _last_line(session, connection)
    kind = last.kind if last else "assistant"  # with this, an assistant's message can't be the first
    for seq, message in enumerate(messages, session.length + 1):
        before, kind = kind, "assistant" if type(message) is AssistantMessage else "user"
        if before == kind == "assistant":
            text = "An assistant's message has to follow a person's: put a message of 'user' before it."
            raise ToolError("invalid_arguments", text)
        await connection.execute(INSERT_MESSAGE, (session.id, seq, seq + session.removed, at, None, encode(message)))
    if messages:
        sql = "UPDATE sessions SET length = ?, active = ?, ends_with_reply = ? WHERE id = ?"
        await connection.execute(sql, (session.length + len(messages), at, kind == "assistant", session.id))


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
    await forget_marks(session.id, first, connection)
    await drop_messages(session.id, first, last, connection)
    for table in ("messages", "usage"):
        far = f"UPDATE {table} SET seq = seq + {_FAR - count} WHERE session = ? AND seq > ?"
        back = f"UPDATE {table} SET seq = seq - {_FAR} WHERE session = ? AND seq > {_FAR // 2}"
        await connection.execute(far, (session.id, last))
        await connection.execute(back, (session.id,))
    await set_length(session.id, session.length - count, connection)
    await drop_orphans(session.id, connection)  # what is deleted leaves no way to versions behind it


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
