"""The doors for HTTP: REST, pairing, signing in, the page. Loaded when the first request comes."""

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from handspan.core.bus import TokenRevoked
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.peers import Peers
from handspan.gateway.entry.auth import Auth
from handspan.gateway.rest.doors import BodyLimits, Doors
from handspan.gateway.rest.errors import ERROR_FORMS
from handspan.gateway.rest.idempotency import CallIds
from handspan.gateway.rest.routes import routes

if TYPE_CHECKING:
    from handspan.gateway.gateway import Gateway


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


class HttpDoors:
    """The application for HTTP requests that were let in."""

    def __init__(self, gateway: "Gateway") -> None:
        limits = gateway.settings.gateway
        self._doors = Doors(
            app=gateway.app,
            artifacts=gateway.app.artifacts,
            auth=gateway.auth,
            sessions=gateway.sessions,
            questions=gateway.questions,
            devices=OwnedDevices(gateway.devices, gateway.peers, gateway.auth),
            pairing=gateway.pairing,
            live=gateway.live,
            metrics=gateway.metrics,
            call_ids=CallIds(gateway.settings.state),
            model_choice=gateway.model_choice,
            limits=BodyLimits(large=limits.request_bytes, upload=limits.upload_bytes),
        )
        gateway.bus.subscribe(TokenRevoked, lambda event: self._doors.at_work.drop(event.token))
        self.asgi = Starlette(routes=routes(self._doors), exception_handlers=ERROR_FORMS)
        self.asgi.router.redirect_slashes = False  # an address is one, with its slash or without

    async def drain(self, seconds: float) -> None:
        """Let the calls of requests finish for so long, then end what outlives its request."""
        self._doors.at_work.is_open = False
        await self._doors.at_work.wait(seconds)
        await self._doors.close()
