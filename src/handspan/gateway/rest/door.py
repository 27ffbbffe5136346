"""The door for HTTP: REST, pairing, signing in, the page; all its routes. Loaded when the first request comes."""

import importlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from starlette.types import Receive, Scope, Send

from handspan.core.bus import TokenRevoked
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.routing import Endpoint, Envelope, Router, Table
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.rest.doors import BodyLimits, Doors
from handspan.gateway.rest.errors import as_response, refusal_of
from handspan.gateway.rest.route import Family, Operation

_MODULES: Final = (
    "status",
    "pairing",
    "tools",
    "calling",
    "sessions",
    "webhook",
    "agents",
    "calls",
    "questions",
    "rules",
    "skills",
    "devices",
    "artifacts",
    "usage",
    "tokens",
    "observe",
)
"""Every module of this room that has a `family`."""
_MODULES_BELOW: Final = {
    "agents": ("agents",),
    "artifacts": ("artifacts",),
    "calls": ("calls",),
    "devices": ("devices",),
    "models": ("status",),
    "questions": ("questions",),
    "rules": ("rules",),
    "sessions": ("sessions", "skills"),
    "skills": ("skills",),
    "sources": ("status",),
    "status": ("status",),
    "switches": ("tools",),
    "tokens": ("tokens",),
    "tools": ("tools", "calling"),
    "usage": ("usage",),
}
"""The modules with the routes below `/api/NAME`, loaded with the first such request: a command needs two or three."""


def operations(modules: Sequence[str] = _MODULES) -> Iterator[Operation]:
    """Every operation that these modules declare."""
    for name in modules:
        family: Family = importlib.import_module(f"handspan.gateway.rest.{name}").family
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


def router(doors: Doors) -> "RestRouter":
    """The application of REST."""

    def count(request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
        doors.metrics.requests.add(f"{response.status // 100}xx")
        return response

    envelope = Envelope(
        refusal_of,
        as_response,
        no_path="There is nothing at this address. /openapi.json lists what there is.",
        no_method="This address does not know this method. The header Allow lists those it knows.",
        complete=count,
    )
    return RestRouter(doors, envelope)


class RestRouter:
    """Routes a request, and loads the modules of its route when the first such request comes."""

    def __init__(self, doors: Doors, envelope: Envelope) -> None:
        self._doors = doors
        self._envelope = envelope
        self._routers: dict[tuple[str, ...], Router] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        modules = modules_for(scope["path"].removeprefix(scope.get("root_path", "")))
        router = self._routers.get(modules) or self._load(modules)
        await router(scope, receive, send)

    @property
    def table(self) -> Table:
        """Every route, of all modules."""
        return self._load(_MODULES).table

    def _load(self, modules: tuple[str, ...]) -> Router:
        table: dict[str, dict[str, Endpoint]] = {}
        for operation in operations(modules):
            table.setdefault(operation.path, {})[operation.method] = operation.endpoint(self._doors)
        router = self._routers[modules] = Router(table, self._envelope)
        return router


def modules_for(path: str) -> tuple[str, ...]:
    """The modules that may have a route for this path."""
    parts = path.split("/", 3)
    return _MODULES_BELOW.get(parts[2], _MODULES) if len(parts) > 2 and parts[1] == "api" else _MODULES


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
