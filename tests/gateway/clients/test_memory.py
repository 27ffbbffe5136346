"""What a gateway keeps of a chat that never ends: its messages, and nothing else (SPEC S7)."""

import gc
import tracemalloc
from pathlib import Path

import pytest

from tests.gateway.raw_clients import Client, running
from tests.waiting import until

pytestmark = pytest.mark.anyio

TURNS = 30
WINDOWS = 3
"""How often the growth is measured. A leak is in each of them; a table of the process that grows is in one."""
MOST_PER_TURN = 4096
"""Bytes. Measured: 2,900 alone, 3,340 after other tests. 2,600 of them are the answer's 840 characters, which are not
all ASCII: two bytes each, and its UTF-8 form, which Python keeps."""


async def take_turns(client: Client) -> None:
    for _ in range(TURNS):
        await client.send("message", content="hello")
        await client.hears_until("done")
    gc.collect()


async def test_a_turn_leaves_nothing_in_memory_but_its_messages(tmp_path: Path) -> None:
    async with running(tmp_path) as place, place.client() as client:
        await client.connected()
        await take_turns(client)
        tracemalloc.start()
        try:
            await take_turns(client)
            grown = [await measure_growth(client) for _ in range(WINDOWS)]
        finally:
            tracemalloc.stop()
    assert min(grown) / TURNS < MOST_PER_TURN


async def measure_growth(client: Client) -> int:
    """The bytes that some turns have left."""
    before, _ = tracemalloc.get_traced_memory()
    await take_turns(client)
    after, _ = tracemalloc.get_traced_memory()
    return after - before


def find_own_garbage() -> set[str]:
    """The types of ours among the objects that only the collector can free, because they refer to each other."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        types = {type(one) for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return {f"{one.__module__}.{one.__qualname__}" for one in types if one.__module__.startswith("handspan.")}


async def test_a_chat_that_has_ended_does_not_wait_for_the_collector(tmp_path: Path) -> None:
    async with running(tmp_path) as place:
        gc.collect()
        gc.disable()  # the collector runs rarely in a gateway: thousands of chats would wait for it
        try:
            for number in range(4):
                async with place.client(f"?session_id=s{number}") as client:
                    await client.connected("events")
                    await client.offers({"name": "lamp", "description": "A lamp.", "parameters": {"type": "object"}})
                    await client.send("message", content="hello")
                    while (await client.hears()).get("event", {}).get("type") != "ended":
                        continue
                await until(lambda: len(place.gateway.parts.peers) == 0)
            sessions = place.gateway.parts.sessions
            while sessions._loaded:  # as when 64 others are loaded
                sessions._on_unloaded(*sessions._loaded.popitem())
            garbage = find_own_garbage()
        finally:
            gc.enable()
    assert garbage == set()
