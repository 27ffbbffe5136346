"""The REST door and the table of its routes. The gateway loads it when the first request comes."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec import Struct

from handspan.core.bus import TokenRevoked
from handspan.gateway.entry.auth import ADMIN
from handspan.gateway.entry.tokens import TOKEN_ID_LENGTH
from handspan.gateway.http.idempotency import AnswerCodec
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.routing import Endpoint, Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.rest import (
    agents,
    artifacts,
    calling,
    calls,
    channels,
    devices,
    doctor,
    mcp,
    mcp_logins,
    models,
    nodes,
    observe,
    pairing,
    questions,
    sessions,
    skills,
    status,
    tools,
    webhook,
)
from handspan.gateway.rest.errors import as_response, refusal_of
from handspan.gateway.rest.parts import BodyLimits, RestParts
from handspan.gateway.rest.route import Operation
from handspan.wire.rest.devices import ForgottenDevice

_FAMILIES: Final = (
    status.family,
    doctor.family,
    pairing.family,
    tools.family,
    calling.family,
    sessions.family,
    webhook.family,
    agents.family,
    calls.family,
    questions.family,
    skills.family,
    devices.family,
    artifacts.family,
    observe.family,
    mcp.family,
    mcp_logins.family,
    models.family,
    channels.family,
    nodes.family,
)
"""The routes of every module of this folder that has some."""

_REVOKE: Final = "`handspan tokens` lists all tokens, and `handspan tokens revoke ID` revokes one."
_ADMIN_TOKEN: Final = f"It used a token with the scope 'admin', which serves more than this device. {_REVOKE}"
_SHARED_TOKEN: Final = (
    "It also lets in {others}, so the device can come back. `handspan tokens revoke {id}` revokes it: then all of them "
    "have to be paired again."
)
_UNKNOWN_TOKEN: Final = (
    f"Which token it used is not known: it has not connected since the gateway keeps that. {_REVOKE}"
)


def operations() -> Iterator[Operation]:
    """Yield every operation of REST."""
    for family in _FAMILIES:
        yield from family.operations


def open_door(gateway: GatewayParts) -> Door:
    """Return the door for REST requests that authentication let in."""
    limits = gateway.app.settings.gateway
    parts = RestParts(
        app=gateway.app,
        bus=gateway.bus,
        cluster=gateway.cluster,
        artifacts=gateway.app.artifacts,
        auth=gateway.auth,
        sessions=gateway.sessions,
        questions=gateway.questions,
        devices=gateway.devices,
        forget_device=partial(forget_device, gateway),
        pairing=gateway.pairing,
        live=gateway.live,
        metrics=gateway.metrics,
        channels=gateway.channels,
        model_choice=gateway.model_choice,
        choice_at_once=gateway.choice_at_once,
        forget_models=gateway.forget_models,
        reload=gateway.reload,
        limits=BodyLimits(large=limits.request_bytes, upload=limits.upload_bytes),
    )
    if gateway.cluster is not None:
        gateway.cluster.share_tries("webhook", parts.webhook_tries)
        codec: AnswerCodec[Struct] = webhook.WebhookCodec()
        parts.webhook_answers.share(gateway.cluster.shared_requests("webhook"), codec)
    gateway.bus.subscribe(TokenRevoked, lambda event: parts.at_work.drop(event.token))
    return Door(router(parts), drain=parts.drain, count_running=parts.at_work.__len__)


def router(parts: RestParts) -> Router:
    """Return the ASGI application of REST."""

    def count(request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
        parts.metrics.requests.add(f"{response.status // 100}xx")
        return response

    envelope = Envelope(
        refusal_of,
        as_response,
        no_path="There is nothing at this address. /openapi.json lists what there is.",
        no_method="This address does not know this method. The header Allow lists those it knows.",
        complete=count,
    )
    table: dict[str, dict[str, Endpoint]] = {}
    for operation in operations():
        table.setdefault(operation.path, {})[operation.method] = operation.endpoint(parts)
    return Router(table, envelope)


async def forget_device(gateway: GatewayParts, label: str, owner: str) -> ForgottenDevice | None:
    """Forget a device, connected or away, and close its connection. Return None when there is none.

    Its token is revoked, unless that would end other devices or the operator's access: the person decides that.
    """
    token = await gateway.devices.find_token(label, owner)
    if token is None:
        return None
    serves = gateway.devices.find_sharing(label, owner)
    still_valid = await _revoke_token_of_device(gateway, token, owner, serves)
    label_now = gateway.devices.label_now(label, owner) or label
    for peer in gateway.peers:
        if (peer.role, peer.label, peer.who.owner) == ("device", label_now, owner):
            gateway.peers.dismiss(peer)
    if gateway.cluster is not None:
        gateway.cluster.dismiss(owner, label_now, "it was forgotten here")
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
