"""Memories of an owner (`protocol/graph.md` 9.5), as they are asked for and shown.

Bodies are read by `graph_bodies.read_body`; `config` and `options`, which clients send everywhere, are ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.values import JsonObject

MemoryType: TypeAlias = Literal["episodic", "semantic", "procedural", "entity", "relationship", "custom", "declarative"]
Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100_000, pattern=r"\S")]
Query: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"\S")]
"""Short: every word of it is looked for in every memory."""


class StoreBody(Struct, frozen=True):
    """A memory to keep."""

    content: Words
    memory_type: MemoryType = "episodic"
    category: str = "general"
    metadata: JsonObject | None = None


class SearchBody(Struct, frozen=True):
    """What to look for."""

    query: Query
    memory_type: MemoryType | None = None
    category: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    score_threshold: float | None = None
    filters: JsonObject | None = None
    """Fields that the metadata has to have, with these values."""


class ListBody(Struct, frozen=True):
    """How many to show."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class UpdateBody(Struct, frozen=True):
    """What a memory says from now on."""

    content: Words
    metadata: JsonObject | None = None
    """Null leaves it as it is."""


class ForgetBody(Struct, frozen=True):
    """Which memories to remove: those that fit all that is said here."""

    memory_type: MemoryType | None = None
    category: str | None = None
    filters: JsonObject | None = None


class MemoryShown(Struct, frozen=True, kw_only=True):
    """One memory."""

    id: str
    content: str
    score: float = 0.0
    """How well it fits what was looked for, 0 to 1."""
    memory_type: MemoryType
    metadata: JsonObject
    """With its `category`."""
    vector: None = None
    user_id: str | None = None
    thread_id: str | None = None
    timestamp: str
    """ISO 8601 in UTC."""


class StoredAnswer(Struct, frozen=True):
    """It is kept, under this id."""

    memory_id: str


class FoundAnswer(Struct, frozen=True):
    """What was found, the best first."""

    results: Sequence[MemoryShown]


class MemoryAnswer(Struct, frozen=True):
    """The one that was asked for."""

    memory: MemoryShown


class MemoriesAnswer(Struct, frozen=True):
    """What is kept, the newest first."""

    memories: Sequence[MemoryShown]


class ChangedAnswer(Struct, frozen=True):
    """It is changed, or removed."""

    success: Literal[True] = True
    data: JsonObject | None = None
