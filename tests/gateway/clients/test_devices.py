"""Devices: their labels, their presence, and what changed about their tools (SPEC W10, T5; ws.md 7)."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from handspan.core.errors import StoreError, ToolError
from handspan.core.records import DeviceRow
from handspan.gateway.clients import devices as module
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.owned_devices import DeviceInfo
from tests.store.things import Clock
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio


class CountingBook:
    """A book in memory that counts what is written, and can refuse."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], DeviceRow] = {}
        self.saved: list[DeviceRow] = []
        self.refuses = False
        self.is_slow: asyncio.Event | None = None

    async def all(self, *, owner: str | None = None) -> Sequence[DeviceRow]:
        return list(self.rows.values())

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        if self.is_slow is not None:
            await self.is_slow.wait()
        if self.refuses:
            raise StoreError("The disk is full.")
        self.saved += rows
        self.rows.update({(row.owner, row.id): row for row in rows})

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        if self.refuses:
            raise StoreError("The disk is full.")
        for key in devices:
            self.rows.pop(key, None)


class BookOfNothing:
    """Takes rows, and keeps none: what is measured is the memory of `Devices`."""

    async def all(self, *, owner: str | None = None) -> Sequence[DeviceRow]:
        return ()

    async def save(self, rows: Sequence[DeviceRow]) -> None: ...

    async def delete(self, keys: Sequence[tuple[str, str]]) -> None: ...


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book() -> CountingBook:
    return CountingBook()


@pytest.fixture
async def devices(book: CountingBook, clock: Clock) -> AsyncIterator[Devices]:
    """Devices that nobody knows yet."""
    devices = Devices(book, clock)
    await soon(devices.open())
    yield devices
    await soon(devices.close())


async def shown(devices: Devices, owner: str = "ann") -> dict[str, DeviceInfo]:
    return {device.label: device for device in await soon(devices.all(owner))}


async def next_life(book: CountingBook, clock: Clock) -> Devices:
    """The gateway, restarted."""
    devices = Devices(book, clock)
    await soon(devices.open())
    return devices


# What can't be.


@pytest.mark.parametrize("name", ["", "My Phone", "büro", "a__b", "_a", "a_", "8ball", "x" * 25, "Phone", "\ud800"])
async def test_a_name_that_no_device_can_have_is_refused_with_one_that_it_could(devices: Devices, name: str) -> None:
    devices.connect("ann", "phone", "")
    with pytest.raises(ToolError, match="use lower-case letters, digits and single '_'") as refused:
        await soon(devices.rename("phone", name, "ann"))
    assert refused.value.code == "invalid_arguments"
    fitting = str(refused.value).rpartition("as in ")[2].strip("'.")
    assert await soon(devices.rename("phone", fitting, "ann"))


async def test_a_name_that_is_taken_is_refused(devices: Devices) -> None:
    for wanted in ("phone", "tablet", "laptop"):
        devices.connect("ann", wanted, "")
    devices.end("ann", "tablet")
    assert await soon(devices.rename("laptop", "desk", "ann"))
    for taken in ("tablet", "desk", "laptop"):  # one that is away has its name too; and one keeps its own till it ends
        with pytest.raises(ToolError, match=f"Another device is called '{taken}'") as refused:
            await soon(devices.rename("phone", taken, "ann"))
        assert refused.value.code == "invalid_arguments"
    assert await soon(devices.rename("phone", "phone", "ann"))


async def test_a_device_that_has_just_come_to_another_node_still_has_the_tools_that_it_offered_last(
    devices: Devices,
) -> None:
    devices.appear("ann", "phone", "", {"camera": "f1"})
    devices.disappear("ann", "phone")
    devices.appear("ann", "phone", "", {})
    assert "does not offer it now" in devices.explain_absence("ann", "phone__camera")
    assert (await shown(devices))["phone"].tools == ("camera",)
    assert devices.explain_absence("ann", "phone__torch") == ""
    devices.appear("ann", "phone", "", {"torch": "f2"})
    assert devices.explain_absence("ann", "phone__camera") == ""


