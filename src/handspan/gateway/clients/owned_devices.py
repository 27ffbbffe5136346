"""The devices of one owner: what is known about each, and which labels are free (ws.md 7.2)."""

from collections.abc import Callable
from itertools import count
from typing import Final

from handspan.gateway.clients.device_labels import number_label
from handspan.wire.ws_frames import DeviceNotes, RejectedTool

NO_NOTES: Final = DeviceNotes()


class Fingerprints(dict[str, str]):
    """Fingerprints by tool name. Devices with the same tools share one object."""

    __slots__ = ("__weakref__",)


class KnownDevice:
    """What is known about one device."""

    __slots__ = (
        "changed",
        "gone",
        "id",
        "is_connected",
        "is_elsewhere",
        "is_kept",
        "kept_label",
        "label",
        "label_now",
        "last_seen",
        "name",
        "notes",
        "refused",
        "token",
        "tools",
    )

    def __init__(self, device_id: str, label: str, name: str, last_seen: float, none: Fingerprints) -> None:
        self.id = device_id
        self.label = label
        self.name = name
        self.last_seen = last_seen
        self.tools = none
        self.gone = none
        """The fingerprints of tools that the device does not offer any more."""
        self.changed: tuple[str, ...] = ()
        self.notes = NO_NOTES
        self.kept_label = ""
        """A label that the device asked for or had, and that a source of the gateway keeps; empty: there is none."""
        self.refused: tuple[RejectedTool, ...] = ()
        self.token = ""
        """The hash of the access token that the device connected with last."""
        self.label_now = ""
        """The label in use while the device is connected or may come back. A new `label` is for its next connection."""
        self.is_connected = False
        self.is_elsewhere = False
        """Whether the device is connected to another node."""
        self.is_kept = True
        """False when the owner removed the device while it was connected."""

    @property
    def connected_as(self) -> str:
        """The label in use until the next connection, if the device has another one from then on; else empty."""
        return "" if self.label_now == self.label else self.label_now


class OwnedDevices:
    """The devices of one owner. No two of them share a label, and no one gets a label that is reserved."""

    __slots__ = ("by_id", "by_label", "is_reserved", "taken")

    def __init__(self, is_reserved: Callable[[str], bool]) -> None:
        self.is_reserved = is_reserved
        self.by_id: dict[str, KnownDevice] = {}
        self.by_label: dict[str, KnownDevice] = {}
        self.taken: dict[str, int] = {}
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
