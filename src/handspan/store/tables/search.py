"""The search of what was said (SPEC L9): the words of messages as rows beside them, in the index of each database.

Messages get into the index a little later than they are stored: so to store one costs nothing more. A session tells by
two columns what is missing (`indexed`, `name_indexed`). A search brings that in before it looks, the gateway now and
then. So nothing that was stored is missed, and a database of an older version needs no long migration.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from handspan.core.messages import Message, ResultsMessage, Text
from handspan.core.records import ALL_SESSIONS, FoundText, FoundTexts, SessionFilter, SessionRecord
from handspan.core.values import Json, sanitize
from handspan.core.words import searched_words, words_of
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.messages import decoder
from handspan.store.tables.rows import Row
from handspan.store.tables.sessions import SESSION, filter_terms, session_of

_SAID: Final = 0
_RESULTS: Final = 1
_MOST_AT_ONCE: Final = 200
"""Messages that one transaction indexes at most, so that other writes do not wait long."""
_MOST_OF_ONE: Final = 50
"""The same of one session."""
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of messages after which a transaction takes no more, for the same reason."""
_MOST_FIRST: Final = 2000
"""Messages that a search indexes at most before it looks: an old database has more, and a person waits."""

_LACKS: Final = "(indexed < length + removed OR NOT name_indexed) AND deleted_at IS NULL"
_LACKING: Final = f"SELECT id, name, name_indexed, indexed, length + removed, removed FROM sessions WHERE {_LACKS}"
_MESSAGES: Final = (
    "SELECT number, body FROM messages WHERE session = ? AND seq > ? AND number > ? ORDER BY number LIMIT ?"
)
_LEFT: Final = "SELECT number, body FROM left_messages WHERE session = ? AND number > ? ORDER BY number LIMIT ?"
_NUMBERS: Final = (
    "SELECT number FROM messages WHERE session = ? AND seq > ? AND number > ?"
    " UNION ALL SELECT number FROM left_messages WHERE session = ? AND number > ?"
)
_ADD: Final = "INSERT INTO searched (session, number, part, words) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_PLACE: Final = f"part * {2**40} + number"
"""One number for part and number of a message: what was said comes before results of calls."""
# First all messages with the words, by the index: then no plan can look into each message of each session.
_FIND: Final = (
    "WITH hits AS MATERIALIZED (SELECT session, MIN(number) AS least,"
    f" MIN(CASE WHEN number > 0 THEN {_PLACE} END) AS first FROM searched WHERE {{has_words}} GROUP BY session)"
    f" SELECT {SESSION}, least, first FROM sessions JOIN hits ON hits.session = sessions.id"
    " WHERE owner = ? AND deleted_at IS NULL{terms} ORDER BY active DESC, id DESC LIMIT ? OFFSET ?"
)
_DROP_LOST: Final = (
    "DELETE FROM searched WHERE session = ? AND number > 0"
    " AND number NOT IN (SELECT number FROM messages WHERE session = ?)"
    " AND number NOT IN (SELECT number FROM left_messages WHERE session = ?)"
)


class SearchSql(Struct, frozen=True):
    """How a database finds rows of `searched` by their words."""

    said: str
    """The condition for what was said; it has one `?`, for what `query` returns."""
    results: str
    """The same for results of calls."""
    query: Callable[[Sequence[str]], str]
    """Returns the words of a search in the database's own form."""


class _Lacking(NamedTuple):
    """What the index lacks of a session, as far as it is indexed now."""

    session: str
    name: str | None
    """The name of the session, if it is not indexed."""
    after: int
    """The messages after this number are not indexed."""
    until: int
    """The last number that is indexed now."""
    bodies: Sequence[tuple[int, bytes]]
    """Number and body of each message."""


