"""Memories: their limit, and the words of a search."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handspan.core.errors import ToolError
from handspan.core.records import MemoryRecord
from handspan.core.store import Store
from handspan.store.tables import memories
from handspan.store.tables.memories import normalize, word_patterns
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def keep(store: Store, content: str, owner: str = "ann") -> MemoryRecord:
    return await soon(store.memories.add(content, owner=owner, kind="episodic", category="general", metadata={}))


async def test_there_is_a_limit_for_each_owner(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MAX_MEMORIES", 2)
    first = await keep(store, "one")
    await keep(store, "two")
    with pytest.raises(ToolError, match="forget some first") as refused:
        await keep(store, "three")
    assert refused.value.code == "invalid_arguments"
    await keep(store, "another's", owner="bob")
    await soon(store.memories.delete(first.id, owner="ann"))
    await keep(store, "three")


@given(st.text(min_size=1).filter(str.strip))
@example("a_b")
@example("²½Ⅷ q\u0303")
def test_whatever_is_looked_for_is_found_in_itself(query: str) -> None:
    words = word_patterns(query)
    assert words
    assert all(word.search(normalize(query)) for word in words)
