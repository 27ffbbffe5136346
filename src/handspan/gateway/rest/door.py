"""The REST door and the table of its routes. The gateway loads it when the first request comes."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from handspan.core.bus import TokenRevoked
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE, Endpoint, Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.rest import (
    agents,
    artifacts,
    budgets,
    calling,
    calls,
    channels,
    devices,
    doctor,
    files,
    mcp,
    mcp_logins,
    models,
    observe,
    pairing,
    push,
    questions,
    schedules,
    sessions,
    skills,
    status,
    tools,
    webhook,
)
from handspan.gateway.rest.errors import as_response, refusal_of
from handspan.gateway.rest.route import Family, Operation, RestRequest
from handspan.gateway.rest.state import BodyLimits, RestState

_family: Final = Family("observe")
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
    budgets.family,
    schedules.family,
    questions.family,
    skills.family,
    devices.family,
    artifacts.family,
    files.family,
    observe.family,
    _family,
    mcp.family,
    mcp_logins.family,
    models.family,
    channels.family,
    push.family,
)
"""The routes of every module of this folder that has some."""

_REPLAY_SECONDS: Final = 300.0
_USED: Final = "The key {key!r} was used for another message. Use a new one for this."


def operations() -> Iterator[Operation]:
    """Yield every operation of REST."""
    for family in _FAMILIES:
        yield from family.operations


@_family.get("/openapi.json")
async def contract(request: RestRequest) -> AsgiResponse:
    """The OpenAPI document."""
    from handspan.gateway.rest import openapi  # noqa: PLC0415 - 21 ms

    document = openapi.encoded_document(tuple(operations()), request.asgi.scope.get("root_path", ""))
    return AsgiResponse(document, headers=PRIVATE, media_type="application/json")


def open_door(gateway: GatewayParts) -> Door:
    """Return the door for REST requests that authentication let in."""
    state = make_state(gateway)
    return Door(router(gateway, state), drain=state.drain, count_running=state.running_calls.__len__)


def make_state(gateway: GatewayParts) -> RestState:
    """Return the state of a new door."""
    settings, nodes = gateway.app.settings.gateway, gateway.nodes
    state = RestState(
        live=gateway.live,
        limits=BodyLimits(large=settings.request_bytes, upload=settings.upload_bytes),
        webhook_answers=Replays(
            _REPLAY_SECONDS,
            shared=nodes.work.requests("webhook"),
            codec=webhook.WebhookCodec,
            conflict=lambda key: Refusal(409, "idempotency_conflict", _USED.format(key=key)),
        ),
        webhook_tries=TryLimit(30, 60.0, share=partial(nodes.work.share_tries, "webhook")),
        push_tries=TryLimit(10, 60.0, 300.0, share=partial(nodes.work.share_tries, "push")),
    )
    gateway.bus.subscribe(TokenRevoked, lambda event: state.running_calls.drop(event.token))
    return state


def router(parts: GatewayParts, state: RestState) -> Router:
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
        table.setdefault(operation.path, {})[operation.method] = operation.endpoint(parts, state)
    return Router(table, envelope)
