"""Devices of the caller: who is there, what they are called, and goodbye (SPEC W10)."""

from typing import Final

from handspan.gateway.clients.devices import DeviceInfo
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.devices import DeviceList, ForgottenDevice, Looked, NewLabel, Relabelled, ShownDevice

family: Final = Family("devices")


@family.get("/api/devices")
async def devices(visit: Visit) -> DeviceList:
    """The caller's devices, those that are away too."""
    return DeviceList([_shown(device) for device in await visit.doors.devices.all(visit.owner)])


@family.put("/api/devices/{label}", also_refuses=(409,))
async def rename_device(visit: Visit, label: str, body: NewLabel) -> Relabelled:
    """Give a device another label: its tools are called by that from now on."""
    if not await visit.doors.devices.rename(label, body.label, visit.owner):
        raise not_found("device", label)
    visit.tell("devices", label=body.label, change="renamed")
    return Relabelled(body.label)


@family.delete("/api/devices/{label}")
async def forget_device(visit: Visit, label: str) -> ForgottenDevice:
    """Let a device in no more: its token is revoked, its connection closes, its tools go."""
    if not await visit.doors.forget_device(label, visit.owner):
        raise not_found("device", label)
    visit.tell("devices", label=label, change="revoked")
    return ForgottenDevice(True, label)


@family.post("/api/devices/{label}/looked")
async def looked(visit: Visit, label: str) -> Looked:
    """Say that a person has seen which tools changed (SPEC T5)."""
    if not await visit.doors.devices.mark_seen(label, visit.owner):
        raise not_found("device", label)
    visit.tell("devices", label=label, change="looked")
    return Looked(label)


def _shown(device: DeviceInfo) -> ShownDevice:
    seen = None if device.last_seen is None else moment(device.last_seen)
    return ShownDevice(device.id, device.label, device.name, device.connected, seen, device.tools, device.changed)
