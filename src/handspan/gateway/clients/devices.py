"""The devices of all owners: who is there, who was, what each is called and which tools it had (SPEC W10, T5; ws.md 7).

All of it is in memory: ten thousand devices may connect at once, and nobody waits for a disk then. What changed is
written soon, in the background.
"""

import re
import time
import unicodedata
from collections.abc import Callable, Mapping
from hashlib import blake2b
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.core.records import DeviceRow
from handspan.core.store import DeviceBook
from handspan.core.values import strip_invisible
from handspan.gateway.clients.device_writer import DeviceWriter

_SEEN_AGAIN: Final = 60.0
_LONGEST_NAME: Final = 100
_MOST_GONE: Final = 256
MOST_DEVICES: Final = 20_000
"""As many are remembered of one owner; beyond that, those that were not seen for the longest time are forgotten."""


class DeviceInfo(Struct, frozen=True):
    """A device, as its owner sees it."""

    id: str
    label: str
    name: str
    connected: bool
    last_seen: float | None
    """Now, for one that is connected; else to the minute."""
    tools: tuple[str, ...]
    """Its own names of the tools that it offered last."""
    changed: tuple[str, ...]
    """Those whose definition changed, and nobody has looked at them yet."""


class _Tools(dict[str, str]):
    """Names and fingerprints, once for all devices that have the same."""

    __slots__ = ("__weakref__",)


class _Device:
    __slots__ = ("bears", "changed", "gone", "id", "is_connected", "is_kept", "label", "last_seen", "name", "tools")

    def __init__(self, device_id: str, label: str, name: str, last_seen: float, none: _Tools) -> None:
        self.id = device_id
        self.label = label
        self.name = name
        self.last_seen = last_seen
        self.tools = none
        self.gone = none
        self.changed: tuple[str, ...] = ()
        self.bears = ""
        """The label that it has while it is here, or may come back; a new one is for the next time."""
        self.is_connected = False
        self.is_kept = True
        """Not any more when its owner has forgotten it while it was here."""


class _Owned:
    """The devices of one owner. No two of them share a label."""

    __slots__ = ("by_id", "by_label", "taken")

    def __init__(self) -> None:
        self.by_id: dict[str, _Device] = {}
        self.by_label: dict[str, _Device] = {}
        self.taken: dict[str, int] = {}
        """How many devices in a row have a label and its numbered forms: so many need not be looked at again."""

    def asking_for(self, wanted: str) -> tuple[str, _Device | None]:
        """The id of a device that asks for this label now, and what is known of it.

        It is the first one that asked for that, or was given that name by a person, and is not here.
        """
        while True:
            label = number_label(wanted, self.taken.get(wanted, 0) + 1)
            known = [device for device in (self.by_id.get(label), self.by_label.get(label)) if device is not None]
            away = next((device for device in known if not device.bears), None)
            if away is not None or not known:
                return (label, None) if away is None else (away.id, away)
            self.taken[wanted] = self.taken.get(wanted, 0) + 1

    def unused(self, label: str, device_id: str) -> str:
        """This label; numbered where another device has it, which two gateways over one database may have brought."""
        if label == device_id and label not in self.by_label:
            return device_id  # one text is enough for both
        labels = (number_label(label, number) for number in count(1))
        return next(label for label in labels if label not in self.by_label)

    def add(self, device: _Device) -> None:
        self.by_id[device.id] = self.by_label[device.label] = device

    def remove(self, device: _Device) -> None:
        del self.by_id[device.id]
        self.by_label.pop(device.label, None)
        self.by_label.pop(device.bears, None)
        self.taken.clear()


