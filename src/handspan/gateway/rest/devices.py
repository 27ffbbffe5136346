"""Devices of the caller: listed, renamed, forgotten (SPEC W10)."""

from typing import Final

from handspan.core.records import TOKEN_ID_LENGTH
from handspan.gateway.clients.owned_devices import DeviceInfo
from handspan.gateway.entry.auth import ADMIN
from handspan.gateway.http.routing import moment
from handspan.gateway.parts import GatewayParts
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest.devices import DeviceList, DeviceView, ForgottenDevice, NewLabel, Relabelled, SeenDevice

family: Final = Family("devices")
_REVOKE: Final = "`handspan tokens` lists all tokens, and `handspan tokens revoke ID` revokes one."
_ADMIN_TOKEN: Final = f"It used a token with the scope 'admin', which serves more than this device. {_REVOKE}"
_SHARED_TOKEN: Final = (
    "It also lets in {others}, so the device can come back. `handspan tokens revoke {id}` revokes it: then all of them "
    "have to be paired again."
)
_UNKNOWN_TOKEN: Final = (
    f"Which token it used is not known: it has not connected since the gateway keeps that. {_REVOKE}"
)


@family.get("/api/devices")
async def devices(request: RestRequest) -> DeviceList:
    """The caller's devices, connected or not."""
    return DeviceList([_render_device(device) for device in await request.parts.devices.all(request.owner)])


@family.put("/api/devices/{label}", also_refuses=(409,))
async def rename_device(request: RestRequest, label: str, body: NewLabel) -> Relabelled:
    """Give a device another label. The tools of a connected one have that prefix from its next connection on."""
    if not await request.parts.devices.rename(label, body.label, request.owner):
        raise not_found_refusal("device", label)
    request.publish("devices", label=body.label, change="renamed")
    return Relabelled(body.label, request.parts.devices.connected_as(body.label, request.owner))


@family.delete("/api/devices/{label}")
async def forget_device(request: RestRequest, label: str) -> ForgottenDevice:
    """Forget a device, connected or away: its token is revoked, its connection closes, its tools go.

    `revoked` is false where its token stays valid; `still_valid` says why: it has the scope `admin`, or lets in other
    devices, which `serves` names. `DELETE /api/tokens/{token_id}` revokes it all the same.
    """
    forgotten = await forget(request.parts, label, request.owner)
    if forgotten is None:
        raise not_found_refusal("device", label)
    request.publish("devices", label=label, change="revoked")
    return forgotten


@family.post("/api/devices/{label}/looked")
async def mark_device_seen(request: RestRequest, label: str) -> SeenDevice:
    """Confirm that a person has seen which tools changed (SPEC T5)."""
    if not await request.parts.devices.mark_seen(label, request.owner):
        raise not_found_refusal("device", label)
    request.publish("devices", label=label, change="looked")
    return SeenDevice(label)


def _render_device(device: DeviceInfo) -> DeviceView:
    seen = None if device.last_seen is None else moment(device.last_seen)
    about = (device.tools, device.changed, device.notes.description, device.notes.scopes, device.notes.notes)
    names = (device.connected_as, device.notice, list(device.refused))
    return DeviceView(device.id, device.label, device.name, device.connected, seen, *about, *names)


async def forget(gateway: GatewayParts, label: str, owner: str) -> ForgottenDevice | None:
    """Forget a device, connected or away, and close its connection. Return None when there is none.

    Its token is revoked, unless that would end other devices or the operator's access: the person decides that.
    """
    token = await gateway.devices.find_token(label, owner)
    if token is None:
        return None
    serves = gateway.devices.find_sharing(label, owner)
    still_valid = await _revoke_token_of_device(gateway, token, owner, serves)
    device = gateway.devices.find(owner, label)
    label_now = label if device is None else device.label_now or label
    for peer in gateway.peers:
        if (peer.role, peer.label, peer.who.owner) == ("device", label_now, owner):
            gateway.peers.dismiss(peer)
    gateway.nodes.dismiss(owner, label_now, "it was forgotten here")
    await gateway.devices.forget(label, owner)
    is_spared = still_valid not in ("", _ADMIN_TOKEN, _UNKNOWN_TOKEN)
    spared = (serves, token[:TOKEN_ID_LENGTH]) if is_spared else ([], "")
    return ForgottenDevice(not still_valid, label, still_valid, *spared)


async def _revoke_token_of_device(gateway: GatewayParts, token: str, owner: str, serves: list[str]) -> str:
    """Revoke the token (its hash) that a device connected with last. Return why it is still valid; empty: it is not.

    An admin token is not revoked: the operator would lose access. Nor is one that also `serves` other devices.
    """
    if not token:
        return _UNKNOWN_TOKEN
    known = next((one for one in await gateway.store.tokens.all(owner=owner) if one.hash == token), None)
    if known is None or known.revoked is not None:
        return ""
    if ADMIN in known.scopes:
        return _ADMIN_TOKEN
    if serves:
        others = ", ".join(map(repr, serves))
        return _SHARED_TOKEN.format(others=others, id=token[:TOKEN_ID_LENGTH])
    await gateway.auth.revoke(token, owner)
    return ""
