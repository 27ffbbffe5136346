"""The devices of all owners: their labels, whether they are connected, and their tools (SPEC W10, T5; ws.md 7).

All of it is in memory, so that ten thousand devices can connect at once without waiting for a disk. Changes are written
in the background.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

from handspan.core.errors import ToolError
from handspan.core.names import SEPARATOR
from handspan.core.principals import Origin
from handspan.core.records import DeviceRow
from handspan.core.store import DeviceBook
from handspan.core.values import strip_invisible
from handspan.gateway.clients.device_labels import check_label, clean_label, describe_kept_label
from handspan.gateway.clients.device_writer import DeviceWriter
from handspan.gateway.clients.owned_devices import (
    DeviceInfo,
    Fingerprints,
    KnownDevice,
    OwnedDevices,
    clean_notes,
    describe_device,
)
from handspan.wire.ws_frames import DeviceNotes, RejectedTool

_SEEN_AGAIN: Final = 60.0
"""Seconds after which the time of a device that is seen again is stored."""
_LONGEST_NAME: Final = 100
_MAX_GONE: Final = 256
"""The most tools of a device that are remembered after it stopped offering them."""
MAX_DEVICES: Final = 20_000
"""The most devices of one owner. Beyond that, the devices that were away for the longest time are forgotten."""


class Devices:
    """Gives devices their labels and remembers them. After `open`, connections never wait for the store."""

    def __init__(
        self,
        book: DeviceBook,
        clock: Callable[[], float] = time.time,
        keeper: Callable[[str], Origin | None] = lambda label: None,
    ) -> None:
        """`keeper` returns the source whose tools' names begin with this label; None if a device may have it (R2)."""
        self._book = book
        self._clock = clock
        self._keeper = keeper
        self._owners: dict[str, OwnedDevices] = {}
        self._same: WeakValueDictionary[bytes, Fingerprints] = WeakValueDictionary()
        """The tools that devices share, by their hash."""
        self._none = self._share({})
        self._writer = DeviceWriter(book)
        self._stale: set[str] = set()
        """Owners whose devices another node has changed."""

    async def open(self) -> None:
        """Read the stored devices."""
        for row in await self._book.all():
            owned = self._of(row.owner)
            device = self._make(row.id, owned.unused_label(row.label, row.id), row.name, row.last_seen)
            device.tools, device.gone = self._share(row.tools), self._share(row.gone)
            device.changed, device.token = row.changed, row.token
            owned.add(device)

    async def close(self) -> None:
        """Write the last changes."""
        for owner, owned in self._owners.items():
            for device in owned.by_id.values():
                if device.is_connected and not device.is_elsewhere:
                    self._note_seen(owner, device)
        await self._writer.close()

    # Connections. Nothing here waits.

    def connect(self, owner: str, wanted: str, name: str, token: str = "") -> str:
        """Return the label of a device that has just connected. No other device gets it before `end`.

        `token`: the hash of its access token.
        """
        owned, wanted = self._of(owner), clean_label(wanted, name)
        device_id, device = owned.match(wanted)
        if device is None:
            device = self._make(device_id, device_id, "", 0.0)
            self._forget_oldest(owner, owned)
            owned.add(device)
        before = (device.label, device.name, device.token)
        labels = dict.fromkeys((wanted, device.label))  # as a rule one and the same
        device.kept_label = next((label for label in labels if owned.is_reserved(label)), "")
        if device.kept_label:
            owned.leave_reserved_label(device)
        device.refused = ()
        device.label_now = device.label
        device.is_connected, device.is_elsewhere = True, False
        device.name, device.token = strip_invisible(name)[:_LONGEST_NAME], token
        self._note_seen(owner, device, is_changed=(device.label, device.name, device.token) != before)
        return device.label

    def reconnect(self, owner: str, label: str, token: str = "") -> None:
        """Note that the link of a device is back. `token`: the hash of its access token."""
        device = self._find_by_current_label(owner, label)
        if device is not None:
            device.is_connected = True
            before, device.token = device.token, token
            self._note_seen(owner, device, is_changed=before != token)

    def leave_label(self, owner: str, label: str) -> str:
        """Return the new label of a device that may come back, and whose label is reserved now."""
        device = self._find_by_current_label(owner, label)
        if device is None:
            return label
        owned = self._owners[owner]
        owned.leave_reserved_label(device)
        owned.by_label.pop(label, None)  # a person may have given it another one meanwhile
        device.label_now = device.label
        device.kept_label = label
        self._keep(owner, device)
        return device.label

    def is_reserved(self, label: str) -> bool:
        """Whether no device may have this label."""
        return self._keeper(label) is not None

    def forget_taken(self) -> None:
        """Look for free labels from the beginning: other ones are reserved now."""
        for owned in self._owners.values():
            owned.taken.clear()

    def notice(self, owner: str, label: str) -> str:
        """Return why this device does not have the label that it asked for; empty if it has."""
        device = self._find_by_current_label(owner, label)
        return "" if device is None else self._notice(device)

    def disconnect(self, owner: str, label: str) -> None:
        """Note that the link of a device is gone. It keeps its label, because it may come back."""
        device = self._find_by_current_label(owner, label)
        if device is not None and device.is_connected:
            self._note_seen(owner, device)
            device.is_connected = False

    def end(self, owner: str, label: str) -> None:
        """Free the label of a device that will not reconnect, so that other devices can have it.

        A device that has connected to another node meanwhile keeps the label.
        """
        device = self._find_by_current_label(owner, label)
        if device is None or device.is_elsewhere:
            return
        self.disconnect(owner, label)
        owned = self._owners[owner]
        if device.label_now != device.label:  # renamed meanwhile
            del owned.by_label[device.label_now]
        device.label_now = ""
        owned.taken.clear()
        if not device.is_kept:
            owned.remove(device)

    # Devices of other nodes.

    def appear(self, owner: str, label: str, name: str, fingerprints: Mapping[str, str]) -> None:
        """Note that a device is connected to another node, which stores it. No device here gets its label."""
        owned = self._of(owner)
        device = owned.by_label.get(label)
        if device is None:
            device = self._make(label, label, name, self._clock())
            owned.add(device)
        device.label_now = label
        device.is_connected = device.is_elsewhere = True
        device.name, device.last_seen = name, self._clock()
        if fingerprints:  # else the device has just connected there: its tools follow
            device.tools = self._share(fingerprints)

    def disappear(self, owner: str, label: str) -> None:
        """Note that the device is not connected to the other node any more."""
        device = self._find_by_current_label(owner, label)
        if device is not None and device.is_elsewhere:
            device.is_connected = device.is_elsewhere = False
            device.last_seen, device.label_now = self._clock(), ""
            self._owners[owner].taken.clear()

    def mark_stale(self, owner: str) -> None:
        """Read the owner's devices again before they are shown: another node has changed one."""
        self._stale.add(owner)

    async def _read_again(self, owner: str) -> None:
        """Take over what other nodes have stored about the owner's devices."""
        self._stale.discard(owner)
        owned = self._of(owner)
        rows = {row.id: row for row in await self._book.all(owner=owner)}
        for device in list(owned.by_id.values()):
            if device.id not in rows and not device.label_now:
                owned.remove(device)  # another node has forgotten it
        for row in rows.values():
            known = owned.by_id.get(row.id)
            if known is None:
                label = owned.unused_label(row.label, row.id)
                owned.add(self._make(row.id, label, row.name, row.last_seen))
            device = owned.by_id[row.id]
            if device.label != row.label and row.label not in owned.by_label:
                if device.label != device.label_now:
                    owned.by_label.pop(device.label, None)
                device.label = row.label
                owned.by_label[row.label] = device
                owned.taken.clear()
            device.changed = row.changed
            if not device.label_now or device.is_elsewhere:
                device.gone, device.name, device.token = self._share(row.gone), row.name, row.token
                device.tools = device.tools if device.label_now else self._share(row.tools)
                device.last_seen = max(device.last_seen, row.last_seen)

    def record_offer(
        self, owner: str, label: str, fingerprints: Mapping[str, str], refused: Mapping[str, str] | None = None
    ) -> list[str]:
        """Remember the tools of a device. Return those that it has offered with another definition before (SPEC T5).

        `refused`: the tools that the gateway does not take, and why.
        """
        device = self._find_by_current_label(owner, label)
        if device is None:
            return []
        device.refused = tuple(RejectedTool(name, reason) for name, reason in refused.items()) if refused else ()
        if fingerprints == device.tools:
            return []
        before = {**device.gone, **device.tools}  # the fingerprints of all definitions that it has offered
        changed = [name for name, mark in fingerprints.items() if before.get(name, mark) != mark]
        gone = [(name, mark) for name, mark in before.items() if name not in fingerprints][-_MAX_GONE:]
        device.tools, device.gone = self._share(fingerprints), self._share(dict(gone))
        known = (name for name in (*device.changed, *changed) if name in device.tools or name in device.gone)
        device.changed = tuple(dict.fromkeys(known))
        self._keep(owner, device)
        return changed

    def describe(self, owner: str, label: str, notes: DeviceNotes) -> None:
        """Keep what the device says of itself, cut to what a person reads."""
        device = self._find_by_current_label(owner, label)
        if device is not None:
            device.notes = clean_notes(notes)

    def explain_absence(self, owner: str, tool: str) -> str:
        """Return why this tool is not here, if a device has it that is away or just came back; else an empty string."""
        label, separator, own_name = tool.partition(SEPARATOR)
        device = self.find(owner, label) if separator else None
        if device is None or self.is_reserved(label) or (device.is_connected and own_name not in device.tools):
            return ""
        if device.is_connected and label != device.label_now:
            now = f"{device.label_now}{SEPARATOR}{own_name}"
            return f"the device {label!r} has its new name from its next connection on. Call {now!r} until then."
        if device.is_connected:  # it has just come back: its tools follow
            return f"the device {label!r} is connected, and does not offer it now. Call it again in a moment."
        seen = datetime.fromtimestamp(device.last_seen, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return (
            f"the device {label!r} is not connected (last seen {seen}). Connect it again: start its app, or on a "
            f"computer `handspan device --label {label}`."
        )

    # Requests of people.

    def find(self, owner: str, label: str) -> KnownDevice | None:
        """Return the device that has this label, or gets it with its next connection."""
        owned = self._owners.get(owner)
        return None if owned is None else owned.by_label.get(label)

    async def all(self, owner: str) -> list[DeviceInfo]:
        """Return the owner's devices, sorted by label."""
        if owner in self._stale:
            await self._read_again(owner)
        owned, now = self._owners.get(owner), self._clock()
        devices = sorted(owned.by_id.values(), key=lambda device: device.label) if owned else ()
        return [describe_device(device, now, self._notice(device)) for device in devices]

    async def rename(self, label: str, new: str, owner: str) -> bool:
        """Give a device a new label from its next connection on. Return False when the owner has no such device.

        Raises `ToolError` (`invalid_arguments`) for a label that is taken, or that no device can have.
        """
        device = self.find(owner, label)
        if device is None:
            return False
        check_label(new)
        owned = self._owners[owner]
        keeper = self._keeper(new)
        if keeper is not None:
            raise ToolError("invalid_arguments", f"{describe_kept_label(new, keeper)} Choose another name.")
        if owned.by_label.get(new, device) is not device:
            raise ToolError("invalid_arguments", f"Another device is called {new!r}: choose another name.")
        if device.label != device.label_now:
            del owned.by_label[device.label]
        device.label = new
        owned.by_label[new] = device
        owned.taken.clear()
        self._keep(owner, device)
        await self._writer.flush()
        return True

    def connected_as(self, label: str, owner: str) -> str:
        """Return the label that this device keeps until its next connection; empty if it has no other one."""
        device = self.find(owner, label)
        return "" if device is None else device.connected_as

    async def find_token(self, label: str, owner: str) -> str | None:
        """Return the hash of the token that this device connected with last. Empty: unknown; None: no such device."""
        if owner in self._stale:
            await self._read_again(owner)
        device = self.find(owner, label)
        return None if device is None else device.token

    def find_sharing(self, label: str, owner: str) -> list[str]:
        """Return the labels of the owner's other devices that connected last with the token of this one."""
        device, owned = self.find(owner, label), self._owners.get(owner)
        if device is None or owned is None or not device.token:
            return []
        return sorted(one.label for one in owned.by_id.values() if one.token == device.token and one is not device)

    async def forget(self, label: str, owner: str) -> bool:
        """Forget a device. Return False when the owner has no such device. A connected one is listed until it ends."""
        device = self.find(owner, label)
        if device is None:
            return False
        if device.label_now:
            device.is_kept = False
        else:
            self._owners[owner].remove(device)
        self._writer.delete(owner, device.id)
        await self._writer.flush()
        return True

    async def mark_seen(self, label: str, owner: str) -> bool:
        """Note that a person has seen the changed tools. Return False when the owner has no such device."""
        device = self.find(owner, label)
        if device is None:
            return False
        if device.changed:
            device.changed = ()
            self._keep(owner, device)
            await self._writer.flush()
        return True

    # Inside.

    def _make(self, device_id: str, label: str, name: str, last_seen: float) -> KnownDevice:
        return KnownDevice(device_id, label, name, last_seen, tools=self._none, gone=self._none)

    def _notice(self, device: KnownDevice) -> str:
        keeper = self._keeper(device.kept_label)
        reason = "" if keeper is None else describe_kept_label(device.kept_label, keeper)
        return f"{reason} This device is called {device.label!r} here." if reason else ""

    def _of(self, owner: str) -> OwnedDevices:
        owned = self._owners.get(owner)
        if owned is None:
            owned = self._owners[owner] = OwnedDevices(self.is_reserved)
        return owned

    def _find_by_current_label(self, owner: str, label: str) -> KnownDevice | None:
        """Return the device that uses this label now."""
        device = self.find(owner, label)
        return device if device is not None and label and device.label_now == label else None

    def _note_seen(self, owner: str, device: KnownDevice, *, is_changed: bool = False) -> None:
        """Note that the device is here now. That alone is stored at most once a minute."""
        now = self._clock()
        if not 0 <= now - device.last_seen < _SEEN_AGAIN:
            device.last_seen, is_changed = now, True
        if is_changed:
            self._keep(owner, device)

    def _share(self, fingerprints: Mapping[str, str]) -> Fingerprints:
        """Return the one object for these fingerprints."""
        key = blake2b(repr(list(fingerprints.items())).encode(), digest_size=16).digest()
        shared = self._same.get(key)
        if shared is None:
            shared = self._same[key] = Fingerprints(fingerprints)
        return shared

    def _forget_oldest(self, owner: str, owned: OwnedDevices) -> None:
        """Forget some of the devices that are away, if the owner has too many."""
        if len(owned.by_id) < MAX_DEVICES:
            return
        away = sorted((one for one in owned.by_id.values() if not one.label_now), key=lambda one: one.last_seen)
        for device in away[: MAX_DEVICES // 10]:
            owned.remove(device)
            self._writer.delete(owner, device.id)

    def _keep(self, owner: str, device: KnownDevice) -> None:
        """Store the device soon, unless its owner removed it."""
        if device.is_kept:
            self._writer.save(_row(owner, device))


def _row(owner: str, device: KnownDevice) -> DeviceRow:
    state = (device.last_seen, device.tools, device.gone, device.changed)
    return DeviceRow(owner, device.id, device.label, device.name, *state, device.token)
