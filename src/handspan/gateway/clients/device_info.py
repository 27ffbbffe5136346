"""A device as its owner sees it (SPEC W10)."""

from typing import Final

from msgspec import Struct

from handspan.core.values import strip_invisible
from handspan.gateway.clients.owned_devices import NO_NOTES, KnownDevice
from handspan.wire.ws_frames import DeviceNotes, DeviceScope, RejectedTool

_MAX_NOTES: Final = 64
_LONGEST_NOTE: Final = 1000


class DeviceInfo(Struct, frozen=True):
    """A device, as its owner sees it."""

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
