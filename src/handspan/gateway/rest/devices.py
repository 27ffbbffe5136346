"""Devices of the caller: listed, renamed, forgotten (SPEC W10)."""

from typing import Final

from handspan.gateway.clients.device_info import DeviceInfo
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest.devices import DeviceList, DeviceView, ForgottenDevice, NewLabel, Relabelled, SeenDevice

family: Final = Family("devices")


@family.get("/api/devices")
async def devices(request: RestRequest) -> DeviceList:
    """The caller's devices, connected or not."""
    return DeviceList([_render_device(device) for device in await request.parts.devices.all(request.owner)])


@family.put("/api/devices/{label}", also_refuses=(409,))
async def rename_device(request: RestRequest, label: str, body: NewLabel) -> Relabelled:
    """Give a device another label. The tools of a connected one have that prefix from its next connection on."""
    if not await request.parts.devices.rename(label, body.label, request.owner):
        raise not_found("device", label)
    request.publish("devices", label=body.label, change="renamed")
    return Relabelled(body.label, request.parts.devices.connected_as(body.label, request.owner))


@family.delete("/api/devices/{label}")
async def forget_device(request: RestRequest, label: str) -> ForgottenDevice:
    """Forget a device, connected or away: its token is revoked, its connection closes, its tools go.

    `revoked` is false where its token stays valid; `still_valid` says why: it has the scope `admin`, or lets in other
    devices, which `serves` names. `DELETE /api/tokens/{token_id}` revokes it all the same.
    """
    forgotten = await request.parts.forget_device(label, request.owner)
    if forgotten is None:
        raise not_found("device", label)
    request.publish("devices", label=label, change="revoked")
    return forgotten


@family.post("/api/devices/{label}/looked")
async def mark_device_seen(request: RestRequest, label: str) -> SeenDevice:
    """Confirm that a person has seen which tools changed (SPEC T5)."""
    if not await request.parts.devices.mark_seen(label, request.owner):
        raise not_found("device", label)
    request.publish("devices", label=label, change="looked")
    return SeenDevice(label)


def _render_device(device: DeviceInfo) -> DeviceView:
    seen = None if device.last_seen is None else moment(device.last_seen)
    about = (device.tools, device.changed, device.notes.description, device.notes.scopes, device.notes.notes)
    names = (device.connected_as, device.notice, list(device.refused))
    return DeviceView(device.id, device.label, device.name, device.connected, seen, *about, *names)
