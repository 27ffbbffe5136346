"""Devices of the caller: listed, renamed, forgotten (SPEC W10)."""

from typing import Final

from handspan.gateway.clients.devices import DeviceInfo
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.devices import DeviceList, ForgottenDevice, Looked, NewLabel, Relabelled, ShownDevice

family: Final = Family("devices")


@family.get("/api/devices")
async def devices(visit: Visit) -> DeviceList:
    """The caller's devices, connected or not."""
    return DeviceList([_render_device(device) for device in await visit.parts.devices.all(visit.owner)])


@family.put("/api/devices/{label}", also_refuses=(409,))
async def rename_device(visit: Visit, label: str, body: NewLabel) -> Relabelled:
    """Give a device another label. Its tools have that prefix from now on."""
    if not await visit.parts.devices.rename(label, body.label, visit.owner):
        raise not_found("device", label)
    visit.publish("devices", label=body.label, change="renamed")
    return Relabelled(body.label)


@family.delete("/api/devices/{label}")
async def forget_device(visit: Visit, label: str) -> ForgottenDevice:
    """Forget a device: its token is revoked, its connection closes, its tools go."""
    if not await visit.parts.forget_device(label, visit.owner):
        raise not_found("device", label)
    visit.publish("devices", label=label, change="revoked")
    return ForgottenDevice(True, label)


@family.post("/api/devices/{label}/looked")
async def looked(visit: Visit, label: str) -> Looked:
    """Confirm that a person has seen which tools changed (SPEC T5)."""
    if not await visit.parts.devices.mark_seen(label, visit.owner):
        raise not_found("device", label)
    visit.publish("devices", label=label, change="looked")
    return Looked(label)


def _render_device(device: DeviceInfo) -> ShownDevice:
    seen = None if device.last_seen is None else moment(device.last_seen)
    return ShownDevice(device.id, device.label, device.name, device.connected, seen, device.tools, device.changed)