async def test_what_is_not_yours_is_as_if_it_never_was(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    for owner, label in (("bob", "phone"), ("ann", "tablet"), ("ann", "")):
        assert not await soon(devices.rename(label, "mine", owner))
        assert not await soon(devices.forget(label, owner))
        assert not await soon(devices.mark_seen(label, owner))
        assert devices.record_offer(owner, label, {"camera": "f1"}) == []
        devices.disconnect(owner, label)
        devices.reconnect(owner, label)
        devices.end(owner, label)
    assert await soon(devices.all("bob")) == []
    assert (await shown(devices))["phone"].connected
    assert devices.connect("bob", "phone", "") == "phone"


async def test_a_change_of_a_person_that_can_t_be_kept_is_said_and_kept_later(
    devices: Devices, book: CountingBook, caplog: pytest.LogCaptureFixture
) -> None:
    devices.connect("ann", "phone", "")
    book.refuses = True
    with pytest.raises(StoreError, match="The disk is full"):
        await soon(devices.rename("phone", "pixel", "ann"))
    assert "The changes of 1 devices are not stored yet: The disk is full." in caplog.text
    book.refuses = False
    assert await soon(devices.mark_seen("pixel", "ann"))  # nothing to write
    devices.connect("ann", "tablet", "")
    await soon(devices.close())
    assert {row.label for row in book.rows.values()} == {"pixel", "tablet"}


async def test_what_can_t_be_kept_at_the_end_either_is_said(
    book: CountingBook, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    devices = Devices(book, clock)
    book.refuses = True
    devices.connect("ann", "phone", "")
    await soon(devices.close())
    assert "The changes of 1 devices are lost: The disk is full." in caplog.text


async def test_what_changes_while_a_write_fails_is_what_is_kept(devices: Devices, book: CountingBook) -> None:
    book.is_slow, book.refuses = asyncio.Event(), True
    devices.connect("ann", "phone", "")
    await asyncio.sleep(0)  # it is being written
    devices.record_offer("ann", "phone", {"camera": "f1"})
    book.is_slow.set()
    await soon(devices.close())
    book.refuses = False
    await soon(devices.close())
    assert [row.tools for row in book.rows.values()] == [{"camera": "f1"}]


# Labels.


@pytest.mark.parametrize(
    ("wanted", "name", "label"),
    [
        ("phone", "", "phone"),
        ("Ann's Phone!", "", "ann_s_phone"),
        ("", "Pixel 8 Pro", "pixel_8_pro"),
        ("手机", "Büro-PC", "buro_pc"),
        ("手机", "", "device"),
        ("", "", "device"),
        ("8ball", "", "device_8ball"),
        ("a__b--c", "", "a_b_c"),
        ("Straße", "", "strasse"),
        ("x" * 23 + "_yz", "", "x" * 23),
        ("\ud800\u202ephone", "", "phone"),
    ],
)
async def test_a_label_is_made_of_what_was_asked_for_or_of_the_name(
    devices: Devices, wanted: str, name: str, label: str
) -> None:
    assert devices.connect("ann", wanted, name) == label


async def test_a_label_that_another_living_device_has_is_numbered(devices: Devices) -> None:
    assert [devices.connect("ann", "phone", "") for _ in range(3)] == ["phone", "phone_2", "phone_3"]
    devices.disconnect("ann", "phone_2")  # it may come back
    assert devices.connect("ann", "phone", "") == "phone_4"
    devices.end("ann", "phone_2")
    assert devices.connect("ann", "phone", "") == "phone_2"
    assert devices.connect("ann", "phone_2", "") == "phone_2_2"


async def test_a_long_label_is_numbered_within_its_length(devices: Devices) -> None:
    labels = [devices.connect("ann", "x" * 40, "") for _ in range(12)]
    assert labels[0] == "x" * 24
    assert labels[1] == "x" * 22 + "_2"
    assert labels[11] == "x" * 21 + "_12"
    assert len(set(labels)) == 12


async def test_a_device_is_called_as_the_person_said_from_its_next_connection_on(
    devices: Devices, book: CountingBook, clock: Clock
) -> None:
    devices.connect("ann", "phone", "")
    assert await soon(devices.rename("phone", "pixel", "ann"))
    assert [(device.id, device.label) for device in await soon(devices.all("ann"))] == [("phone", "pixel")]
    devices.disconnect("ann", "phone")  # until then it has the old one
    devices.reconnect("ann", "phone")
    assert (await shown(devices))["pixel"].connected
    devices.end("ann", "phone")
    assert devices.connect("ann", "phone", "") == "pixel"
    later = await next_life(book, clock)
    assert later.connect("ann", "phone", "") == "pixel"
    assert later.connect("ann", "phone", "") == "phone_2"


async def test_until_its_next_connection_a_renamed_device_says_what_its_tools_are_called(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    devices.record_offer("ann", "phone", {"camera": "f1"})
    assert devices.connected_as("phone", "ann") == devices.connected_as("nope", "ann") == ""
    await soon(devices.rename("phone", "pixel", "ann"))
    assert (await shown(devices))["pixel"].connected_as == devices.connected_as("pixel", "ann") == "phone"
    said = devices.explain_absence("ann", "pixel__camera")
    assert said == "the device 'pixel' has its new name from its next connection on. Call 'phone__camera' until then."
    devices.end("ann", "phone")
    assert devices.connected_as("pixel", "ann") == ""
    devices.connect("ann", "phone", "")
    assert (await shown(devices))["pixel"].connected_as == ""


async def test_a_device_that_asks_for_the_name_that_a_person_gave_it_is_the_same_device(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    await soon(devices.rename("phone", "pixel", "ann"))
    devices.end("ann", "phone")
    assert devices.connect("ann", "pixel", "") == "pixel"
    assert devices.connect("ann", "pixel", "") == "pixel_2"
    assert sorted(device.id for device in await soon(devices.all("ann"))) == ["phone", "pixel_2"]


async def test_a_device_that_was_renamed_often_leaves_no_name_behind(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    for label, new in (("phone", "a"), ("a", "b"), ("phone", "phone"), ("phone", "c")):
        assert await soon(devices.rename(label, new, "ann"))
    devices.end("ann", "phone")
    assert await soon(devices.rename("c", "d", "ann"))
    assert list(await shown(devices)) == ["d"]
    devices.connect("ann", "tablet", "")
    for free in ("a", "b", "c", "phone"):
        assert await soon(devices.rename("tablet", free, "ann"))


async def test_two_devices_that_two_gateways_called_the_same_get_two_names(book: CountingBook, clock: Clock) -> None:
    await soon(book.save([DeviceRow("ann", "a", "same", "", 1.0), DeviceRow("ann", "b", "same", "", 1.0)]))
    devices = await next_life(book, clock)
    assert list(await shown(devices)) == ["same", "same_2"]
    assert (devices.connect("ann", "a", ""), devices.connect("ann", "b", "")) == ("same", "same_2")
    await soon(devices.close())


# Presence.


async def test_presence_and_last_seen_follow_the_link(devices: Devices, clock: Clock) -> None:
    came = clock.now
    devices.connect("ann", "phone", "Ann's phone")
    clock.now += 600
    [phone] = await soon(devices.all("ann"))
    assert phone == DeviceInfo("phone", "phone", "Ann's phone", True, came + 600, (), ())
    devices.disconnect("ann", "phone")
    clock.now += 600
    devices.disconnect("ann", "phone")  # it was gone before
    [phone] = await soon(devices.all("ann"))
    assert (phone.connected, phone.last_seen) == (False, came + 600)
    devices.reconnect("ann", "phone")
    assert (await shown(devices))["phone"].connected
    devices.end("ann", "phone")
    [phone] = await soon(devices.all("ann"))
    assert (phone.connected, phone.last_seen) == (False, came + 1200)
    devices.reconnect("ann", "phone")  # only a new connection brings it back
    assert not (await shown(devices))["phone"].connected


async def test_a_forgotten_device_is_gone_and_begins_anew(devices: Devices, book: CountingBook) -> None:
    devices.connect("ann", "phone", "")
    devices.record_offer("ann", "phone", {"camera": "f1"})
    await soon(devices.rename("phone", "pixel", "ann"))
    devices.end("ann", "phone")
    assert await soon(devices.forget("pixel", "ann"))
    assert not await soon(devices.forget("pixel", "ann"))
    assert book.rows == {}
    assert await soon(devices.all("ann")) == []
    assert devices.connect("ann", "phone", "") == "phone"
    assert devices.record_offer("ann", "phone", {"camera": "f2"}) == []


async def test_a_device_that_is_forgotten_while_it_is_here_goes_when_it_ends(
    devices: Devices, book: CountingBook
) -> None:
    devices.connect("ann", "phone", "")
    assert await soon(devices.forget("phone", "ann"))
    assert list(await shown(devices)) == ["phone"]
    assert devices.record_offer("ann", "phone", {"camera": "f1"}) == []
    devices.disconnect("ann", "phone")
    devices.end("ann", "phone")
    assert await soon(devices.all("ann")) == []
    await soon(devices.close())
    assert book.rows == {}


async def test_of_too_many_devices_those_not_seen_for_the_longest_time_are_forgotten(
    devices: Devices, book: CountingBook, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DEVICES", 20)
    for number in range(21):
        clock.now += 100
        devices.connect("ann", f"d{number}", "")
        if number > 2:  # the first three stay connected
            devices.end("ann", f"d{number}")
    assert sorted({f"d{number}" for number in range(21)} - set(await shown(devices))) == ["d3", "d4"]
    await soon(devices.close())
    assert len(book.rows) == 19


# What is written.


async def test_ten_thousand_that_connect_again_within_a_minute_write_nothing(
    devices: Devices, book: CountingBook, clock: Clock
) -> None:
    for life in range(2):
        for number in range(1000):
            label = devices.connect("ann", f"d{number}", "a name")
            devices.record_offer("ann", label, {"camera": "f1"})
            devices.end("ann", label)
        await soon(devices.close())
        assert len(book.saved) == 1000, life  # each once, however much was said of it
        clock.now += 59
    clock.now += 1
    devices.connect("ann", "d1", "a name")
    await soon(devices.close())
    assert len(book.saved) == 1001


async def test_those_that_are_still_here_at_the_end_were_seen_then(
    devices: Devices, book: CountingBook, clock: Clock
) -> None:
    devices.connect("ann", "phone", "")
    devices.connect("ann", "tablet", "")
    left = clock.now
    devices.disconnect("ann", "tablet")
    clock.now += 3600
    await soon(devices.close())
    assert {row.id: row.last_seen for row in book.rows.values()} == {"phone": clock.now, "tablet": left}


async def test_all_is_there_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    async with open_store(tmp_path) as store:
        devices = Devices(store.devices, clock)
        await soon(devices.open())
        devices.connect("ann", "phone", "Ann \u202ephone" + "x" * 200)
        devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f2"})
        assert devices.record_offer("ann", "phone", {"camera": "f9"}) == ["camera"]
        await soon(devices.close())
    async with open_store(tmp_path) as store:
        devices = Devices(store.devices, clock)
        await soon(devices.open())
        [phone] = await soon(devices.all("ann"))
        name = ("Ann phone" + "x" * 200)[:100]
        assert phone == DeviceInfo("phone", "phone", name, False, clock.now, ("camera",), ("camera",))
        devices.connect("ann", "phone", "")
        assert devices.record_offer("ann", "phone", {"camera": "f9", "torch": "f8"}) == ["torch"]
        assert (await shown(devices))["phone"].changed == ("camera", "torch")
        await soon(devices.close())


# What changed (SPEC T5).


async def test_a_changed_definition_is_noticed_and_shown_until_somebody_looked(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    assert devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f2"}) == []
    devices.end("ann", "phone")
    devices.connect("ann", "phone", "")
    assert devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f3", "new": "f4"}) == ["torch"]
    assert devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f3", "new": "f4"}) == []
    assert devices.record_offer("ann", "phone", {"camera": "f5", "torch": "f3", "new": "f4"}) == ["camera"]
    assert (await shown(devices))["phone"].changed == ("torch", "camera")
    assert await soon(devices.mark_seen("phone", "ann"))
    assert await soon(devices.mark_seen("phone", "ann"))
    assert (await shown(devices))["phone"].changed == ()
    assert devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f3"}) == ["camera"]


async def test_tools_that_come_in_several_frames_are_compared_all_the_same(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f2"})
    devices.end("ann", "phone")
    devices.connect("ann", "phone", "")
    assert devices.record_offer("ann", "phone", {"camera": "f1"}) == []
    assert (await shown(devices))["phone"].tools == ("camera",)
    assert devices.record_offer("ann", "phone", {"camera": "f1", "torch": "f9"}) == ["torch"]


async def test_a_definition_that_goes_and_comes_back_changed_has_changed(devices: Devices) -> None:
    devices.connect("ann", "phone", "")
    for offered in ({"camera": "f1"}, {}, {"other": "f0"}):
        assert devices.record_offer("ann", "phone", offered) == []
    assert devices.record_offer("ann", "phone", {"camera": "f2"}) == ["camera"]


async def test_what_is_remembered_of_tools_that_are_gone_has_a_limit(devices: Devices, book: CountingBook) -> None:
    devices.connect("ann", "phone", "")
    for number in range(400):
        devices.record_offer("ann", "phone", {f"t{number}": "f1"})
        devices.record_offer("ann", "phone", {f"t{number}": "f2"})
    await soon(devices.close())
    [row] = book.rows.values()
    assert len(row.gone) == 256
    assert len(row.changed) == 257
    assert devices.record_offer("ann", "phone", {"t398": "f3", "t1": "f3"}) == ["t398"]


async def test_a_device_takes_a_few_hundred_bytes(clock: Clock) -> None:
    devices = Devices(BookOfNothing(), clock)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(3000):
            label = devices.connect("ann", f"phone {number}", f"The phone number {number}")
            devices.record_offer("ann", label, {f"tool_{place}": f"{place}" * 64 for place in range(3)})
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / 3000
    finally:
        tracemalloc.stop()
    assert each < 600
