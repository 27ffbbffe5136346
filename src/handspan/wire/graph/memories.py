"""Requests and answers about memories of an owner (`protocol/graph.md` 9.5).

`reading.read_body` reads the bodies. `config` and `options`, which clients send everywhere, are ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.values import JsonObject

MemoryType: TypeAlias = Literal["episodic", "semantic", "procedural", "entity", "relationship", "custom", "declarative"]
Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100_000, pattern=r"\S")]
Query: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"\S")]
"""Short: a search compares each word with every memory."""


DEFAULT_CATEGORY: Final = "general"
"""The category of a memory that names none, or an empty one."""


class StoreBody(Struct, frozen=True):
    """A memory to store."""

    content: Words
    memory_type: MemoryType = "episodic"
    category: str = DEFAULT_CATEGORY
    metadata: JsonObject | None = None


class SearchBody(Struct, frozen=True):
    """What to search for."""

    query: Query
    memory_type: MemoryType | None = None
    category: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    score_threshold: float | None = None
    filters: JsonObject | None = None
    """Fields and values that the metadata must have."""


class ListBody(Struct, frozen=True):
    """How many memories to list."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class UpdateBody(Struct, frozen=True):
    """The new content of a memory."""

    content: Words
    metadata: JsonObject | None = None
    """Null: it stays as it is."""


class ForgetBody(Struct, frozen=True):
    """The memories to remove: those that match every field."""

    memory_type: MemoryType | None = None
    category: str | None = None
    filters: JsonObject | None = None


class MemoryView(Struct, frozen=True, kw_only=True):
    """A memory, as clients see it."""

    id: str
    content: str
    score: float = 0.0
    """How well it matches the search, from 0 to 1."""
    memory_type: MemoryType
    metadata: JsonObject
    """With its `category`."""
    vector: None = None
    user_id: str | None = None
    thread_id: str | None = None
    timestamp: str
    """ISO 8601 in UTC."""


class StoredAnswer(Struct, frozen=True):
    """The id of the stored memory."""

    memory_id: str


class FoundAnswer(Struct, frozen=True):
    """The memories that were found, the best first."""

    results: Sequence[MemoryView]


class MemoryAnswer(Struct, frozen=True):
    """One memory."""

    memory: MemoryView


class MemoriesAnswer(Struct, frozen=True):
    """Memories, the newest first."""

    memories: Sequence[MemoryView]


class ChangedAnswer(Struct, frozen=True):
    """The answer to a change or removal."""

    success: Literal[True] = True
    data: JsonObject | None = None