class Devices:
    """Gives devices their labels and remembers them. `open` reads what is kept; then nothing waits."""

    def __init__(self, book: DeviceBook | None, clock: Callable[[], float] = time.time) -> None:
        """Without a book all is forgotten with the process."""
        self._book = book
        self._clock = clock
        self._owners: dict[str, _Owned] = {}
        self._same: WeakValueDictionary[bytes, _Tools] = WeakValueDictionary()
        self._none = self._shared({})
        self._writer = DeviceWriter(book)

    async def open(self) -> None:
        """Read what is kept."""
        for row in await self._book.all() if self._book is not None else ():
            owned = self._owners.setdefault(row.owner, _Owned())
            device = _Device(row.id, owned.unused(row.label, row.id), row.name, row.last_seen, self._none)
            device.tools, device.gone = self._shared(row.tools), self._shared(row.gone)
            device.changed = row.changed
            owned.add(device)

    async def close(self) -> None:
        """Write what is not written yet."""
        for owner, owned in self._owners.items():
            for device in owned.by_id.values():
                if device.is_connected:
                    self._seen(owner, device)
        await self._writer.close()

    # What connections say. Nothing here waits.

    def connect(self, owner: str, wanted: str, name: str) -> str:
        """The label of a device that has just connected; it is its own until it has `ended`."""
        owned = self._owners.setdefault(owner, _Owned())
        device_id, device = owned.asking_for(clean_label(wanted, name))
        if device is None:
            device = _Device(device_id, device_id, "", 0.0, self._none)
            self._make_room(owner, owned)
            owned.add(device)
        device.bears = device.label
        device.is_connected = True
        self._seen(owner, device)
        name = strip_invisible(name)[:_LONGEST_NAME]
        if device.name != name:
            device.name = name
            self._keep(owner, device)
        return device.label

    def reconnect(self, owner: str, label: str) -> None:
        """Its link is back."""
        device = self._here(owner, label)
        if device is not None:
            device.is_connected = True
            self._seen(owner, device)

    def disconnect(self, owner: str, label: str) -> None:
        """Its link is gone. It may come back: the label stays its own."""
        device = self._here(owner, label)
        if device is not None and device.is_connected:
            self._seen(owner, device)
            device.is_connected = False

    def end(self, owner: str, label: str) -> None:
        """It will not come back: the label is free for the next one that asks for it."""
        self.disconnect(owner, label)
        device = self._here(owner, label)
        if device is None:
            return
        owned = self._owners[owner]
        if device.bears != device.label:  # renamed meanwhile
            del owned.by_label[device.bears]
        device.bears = ""
        owned.taken.clear()
        if not device.is_kept:
            owned.remove(device)

    def record_offer(self, owner: str, label: str, fingerprints: Mapping[str, str]) -> list[str]:
        """The names whose definition is not what it was when this device last offered them (SPEC T5)."""
        device = self._here(owner, label)
        if device is None or fingerprints == device.tools:
            return []
        before = {**device.gone, **device.tools}
        changed = [name for name, mark in fingerprints.items() if before.get(name, mark) != mark]
        gone = [(name, mark) for name, mark in before.items() if name not in fingerprints][-_MOST_GONE:]
        device.tools, device.gone = self._shared(fingerprints), self._shared(dict(gone))
        known = (name for name in (*device.changed, *changed) if name in device.tools or name in device.gone)
        device.changed = tuple(dict.fromkeys(known))
        self._keep(owner, device)
        return changed

    # What people ask and say.

    async def all(self, owner: str) -> list[DeviceInfo]:
        """The owner's devices, by label."""
        owned, now = self._owners.get(owner), self._clock()
        devices = sorted(owned.by_id.values(), key=lambda device: device.label) if owned else ()
        return [_shown(device, now) for device in devices]

    async def rename(self, label: str, new: str, owner: str) -> bool:
        """Call it so, from its next connection on; False when the owner has no such device.

        A name that is taken, or that no device can have, is a `ToolError` (`invalid_arguments`).
        """
        device = self._known(owner, label)
        if device is None:
            return False
        check_label(new)
        owned = self._owners[owner]
        if owned.by_label.get(new, device) is not device:
            raise ToolError("invalid_arguments", f"Another device is called {new!r}: choose another name.")
        if device.label != device.bears:
            del owned.by_label[device.label]
        device.label = new
        owned.by_label[new] = device
        owned.taken.clear()
        self._keep(owner, device)
        await self._writer.flush()
        return True

    async def forget(self, label: str, owner: str) -> bool:
        """Remember nothing of it; False when the owner has no such device. One that is here is shown until it ends."""
        device = self._known(owner, label)
        if device is None:
            return False
        if device.bears:
            device.is_kept = False
        else:
            self._owners[owner].remove(device)
        self._writer.delete(owner, device.id)
        await self._writer.flush()
        return True

    async def mark_seen(self, label: str, owner: str) -> bool:
        """A person has seen what changed; False when the owner has no such device."""
        device = self._known(owner, label)
        if device is None:
            return False
        if device.changed:
            device.changed = ()
            self._keep(owner, device)
            await self._writer.flush()
        return True

    # Inside.

    def _here(self, owner: str, label: str) -> _Device | None:
        """The device that has this label now."""
        owned = self._owners.get(owner)
        device = None if owned is None else owned.by_label.get(label)
        return device if device is not None and label and device.bears == label else None

    def _known(self, owner: str, label: str) -> _Device | None:
        owned = self._owners.get(owner)
        return None if owned is None else owned.by_label.get(label)

    def _seen(self, owner: str, device: _Device) -> None:
        now = self._clock()
        if not 0 <= now - device.last_seen < _SEEN_AGAIN:
            device.last_seen = now
            self._keep(owner, device)

    def _shared(self, fingerprints: Mapping[str, str]) -> _Tools:
        key = blake2b(repr(list(fingerprints.items())).encode(), digest_size=16).digest()
        shared = self._same.get(key)
        if shared is None:
            shared = self._same[key] = _Tools(fingerprints)
        return shared

    def _make_room(self, owner: str, owned: _Owned) -> None:
        if len(owned.by_id) < MOST_DEVICES:
            return
        away = sorted((one for one in owned.by_id.values() if not one.bears), key=lambda one: one.last_seen)
        for device in away[: MOST_DEVICES // 10]:
            owned.remove(device)
            self._writer.delete(owner, device.id)

    def _keep(self, owner: str, device: _Device) -> None:
        if device.is_kept:
            self._writer.save(_row(owner, device))


def _row(owner: str, device: _Device) -> DeviceRow:
    told = (device.last_seen, device.tools, device.gone, device.changed)
    return DeviceRow(owner, device.id, device.label, device.name, *told)


def _shown(device: _Device, now: float) -> DeviceInfo:
    seen = now if device.is_connected else device.last_seen
    return DeviceInfo(
        device.id, device.label, device.name, device.is_connected, seen, tuple(device.tools), device.changed
    )


LONGEST: Final = 24
_NOTHING_LEFT: Final = "device"


def clean_label(wanted: str, name: str = "") -> str:
    """A label made of what the device asked for, else of its name: lower case, digits and single `_`."""
    for words in (wanted, name):
        plain = unicodedata.normalize("NFKD", words[:200].casefold())  # letters without their accents
        plain = "".join(char for char in plain if not unicodedata.combining(char))
        label = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
        if label:
            return _shorten(f"{_NOTHING_LEFT}_{label}" if label[0].isdigit() else label, LONGEST)
    return _NOTHING_LEFT


def number_label(label: str, number: int) -> str:
    """The label of the first, second, third … device that asks for this one."""
    if number == 1:
        return label
    tail = f"_{number}"
    return f"{_shorten(label, LONGEST - len(tail))}{tail}"


def check_label(label: str) -> None:
    """Refuse what no device can be called; says what would do."""
    fitting = clean_label(label)
    if label != fitting:
        raise ToolError(
            "invalid_arguments",
            f"A device can't be called {label[:60]!r}: use lower-case letters, digits and single '_', beginning with a "
            f"letter, at most {LONGEST} characters, as in {fitting!r}.",
        )


def _shorten(label: str, length: int) -> str:
    return label[:length].rstrip("_")
