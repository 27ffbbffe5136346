"""Pins of definitions (SPEC T5)."""

from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.records import Pin
from handspan.core.store import Store
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

SEARCH = Pin("ann", "mcp(github)", "search", "f1", {"name": "search", "parameters": {"type": "object"}})
CREATE = structs.replace(SEARCH, name="create", fingerprint="f2")
TORCH = structs.replace(SEARCH, origin="device(phone)", name="torch")
OF_BOB = structs.replace(SEARCH, owner="bob")


async def test_a_tool_that_was_never_seen_has_no_pin(store: Store) -> None:
    await soon(store.pins.set(SEARCH))
    assert await soon(store.pins.get("search", owner="bob", origin="mcp(github)")) is None
    assert await soon(store.pins.get("search", owner="ann", origin="mcp(gitlab)")) is None
    assert await soon(store.pins.get("searches", owner="ann", origin="mcp(github)")) is None


async def test_pins_come_back_whole_in_the_next_process(store: Store, state: Path) -> None:
    await soon(store.pins.set(SEARCH, CREATE, TORCH, OF_BOB))
    async with open_store(state) as later:
        assert await soon(later.pins.get("search", owner="ann", origin="mcp(github)")) == SEARCH
        assert await soon(later.pins.all(owner="ann")) == [TORCH, CREATE, SEARCH]
        assert await soon(later.pins.all(owner="ann", origin="mcp(github)")) == [CREATE, SEARCH]
        assert await soon(later.pins.all(owner="bob")) == [OF_BOB]


async def test_a_newer_definition_takes_the_place_of_the_one_before(store: Store) -> None:
    newer = structs.replace(SEARCH, fingerprint="f3", definition={"name": "search"})
    await soon(store.pins.set(SEARCH))
    await soon(store.pins.set(newer))
    assert await soon(store.pins.all(owner="ann")) == [newer]
