"""The devices of one owner: what is known about each, and which labels are free (ws.md 7.2)."""

from collections.abc import Callable
from itertools import count
from typing import Final

from msgspec import Struct

from handspan.core.values import strip_invisible
from handspan.gateway.clients.device_labels import number_label
from handspan.wire.ws_frames import DeviceNotes, DeviceScope, RejectedTool

NO_NOTES: Final = DeviceNotes()
_MAX_NOTES: Final = 64
_LONGEST_NOTE: Final = 1000


class Fingerprints(dict[str, str]):
    """Fingerprints by tool name. Devices with the same tools share one object."""

    __slots__ = ("__weakref__",)


class KnownDevice(Struct, eq=False):
    """What is known about one device."""

    id: str
    label: str
    name: str
    last_seen: float
    tools: Fingerprints
    gone: Fingerprints
    """The fingerprints of tools that the device does not offer any more."""
    changed: tuple[str, ...] = ()
    notes: DeviceNotes = NO_NOTES
    kept_label: str = ""
    """A label that the device asked for or had, and that a source of the gateway keeps; empty: there is none."""
    refused: tuple[RejectedTool, ...] = ()
    token: str = ""
    """The hash of the access token that the device connected with last."""
    label_now: str = ""
    """The label in use while the device is connected or may come back. A new `label` is for its next connection."""
    is_connected: bool = False
    is_elsewhere: bool = False
    """Whether the device is connected to another node."""
    is_kept: bool = True
    """False when the owner removed the device while it was connected."""

    @property
    def connected_as(self) -> str:
        """The label in use until the next connection, if the device has another one from then on; else empty."""
        return "" if self.label_now == self.label else self.label_now


class OwnedDevices(Struct, eq=False):
    """The devices of one owner. No two of them share a label, and no one gets a label that is reserved."""

    is_reserved: Callable[[str], bool]
    by_id: dict[str, KnownDevice] = {}
    by_label: dict[str, KnownDevice] = {}
    taken: dict[str, int] = {}
    """For each label, how many of its numbered forms are in use from the first on: a search begins after them."""

    def match(self, wanted: str) -> tuple[str, KnownDevice | None]:
        """Return the id for a device that asks for this label now, and the device if it is known.

        A known device is one that is away and has asked for this label, or was given it by a person.
        """
        while True:
            label = number_label(wanted, self.taken.get(wanted, 0) + 1)
            known = [device for device in (self.by_id.get(label), self.by_label.get(label)) if device is not None]
            away = next((device for device in known if not device.label_now), None)
            if away is not None:
                return away.id, away
            if not known and not self.is_reserved(label):
                return label, None
            self.taken[wanted] = self.taken.get(wanted, 0) + 1

    def unused_label(self, label: str, device_id: str) -> str:
        """Return this label, with a number if another device has it: two gateways may share one database."""
        if label == device_id and label not in self.by_label:
            return device_id  # one string in memory for both
        labels = (number_label(label, number) for number in count(1))
        return next(label for label in labels if label not in self.by_label)

    def leave_reserved_label(self, device: KnownDevice) -> None:
        """Give the device another label if its own is reserved: for good, so that its tools keep their names."""
        before = device.label
        if self.is_reserved(before):
            labels = (number_label(before, number) for number in count(2))
            device.label = next(label for label in labels if label not in self.by_label and not self.is_reserved(label))
            self.by_label.pop(before, None)
            self.by_label[device.label] = device
            self.taken.clear()

    def add(self, device: KnownDevice) -> None:
        self.by_id[device.id] = self.by_label[device.label] = device

    def remove(self, device: KnownDevice) -> None:
        del self.by_id[device.id]
        self.by_label.pop(device.label, None)
        self.by_label.pop(device.label_now, None)
        self.taken.clear()


class DeviceInfo(Struct, frozen=True):
    """A device, as its owner sees it (SPEC W10)."""

    id: str
    label: str
    name: str
    connected: bool
    last_seen: float | None
    """Now, for a connected device; else to the minute."""
    tools: tuple[str, ...]
    """The tools that the device offered last, by its own names for them."""
    changed: tuple[str, ...]
    """Tools whose definition changed, which no person has looked at yet."""
    notes: DeviceNotes = NO_NOTES
    """What the device says of itself, since this process runs."""
    connected_as: str = ""
    """The label in use until the next connection, where a person has given the device another one; else empty."""
    notice: str = ""
    """Why it does not have the label that it asked for; empty if it has, or if another device has that label."""
    refused: tuple[RejectedTool, ...] = ()
    """The tools that it offered on this connection and does not have, and why."""


def describe_device(device: KnownDevice, now: float, notice: str) -> DeviceInfo:
    """Return the device as its owner sees it. `notice`: see `DeviceInfo`."""
    return DeviceInfo(
        id=device.id,
        label=device.label,
        name=device.name,
        connected=device.is_connected,
        last_seen=now if device.is_connected else device.last_seen,
        tools=tuple(device.tools),
        changed=device.changed,
        notes=device.notes,
        connected_as=device.connected_as,
        notice=notice,
        refused=device.refused,
    )


def clean_notes(notes: DeviceNotes) -> DeviceNotes:
    """Return what the device says of itself, cut to what a person reads."""
    scopes = [DeviceScope(_clean(scope.name), _clean(scope.description)) for scope in notes.scopes[:_MAX_NOTES]]
    return DeviceNotes(_clean(notes.description), scopes, [_clean(note) for note in notes.notes[:_MAX_NOTES]])


def _clean(text: str) -> str:
    return strip_invisible(text)[:_LONGEST_NOTE]
