"""Devices as rows."""

from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.conversations import StoreError
from handspan.core.devices import DeviceBook, DeviceRow
from handspan.store.sqlite.store import SqliteStore
from tests.store.things import count, no_room, soon

pytestmark = pytest.mark.anyio

PHONE = DeviceRow("ann", "phone", "pixel", "Ann's phone", 5000.0, {"camera": "f1"}, {"torch": "f2"}, ("camera",))


async def test_without_room_none_of_several_is_kept(store: SqliteStore) -> None:
    large = structs.replace(PHONE, id="tablet", tools={"x" * 300_000: "f"})
    with no_room(100_000), pytest.raises(StoreError, match="nothing that was acknowledged is lost"):
        await soon(store.devices.save([PHONE, large]))
    assert await soon(store.devices.all()) == []


async def test_forgetting_one_that_was_never_kept_does_nothing(store: SqliteStore) -> None:
    await soon(store.devices.save([PHONE]))
    await soon(store.devices.delete([("bob", "phone"), ("ann", "pixel")]))
    assert await soon(store.devices.all()) == [PHONE]


async def test_rows_come_back_whole_in_the_next_process(store: SqliteStore, state: Path) -> None:
    book: DeviceBook = store.devices  # mypy compares the two
    of_bob = DeviceRow("bob", "phone", "phone", "", 1.5)
    await soon(book.save([of_bob, PHONE]))
    await soon(store.close())
    async with SqliteStore(state) as later:
        assert await soon(later.devices.all()) == [PHONE, of_bob]


async def test_a_row_takes_the_place_of_the_one_before(store: SqliteStore) -> None:
    newer = structs.replace(PHONE, label="mine", last_seen=6000.0, tools={}, changed=())
    await soon(store.devices.save([PHONE]))
    await soon(store.devices.save([newer]))
    assert await soon(store.devices.all()) == [newer]
    await soon(store.devices.delete([("ann", "phone")]))
    assert await count(store, "devices") == 0


async def test_halves_of_characters_become_question_marks(store: SqliteStore) -> None:
    broken = structs.replace(PHONE, name="Ann \ud800", tools={"cam\udfff": "f1"}, changed=("cam\udfff",))
    await soon(store.devices.save([broken]))
    [kept] = await soon(store.devices.all())
    assert (kept.name, kept.tools, kept.changed) == ("Ann ?", {"cam?": "f1"}, ("cam?",))
