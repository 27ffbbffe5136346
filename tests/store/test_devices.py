"""Devices as rows."""

from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.records import DeviceRow
from handspan.core.store import DeviceBook, Store
from tests.store.things import count
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

TOOLS = ({"camera": "f1"}, {"torch": "f2"}, ("camera",))
PHONE = DeviceRow("ann", "phone", "pixel", "Ann's phone", 5000.0, *TOOLS, "a1b2")


async def test_forgetting_one_that_was_never_kept_does_nothing(store: Store) -> None:
    await soon(store.devices.save([PHONE]))
    await soon(store.devices.delete([("bob", "phone"), ("ann", "pixel")]))
    assert await soon(store.devices.all()) == [PHONE]


async def test_rows_come_back_whole_in_the_next_process(store: Store, state: Path) -> None:
    book: DeviceBook = store.devices  # mypy compares the two
    of_bob = DeviceRow("bob", "phone", "phone", "", 1.5)
    await soon(book.save([of_bob, PHONE]))
    await soon(store.close())
    async with open_store(state) as later:
        assert await soon(later.devices.all()) == [PHONE, of_bob]


async def test_a_row_takes_the_place_of_the_one_before(store: Store) -> None:
    newer = structs.replace(PHONE, label="mine", last_seen=6000.0, tools={}, changed=())
    await soon(store.devices.save([PHONE]))
    await soon(store.devices.save([newer]))
    assert await soon(store.devices.all()) == [newer]
    await soon(store.devices.delete([("ann", "phone")]))
    assert await count(store, "devices") == 0


async def test_halves_of_characters_become_question_marks(store: Store) -> None:
    broken = structs.replace(PHONE, name="Ann \ud800", tools={"cam\udfff": "f1"}, changed=("cam\udfff",))
    await soon(store.devices.save([broken]))
    [kept] = await soon(store.devices.all())
    assert (kept.name, kept.tools, kept.changed) == ("Ann ?", {"cam?": "f1"}, ("cam?",))
