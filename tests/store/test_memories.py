"""Memories: for their owner alone, found by their words, and there after a restart (graph.md 9.5)."""

from pathlib import Path

import pytest

from handspan.core.errors import ToolError
from handspan.core.records import MemoryFilter, MemoryRecord
from handspan.core.store import Store
from handspan.core.values import JsonObject
from tests.store.things import Clock, count
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def keep(
    store: Store,
    content: str,
    kind: str = "episodic",
    category: str = "general",
    owner: str = "ann",
    **known: object,
) -> MemoryRecord:
    metadata: JsonObject = {**known}  # type: ignore[dict-item]  # tests give JSON
    return await soon(store.memories.add(content, owner=owner, kind=kind, category=category, metadata=metadata))


async def found(store: Store, query: str, wanted: MemoryFilter | None = None, **more: float) -> list[tuple[str, float]]:
    least = more.get("least", 0.0)
    hits = await soon(store.memories.search(query, wanted or MemoryFilter(), owner="ann", limit=10, least=least))
    return [(hit.memory.content, hit.score) for hit in hits]


async def test_somebody_elses_memory_is_one_that_never_was(store: Store) -> None:
    theirs = await keep(store, "my secret", owner="bob")
    words = set()
    for memory_id in (theirs.id, "never", "\ud800", ""):
        for attempt in (
            store.memories.get(memory_id, owner="ann"),
            store.memories.change(memory_id, "mine now", {}, owner="ann"),
            store.memories.delete(memory_id, owner="ann"),
        ):
            with pytest.raises(ToolError) as refused:
                await soon(attempt)
            assert refused.value.code == "file_not_found"
            words.add(refused.value.message.replace(repr(memory_id), "…"))
    assert len(words) == 1
    assert await found(store, "secret") == []
    assert await soon(store.memories.all(owner="ann", limit=10)) == []
    assert await soon(store.memories.forget(MemoryFilter(filters={}), owner="ann")) == 0
    assert (await soon(store.memories.get(theirs.id, owner="bob"))).content == "my secret"


async def test_a_search_without_anything_in_common_finds_nothing(store: Store) -> None:
    await keep(store, "The cat sleeps.")
    for query in ("dog", "atom", "ca", "???", "%", "_", "' OR 1=1 --", ".*"):
        assert await found(store, query) == []


async def test_the_score_is_the_part_of_the_words_that_is_there(store: Store, clock: Clock) -> None:
    for content in ("Tea with milk", "Tea, no milk, one sugar", "Coffee"):
        await keep(store, content)
        clock.now += 1
    assert await found(store, "TEA milk sugar tea") == [("Tea, no milk, one sugar", 1.0), ("Tea with milk", 2 / 3)]
    assert await found(store, "tea milk sugar", least=0.9) == [("Tea, no milk, one sugar", 1.0)]
    assert await found(store, "milk") == [("Tea, no milk, one sugar", 1.0), ("Tea with milk", 1.0)]  # the newest first


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("Die ÄPFEL sind reif", "äpfel"),
        ("Straße", "STRASSE"),
        ("caf\u0065\u0301 au lait", "café"),
        ("東京に住んでいます", "東京"),
        ("मुझे हिन्दी पसंद है", "हिन्दी"),
        ("I like 🍎 most", "🍎"),
        ("it costs 4.50 €", "4.50"),
        ("C++ and a_b", "c++"),
        ("C++ and a_b", "B"),
    ],
)
async def test_words_of_any_script_are_found(store: Store, content: str, query: str) -> None:
    await keep(store, content)
    assert await found(store, query) == [(content, 1.0)]


async def test_kind_category_and_metadata_choose(store: Store) -> None:
    await keep(store, "a note", "semantic", "work", starred=True, level=1, tags=["x"])
    await keep(store, "a note too", "episodic", "home", starred=1)
    for wanted, expected in (
        (MemoryFilter("semantic"), ["a note"]),
        (MemoryFilter(None, "home"), ["a note too"]),
        (MemoryFilter("semantic", "home"), []),
        (MemoryFilter(filters={"starred": True}), ["a note"]),
        (MemoryFilter(filters={"starred": 1}), ["a note too"]),
        (MemoryFilter(filters={"level": 1.0, "tags": ["x"]}), ["a note"]),
        (MemoryFilter(filters={"category": "work"}), ["a note"]),
        (MemoryFilter(filters={"unknown": None}), []),
        (MemoryFilter(filters={}), ["a note too", "a note"]),
    ):
        assert sorted(content for content, _ in await found(store, "note", wanted)) == sorted(expected), wanted


async def test_a_memory_is_changed_and_keeps_what_is_not_said(store: Store) -> None:
    kept = await keep(store, "old", "semantic", "work", a=1)
    await soon(store.memories.change(kept.id, "new", None, owner="ann"))
    changed = await soon(store.memories.get(kept.id, owner="ann"))
    assert (changed.content, changed.metadata, changed.at) == ("new", {"a": 1}, kept.at)
    assert changed.shown_metadata == {"a": 1, "category": "work"}
    await soon(store.memories.change(kept.id, "newer", {}, owner="ann"))
    assert (await soon(store.memories.get(kept.id, owner="ann"))).metadata == {}


async def test_the_list_has_the_newest_first_and_no_more_than_asked_for(store: Store, clock: Clock) -> None:
    for number in range(30):
        await keep(store, f"number {number}")
        clock.now += 1
    listed = await soon(store.memories.all(owner="ann", limit=3))
    assert [memory.content for memory in listed] == ["number 29", "number 28", "number 27"]
    hits = await soon(store.memories.search("number", MemoryFilter(), owner="ann", limit=2))
    assert [hit.memory.content for hit in hits] == ["number 29", "number 28"]


async def test_forgetting_removes_what_fits_and_nothing_else(store: Store) -> None:
    await keep(store, "note", "semantic", "a", x=1)
    await keep(store, "note", "semantic", "b")
    await keep(store, "note", "episodic", "a")
    assert await soon(store.memories.forget(MemoryFilter("semantic", filters={"x": 1}), owner="ann")) == 1
    assert await soon(store.memories.forget(MemoryFilter(category="a"), owner="ann")) == 1
    assert await soon(store.memories.forget(MemoryFilter(), owner="ann")) == 1
    assert await count(store, "memories") == 0


async def test_they_last(store: Store, state: Path) -> None:
    kept = await keep(store, "half \ud800", "custom", "手", ü=["half \udc00"])
    await soon(store.close())
    async with open_store(state) as later:
        again = await soon(later.memories.get(kept.id, owner="ann"))
    assert (again.content, again.category, again.metadata) == ("half ?", "手", {"ü": ["half ?"]})
