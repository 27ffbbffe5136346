"""Memories: short texts that clients store for their owner, found by their words (graph.md 9.5)."""

import heapq
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from handspan.core.errors import ToolError
from handspan.core.records import FoundMemory, MemoryFilter, MemoryRecord
from handspan.core.store import MAX_MEMORIES
from handspan.core.values import JsonObject, encode, sanitize
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import ALL_ROWS, Row, missing

_COLUMNS: Final = "id, owner, at, thread, kind, category, content, metadata"
_INSERT: Final = (
    f"INSERT INTO memories ({_COLUMNS})"
    " SELECT ?/*text*/, ?/*text*/, ?/*double precision*/, ?/*text*/, ?/*text*/, ?/*text*/, ?/*text*/, ?/*bytea*/"
    " WHERE (SELECT COUNT(*) FROM memories WHERE owner = ?) < ?"
)

_read_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class StoredMemories:
    """Stores memories. Implements `MemoryBook`."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def add(
        self, content: str, *, owner: str, kind: str, category: str, metadata: JsonObject, thread: str = ""
    ) -> MemoryRecord:
        texts = (sanitize(thread), kind, sanitize(category), sanitize(content))
        memory = MemoryRecord(os.urandom(16).hex(), sanitize(owner), self._clock(), *texts, metadata)
        row = (*msgspec.structs.astuple(memory)[:-1], encode(metadata), memory.owner, MAX_MEMORIES)
        if await self._database.execute(_INSERT, row) == 0:
            raise ToolError("invalid_arguments", f"There are {MAX_MEMORIES} memories already: forget some first.")
        return memory

    async def get(self, memory_id: str, *, owner: str) -> MemoryRecord:
        sql, key = f"SELECT {_COLUMNS} FROM memories WHERE id = ? AND owner = ?", (sanitize(memory_id), sanitize(owner))
        row = await self._database.fetch_one(sql, key)
        if row is None:
            raise missing("memory", memory_id)
        return _memory(row)

    async def change(self, memory_id: str, content: str, metadata: JsonObject | None, *, owner: str) -> None:
        sql = "UPDATE memories SET content = ?, metadata = COALESCE(?, metadata) WHERE id = ? AND owner = ?"
        encoded = None if metadata is None else encode(metadata)
        await self._write_one(memory_id, sql, (sanitize(content), encoded, sanitize(memory_id), sanitize(owner)))

    async def delete(self, memory_id: str, *, owner: str) -> None:
        sql = "DELETE FROM memories WHERE id = ? AND owner = ?"
        await self._write_one(memory_id, sql, (sanitize(memory_id), sanitize(owner)))

    async def all(self, *, owner: str, limit: int) -> list[MemoryRecord]:
        return list(await self._database.read(partial(_select, owner, MemoryFilter(), limit=limit)))

    async def search(
        self, query: str, wanted: MemoryFilter, *, owner: str, limit: int, least: float = 0.0
    ) -> list[FoundMemory]:
        """Return the memories that fit these words best."""
        words = word_patterns(query)

        async def work(connection: TableConnection) -> list[FoundMemory]:
            memories = await _select(owner, wanted, connection)
            scored = (FoundMemory(memory, _score(words, memory.content)) for memory in memories)
            good = (found for found in scored if found.score > 0 and found.score >= least)
            return heapq.nlargest(limit, good, key=lambda found: found.score)

        return await self._database.read(work)

    async def forget(self, wanted: MemoryFilter, *, owner: str) -> int:
        async def work(connection: TableConnection) -> int:
            ids = [(memory.id,) for memory in await _select(owner, wanted, connection)]
            await connection.execute_many("DELETE FROM memories WHERE id = ?", ids)
            return len(ids)

        return await self._database.write(work)

    async def _write_one(self, memory_id: str, sql: str, values: Row) -> None:
        if await self._database.execute(sql, values) == 0:
            raise missing("memory", memory_id)


def word_patterns(query: str) -> list[re.Pattern[str]]:
    """Return a pattern for each word of a query, to be searched in a `normalize`d text.

    A word of a script with capital letters matches whole words only. Other scripts may write words without spaces: a
    word of such a script matches anywhere. A query without letters and digits is searched as it is.
    """
    text = normalize(query)
    spaced = "".join(letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in text)
    return [_pattern(word) for word in dict.fromkeys(spaced.split() or [text.strip()])]


def normalize(text: str) -> str:
    """Return the text in the form that is compared: without capitals, with accents in one form."""
    return unicodedata.normalize("NFC", text).casefold()


def _pattern(word: str) -> re.Pattern[str]:
    is_whole = any(letter.isalnum() for letter in word) and not any(map(_has_no_capitals, word))
    return re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" if is_whole else re.escape(word))


def _has_no_capitals(letter: str) -> bool:
    return letter.isalpha() and letter.lower() == letter.upper()


def _score(words: list[re.Pattern[str]], content: str) -> float:
    """Return the share of the words that the content has: 0 to 1."""
    text = normalize(content)
    return sum(word.search(text) is not None for word in words) / len(words)


async def _select(
    owner: str, wanted: MemoryFilter, connection: TableConnection, limit: int = ALL_ROWS
) -> Iterator[MemoryRecord]:
    """Return the memories that fit the filter, the newest first."""
    sql = (
        f"SELECT {_COLUMNS} FROM memories WHERE owner = ? AND (?/*text*/ IS NULL OR kind = ?)"
        " AND (?/*text*/ IS NULL OR category = ?)"
        " ORDER BY at DESC, id DESC LIMIT ?"
    )
    category = None if wanted.category is None else sanitize(wanted.category)
    values = (sanitize(owner), wanted.kind, wanted.kind, category, category, limit)
    return filter(wanted.fits, map(_memory, await connection.fetch_all(sql, values)))


def _memory(row: Row) -> MemoryRecord:
    memory_id, owner, at, thread, kind, category, content, metadata = row
    known = _read_object(metadata)
    return MemoryRecord(memory_id, owner, at, thread, kind=kind, category=category, content=content, metadata=known)