class StoredSearch:
    """Indexes messages and finds them. Implements `TextSearch`."""

    def __init__(self, database: Database, sql: SearchSql) -> None:
        self._database = database
        self._sql = sql

    async def find(
        self,
        query: str,
        wanted: SessionFilter = ALL_SESSIONS,
        *,
        owner: str,
        limit: int = 50,
        left: bool = False,
        results: bool = False,
    ) -> FoundTexts:
        """Return where the words of the query are, in the owner's sessions that are wanted. First index what is new."""
        words, found = searched_words(sanitize(query)), tuple[FoundText, ...]()
        await self._index(sanitize(owner), _MOST_FIRST)
        if words:
            found = await self._database.read(
                partial(_find, sanitize(owner), wanted, self._search(words, left=left, results=results), limit)
            )
        sql = f"SELECT COUNT(*) FROM sessions WHERE {_LACKS} AND owner = ?"
        [(unindexed,)] = await self._database.fetch_all(sql, (sanitize(owner),))
        return FoundTexts(found, unindexed)

    async def index(self) -> None:
        await self._index(None, None)

    async def _index(self, owner: str | None, most: int | None) -> None:
        """Index what is missing, of this owner or of all; at most so many messages."""
        count = 0
        while most is None or count < most:
            lacking = await self._database.read(partial(_read_lacking, owner))
            if not lacking:
                return
            rows = await asyncio.to_thread(_make_rows, lacking)
            await self._database.write(partial(_add_rows, lacking, rows))
            count += sum(len(one.bodies) for one in lacking) or 1

    def _search(self, words: Sequence[str], *, left: bool, results: bool) -> "_Search":
        """Return what is searched, in the database's own words."""
        query, said = self._sql.query(words), self._sql.said
        if results:
            return _Search(f"({said} OR {self._sql.results})", (query, query), left)
        return _Search(said, (query,), left)


async def drop_lost_words(session: str, connection: TableConnection) -> None:
    """Remove the words of messages that were deleted, also as part of a version."""
    await connection.execute(_DROP_LOST, (session, session, session))


# Into the index.


async def _read_lacking(owner: str | None, connection: TableConnection) -> list[_Lacking]:
    """Return what the next transaction indexes: the sessions that were active last come first."""
    sql, values = (_LACKING, ()) if owner is None else (f"{_LACKING} AND owner = ?", (owner,))
    rows = await connection.fetch_all(f"{sql} ORDER BY active DESC LIMIT {_MOST_AT_ONCE}", values)
    lacking: list[_Lacking] = []
    count = size = 0
    for session, name, name_indexed, indexed, last, removed in rows:
        bodies = [
            *await connection.fetch_all(_MESSAGES, (session, indexed - removed, indexed, _MOST_OF_ONE)),
            *await connection.fetch_all(_LEFT, (session, indexed, _MOST_OF_ONE)),
        ]
        bodies = sorted(bodies, key=lambda row: row[0])[:_MOST_OF_ONE]
        until = last if len(bodies) < _MOST_OF_ONE else bodies[-1][0]
        lacking.append(_Lacking(session, None if name_indexed else name, indexed, until, bodies=bodies))
        count += len(bodies)
        size += sum(len(body) for _, body in bodies)
        if count >= _MOST_AT_ONCE or size >= _MOST_BYTES:
            break
    return lacking


def _make_rows(lacking: Sequence[_Lacking]) -> list[list[Row]]:
    """Return the rows of the index for each of these sessions."""
    return [[row for number, body in one.bodies if (row := _make_row(one.session, number, body))] for one in lacking]


def _make_row(session: str, number: int, body: bytes) -> Row | None:
    try:
        message = decoder().decode(body)
    except msgspec.DecodeError:  # it is damaged: who loads the session is told
        return None
    words = words_of(_text_of(message))
    return (session, number, _part_of(message), " ".join(words)) if words else None


async def _add_rows(lacking: Sequence[_Lacking], rows: Sequence[Sequence[Row]], connection: TableConnection) -> None:
    """Add the words of these sessions to the index, without those of messages that were deleted meanwhile."""
    for one, of_session in zip(lacking, rows, strict=True):
        removed = await connection.fetch_value("SELECT removed FROM sessions WHERE id = ?", (one.session,))
        if removed is None:  # it was deleted meanwhile
            continue
        if one.name is not None:
            await _add_name(one.session, one.name, connection)
        if of_session:  # some messages may have been deleted meanwhile: their words must not come back
            values = (one.session, one.after - removed, one.after, one.session, one.after)
            there = {number for (number,) in await connection.fetch_all(_NUMBERS, values)}
            await connection.execute_many(_ADD, [row for row in of_session if row[1] in there])
        sql = "UPDATE sessions SET indexed = ? WHERE id = ? AND indexed = ?"
        await connection.execute(sql, (one.until, one.session, one.after))


