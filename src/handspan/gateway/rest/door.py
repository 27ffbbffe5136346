"""The REST door and the table of its modules. The gateway loads it when the first request comes."""

import importlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from handspan.core.bus import TokenRevoked
from handspan.gateway.entry.auth import ADMIN
from handspan.gateway.entry.tokens import TOKEN_ID_LENGTH
from handspan.gateway.http.idempotency import AnswerCodec
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.routing import Endpoint, Envelope, Router, Table
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.rest.errors import as_response, refusal_of
from handspan.gateway.rest.parts import BodyLimits, RestParts
from handspan.gateway.rest.route import Family, Operation
from handspan.wire.rest.devices import ForgottenDevice

_FOLDER: Final = "handspan.gateway.rest"
_MODULES: Final = (
    "status",
    "doctor",
    "pairing",
    "tools",
    "calling",
    "sessions",
    "webhook",
    "agents",
    "calls",
    "questions",
    "skills",
    "devices",
    "artifacts",
    "observe",
    "mcp",
    "mcp_logins",
    "models",
    "channels",
    "nodes",
)
"""Every module of this folder that has a `family` of routes."""
_MODULES_BELOW: Final = {
    "agents": ("agents",),
    "artifacts": ("artifacts",),
    "calls": ("calls",),
    "channels": ("channels",),
    "devices": ("devices",),
    "mcp": ("mcp", "mcp_logins"),
    "doctor": ("doctor",),
    "models": ("models",),
    "nodes": ("nodes",),
    "questions": ("questions",),
    "rules": ("questions",),
    "sessions": ("sessions", "skills"),
    "settings": ("doctor",),
    "skills": ("skills",),
    "sources": ("status",),
    "status": ("status",),
    "switches": ("tools",),
    "tokens": ("pairing",),
    "tools": ("tools", "calling"),
    "usage": ("calls",),
}
"""The modules with the routes below `/api/NAME`. The first such request loads them: a command needs two or three."""

_REVOKE: Final = "`handspan tokens` lists all tokens, and `handspan tokens revoke ID` revokes one."
_ADMIN_TOKEN: Final = f"It used a token with the scope 'admin', which serves more than this device. {_REVOKE}"
_SHARED_TOKEN: Final = (
    "It also lets in {others}, so the device can come back. `handspan tokens revoke {id}` revokes it: then all of them "
    "have to be paired again."
)
_UNKNOWN_TOKEN: Final = (
    f"Which token it used is not known: it has not connected since the gateway keeps that. {_REVOKE}"
)


def operations(modules: Sequence[str] = _MODULES) -> Iterator[Operation]:
    """Yield the operations that these modules declare."""
    for name in modules:
        family: Family = importlib.import_module(f"{_FOLDER}.{name}").family
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
        codec: AnswerCodec[Struct] = importlib.import_module(f"{_FOLDER}.webhook").WebhookCodec()
        parts.webhook_answers.share(gateway.cluster.shared_requests("webhook"), codec)
    gateway.bus.subscribe(TokenRevoked, lambda event: parts.at_work.drop(event.token))
    return Door(router(parts), drain=parts.drain, count_running=parts.at_work.__len__)


def router(parts: RestParts) -> "RestRouter":
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
    return RestRouter(parts, envelope)


class RestRouter:
    """Routes requests. Loads the modules of a route when the first request for it comes."""

    def __init__(self, parts: RestParts, envelope: Envelope) -> None:
        self._parts = parts
        self._envelope = envelope
        self._routers: dict[tuple[str, ...], Router] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        modules = modules_for(scope["path"].removeprefix(scope.get("root_path", "")))
        router = self._routers.get(modules) or self._load(modules)
        await router(scope, receive, send)

    @property
    def table(self) -> Table:
        """Every route of every module."""
        return self._load(_MODULES).table

    def _load(self, modules: tuple[str, ...]) -> Router:
        table: dict[str, dict[str, Endpoint]] = {}
        for operation in operations(modules):
            table.setdefault(operation.path, {})[operation.method] = operation.endpoint(self._parts)
        router = self._routers[modules] = Router(table, self._envelope)
        return router


def modules_for(path: str) -> tuple[str, ...]:
    """Return the names of the modules that may have a route for this path."""
    parts = path.split("/", 3)
    return _MODULES_BELOW.get(parts[2], _MODULES) if len(parts) > 2 and parts[1] == "api" else _MODULES


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
