"""The door for HTTP: REST, pairing, signing in, the page; all its routes. Loaded when the first request comes."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from handspan.core.bus import TokenRevoked
from handspan.gateway.http.routing import Endpoint, Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.rest import (
    agents,
    artifacts,
    calling,
    calls,
    devices,
    observe,
    pairing,
    questions,
    rules,
    sessions,
    skills,
    status,
    tokens,
    tools,
    usage,
    webhook,
)
from handspan.gateway.rest.doors import BodyLimits, Doors
from handspan.gateway.rest.errors import as_response, refusal_of
from handspan.gateway.rest.route import Operation

_FAMILIES: Final = (
    status.family,
    pairing.family,
    tools.family,
    calling.family,
    sessions.family,
    webhook.family,
    agents.family,
    calls.family,
    questions.family,
    rules.family,
    skills.family,
    devices.family,
    artifacts.family,
    usage.family,
    tokens.family,
    observe.family,
)


def operations() -> Iterator[Operation]:
    """Every operation that is declared."""
    for family in _FAMILIES:
        yield from family.operations


def open_door(parts: GatewayParts) -> Door:
    """REST, for HTTP requests that were let in."""
    limits = parts.app.settings.gateway
    doors = Doors(
        app=parts.app,
        artifacts=parts.app.artifacts,
        auth=parts.auth,
        sessions=parts.sessions,
        questions=parts.questions,
        devices=parts.devices,
        forget_device=partial(forget_device, parts),
        pairing=parts.pairing,
        live=parts.live,
        metrics=parts.metrics,
        model_choice=parts.model_choice,
        choice_at_once=parts.choice_at_once,
        limits=BodyLimits(large=limits.request_bytes, upload=limits.upload_bytes),
    )
    parts.bus.subscribe(TokenRevoked, lambda event: doors.at_work.drop(event.token))
    return Door(router(doors), drain=doors.drain)


def router(doors: Doors) -> Router:
    """The application of REST."""

    def count(request: Request, response: Response) -> Response:
        doors.metrics.requests.add(f"{response.status_code // 100}xx")
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
        table.setdefault(operation.path, {})[operation.method] = operation.endpoint(doors)
    return Router(table, envelope)


async def forget_device(parts: GatewayParts, label: str, owner: str) -> bool:
    """Forget a device, close its connection and revoke its token; False when the owner has no such device.

    The operator's own token stays.
    """
    for peer in parts.peers:
        if (peer.role, peer.label, peer.who.owner) == ("device", label, owner):
            if "admin" not in peer.who.scopes:
                await parts.auth.revoke(peer.token, owner)
            parts.peers.dismiss(peer)
    return await parts.devices.forget(label, owner)