async def _add_name(session: str, name: str, connection: TableConnection) -> None:
    """Index the name of a session, in place of an earlier one. If it has changed meanwhile, it is indexed again."""
    await connection.execute("DELETE FROM searched WHERE session = ? AND number = 0", (session,))
    if words := words_of(name):
        await connection.execute(_ADD, (session, 0, _SAID, " ".join(words)))
    await connection.execute("UPDATE sessions SET name_indexed = TRUE WHERE id = ? AND name = ?", (session, name))


def _part_of(message: Message) -> int:
    return _RESULTS if isinstance(message, ResultsMessage) else _SAID


def _text_of(message: Message) -> str:
    """Return the text of a message, or the texts in the results of calls, a line each."""
    if isinstance(message, ResultsMessage):
        return "\n".join(text for one in message.results for text in _texts(_result_of(one.envelope)))
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _result_of(envelope: str) -> Json:
    """Return what an envelope has for people: the result, or the message of an error."""
    try:
        value: Json = msgspec.json.decode(envelope)
    except msgspec.DecodeError:
        return envelope
    return [value.get("result"), value.get("message")] if isinstance(value, dict) else value


def _texts(value: Json) -> Iterator[str]:
    """Yield all texts and numbers in a value."""
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


# Out of the index.


class _Search(NamedTuple):
    """What is searched."""

    has_words: str
    """The condition for rows of `searched`."""
    values: Row
    """Its values."""
    left: bool
    """Whether versions that were left are searched, too."""


async def _find(
    owner: str, wanted: SessionFilter, search: _Search, limit: int, connection: TableConnection
) -> tuple[FoundText, ...]:
    """Return one text for each session of the owner that has the words, the last active session first."""
    terms, given = filter_terms(wanted)
    sql = _FIND.format(has_words=search.has_words, terms=terms)
    found: list[FoundText] = []
    offset, is_last = 0, False
    while len(found) < limit and not is_last:
        rows = await connection.fetch_all(sql, (*search.values, owner, *given, limit, offset))
        for row in rows:
            session, least, first = session_of(row[:-2]), *row[-2:]
            text = await _find_text(session, search, first, connection)
            if text is not None:
                found.append(text)
            elif least == 0:
                found.append(FoundText(session, 0, session.name))
            elif search.left and (left := await _find_left(session, search, connection)) is not None:
                found.append(left)
        offset, is_last = offset + limit, len(rows) < limit
    return tuple(found[:limit])


async def _find_text(
    session: SessionRecord, search: _Search, first: int | None, connection: TableConnection
) -> FoundText | None:
    """Return the first message with the words that is part of the conversation now. `first`: the first of all."""
    if first is None:
        return None
    number = first % 2**40
    if session.removed:  # places and numbers differ, and some may belong to versions that were left
        sql = "SELECT number, seq FROM messages WHERE session = ?"
        rows: Sequence[Any] = await connection.fetch_all(sql, (session.id,))
        current: dict[int, int] = dict(rows)
        numbers = await _numbers(session, search, connection)
        number = next((current[each] for each in numbers if each in current), 0)
    row = await connection.fetch_one("SELECT body FROM messages WHERE session = ? AND seq = ?", (session.id, number))
    return None if row is None else _found_text(session, number, row[0])


async def _find_left(session: SessionRecord, search: _Search, connection: TableConnection) -> FoundText | None:
    """Return the first message with the words in a version that was left."""
    sql = "SELECT place, body, branch FROM left_messages WHERE session = ? AND number = ?"
    for number in await _numbers(session, search, connection):
        if (row := await connection.fetch_one(sql, (session.id, number))) is not None:
            return _found_text(session, *row)
    return None


async def _numbers(session: SessionRecord, search: _Search, connection: TableConnection) -> list[int]:
    """Return the numbers of all messages of the session with the words."""
    sql = f"SELECT number FROM searched WHERE session = ? AND number > 0 AND {search.has_words} ORDER BY {_PLACE}"
    return [number for (number,) in await connection.fetch_all(sql, (session.id, *search.values))]


def _found_text(session: SessionRecord, seq: int, body: bytes, branch: int | None = None) -> FoundText:
    message = decoder().decode(body)
    return FoundText(session, seq, _text_of(message), branch, is_result=isinstance(message, ResultsMessage))
