"""The door for HTTP: REST, pairing, signing in, the page. Loaded when the first request comes."""

from starlette.requests import Request
from starlette.responses import Response

from handspan.core.bus import TokenRevoked
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.peers import Peers
from handspan.gateway.entry.auth import Auth
from handspan.gateway.http.idempotency import CallIds
from handspan.gateway.http.routing import Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.rest.doors import BodyLimits, Doors
from handspan.gateway.rest.errors import as_response, refusal_of
from handspan.gateway.rest.routes import table


class OwnedDevices:
    """The devices that people see: who forgets one also closes its connection, and its token opens nothing more."""

    def __init__(self, devices: Devices, peers: Peers, auth: Auth) -> None:
        self._devices = devices
        self._peers = peers
        self._auth = auth
        self.all = devices.all
        self.rename = devices.rename
        self.looked = devices.looked

    async def forget(self, label: str, owner: str) -> bool:
        """Forget it; False when the owner has no such device. The operator's own token stays."""
        for peer in self._peers:
            if (peer.role, peer.label, peer.who.owner) == ("device", label, owner):
                if "admin" not in peer.who.scopes:
                    await self._auth.revoke(peer.token, owner)
                self._peers.dismiss(peer)
        return await self._devices.forget(label, owner)


def open_door(parts: GatewayParts) -> Door:
    """REST, for HTTP requests that were let in."""
    limits = parts.app.settings.gateway
    doors = Doors(
        app=parts.app,
        artifacts=parts.app.artifacts,
        auth=parts.auth,
        turns=parts.turns,
        questions=parts.questions,
        devices=OwnedDevices(parts.devices, parts.peers, parts.auth),
        pairing=parts.pairing,
        live=parts.live,
        metrics=parts.metrics,
        call_ids=CallIds(parts.app.settings.state),
        model_choice=parts.model_choice,
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
    return Router(table(doors), envelope)
