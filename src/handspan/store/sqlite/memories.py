"""Memories: short texts that clients keep for their owner, found again by the words in them (graph.md 9.5)."""

import heapq
import os
import re
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from handspan.core.errors import ToolError
from handspan.core.records import FoundMemory, MemoryFilter, MemoryRecord
from handspan.core.store import MOST_MEMORIES
from handspan.core.values import JsonObject, encode, plain
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Row

_COLUMNS: Final = "id, owner, at, thread, kind, category, content, metadata"
_INSERT: Final = (
    f"INSERT INTO memories ({_COLUMNS}) SELECT ?, ?, ?, ?, ?, ?, ?, ?"
    " WHERE (SELECT COUNT(*) FROM memories WHERE owner = ?) < ?"
)

_read_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class StoredMemories:
    """The memories of owners. One that the owner does not have is a `ToolError` (`file_not_found`)."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def add(
        self, content: str, *, owner: str, kind: str, category: str, metadata: JsonObject, thread: str = ""
    ) -> MemoryRecord:
        """Keep it. `ToolError` (`invalid_arguments`) when the owner has too many."""
        made = (os.urandom(12).hex(), plain(owner), self._clock(), plain(thread), kind, plain(category), plain(content))
        memory = MemoryRecord(*made, metadata)
        row = (*msgspec.structs.astuple(memory)[:-1], encode(metadata), memory.owner, MOST_MEMORIES)
        if await self._database.write(lambda connection: connection.execute(_INSERT, row).rowcount) == 0:
            raise ToolError("invalid_arguments", f"There are {MOST_MEMORIES} memories already: forget some first.")
        return memory

    async def get(self, memory_id: str, *, owner: str) -> MemoryRecord:
        """This one."""
        sql, key = f"SELECT {_COLUMNS} FROM memories WHERE id = ? AND owner = ?", (plain(memory_id), plain(owner))
        row = await self._database.read(lambda connection: connection.execute(sql, key).fetchone())
        if row is None:
            raise _gone(memory_id)
        return _memory(row)

    async def change(self, memory_id: str, content: str, metadata: JsonObject | None, *, owner: str) -> None:
        """Let it say this from now on; without metadata that stays as it is."""
        sql = "UPDATE memories SET content = ?, metadata = COALESCE(?, metadata) WHERE id = ? AND owner = ?"
        kept = None if metadata is None else encode(metadata)
        await self._write_one(memory_id, sql, (plain(content), kept, plain(memory_id), plain(owner)))

    async def delete(self, memory_id: str, *, owner: str) -> None:
        """Remove it."""
        sql = "DELETE FROM memories WHERE id = ? AND owner = ?"
        await self._write_one(memory_id, sql, (plain(memory_id), plain(owner)))

    async def all(self, *, owner: str, limit: int) -> list[MemoryRecord]:
        """The newest ones, the newest first."""
        return await self._database.read(lambda connection: list(_wanted(owner, MemoryFilter(), connection, limit)))

    async def search(
        self, query: str, wanted: MemoryFilter, *, owner: str, limit: int, least: float = 0.0
    ) -> list[FoundMemory]:
        """Those that have some of the words, the best first; of equals the newest first. `least`: the lowest score."""
        return await self._database.read(partial(_search, query, wanted, owner, limit, least))

    async def forget(self, wanted: MemoryFilter, *, owner: str) -> int:
        """Remove those that are so; how many they were."""

        def work(connection: sqlite3.Connection) -> int:
            ids = [(memory.id,) for memory in _wanted(owner, wanted, connection)]
            connection.executemany("DELETE FROM memories WHERE id = ?", ids)
            return len(ids)

        return await self._database.write(work)

    async def _write_one(self, memory_id: str, sql: str, values: Row) -> None:
        if await self._database.write(lambda connection: connection.execute(sql, values).rowcount) == 0:
            raise _gone(memory_id)


def words_of(query: str) -> list[re.Pattern[str]]:
    """The words of a query, each as what finds it in a `normal` text.

    Words of scripts with capital letters are found as whole words. Other scripts may put nothing between their words:
    such a word is found wherever it stands. What has no letters and no digits is looked for as it is.
    """
    text = normal(query)
    spaced = "".join(letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in text)
    return [_pattern(word) for word in dict.fromkeys(spaced.split() or [text.strip()])]


def normal(text: str) -> str:
    """The text as it is compared: neither capitals nor the way accents are written make a difference."""
    return unicodedata.normalize("NFC", text).casefold()


def _pattern(word: str) -> re.Pattern[str]:
    stands_alone = any(letter.isalnum() for letter in word) and not any(map(_has_no_capitals, word))
    return re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" if stands_alone else re.escape(word))


def _has_no_capitals(letter: str) -> bool:
    return letter.isalpha() and letter.lower() == letter.upper()


def _search(
    query: str, wanted: MemoryFilter, owner: str, limit: int, least: float, connection: sqlite3.Connection
) -> list[FoundMemory]:
    words = words_of(query)
    scored = (FoundMemory(memory, _score(words, memory.content)) for memory in _wanted(owner, wanted, connection))
    good = (found for found in scored if found.score > 0 and found.score >= least)
    return heapq.nlargest(limit, good, key=lambda found: found.score)


def _score(words: list[re.Pattern[str]], content: str) -> float:
    text = normal(content)
    return sum(word.search(text) is not None for word in words) / len(words)


def _wanted(
    owner: str, wanted: MemoryFilter, connection: sqlite3.Connection, limit: int = -1
) -> Iterator[MemoryRecord]:
    """Those that are so, the newest first."""
    sql = (
        f"SELECT {_COLUMNS} FROM memories WHERE owner = ? AND (? IS NULL OR kind = ?) AND (? IS NULL OR category = ?)"
        " ORDER BY at DESC, id DESC LIMIT ?"
    )
    category = None if wanted.category is None else plain(wanted.category)
    values = (plain(owner), wanted.kind, wanted.kind, category, category, limit)
    return filter(wanted.fits, map(_memory, connection.execute(sql, values)))


def _memory(row: Row) -> MemoryRecord:
    memory_id, owner, at, thread, kind, category, content, metadata = row
    return MemoryRecord(memory_id, owner, at, thread, kind, category, content, _read_object(metadata))


def _gone(memory_id: str) -> ToolError:
    text = f"There is no memory {memory_id[:60]!r}: it was never made, is not yours, or was deleted."
    return ToolError("file_not_found", text)
