"""The doors for HTTP: REST, pairing, signing in, the page. Loaded when the first request comes."""

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from handspan.gateway.pairing_routes import PairingRoutes
from handspan.gateway.rest.doors import BodyLimits, Doors
from handspan.gateway.rest.errors import ERROR_FORMS
from handspan.gateway.rest.idempotency import CallIds
from handspan.gateway.rest.routes import routes

if TYPE_CHECKING:
    from handspan.gateway.gateway import Gateway


class HttpDoors:
    """The application for HTTP requests that were let in."""

    def __init__(self, gateway: "Gateway") -> None:
        limits = gateway.settings.gateway
        self._doors = Doors(
            app=gateway.app,
            artifacts=gateway.app.artifacts,
            auth=gateway.auth,
            turns=gateway.turns,
            questions=gateway.questions,
            devices=gateway.devices,
            pairing=gateway.pairing,
            live=gateway.live,
            metrics=gateway.metrics,
            call_ids=CallIds(gateway.settings.state),
            limits=BodyLimits(large=limits.request_bytes, upload=limits.upload_bytes),
        )
        paired = PairingRoutes(gateway.auth, gateway.pairing)
        self.asgi = Starlette(routes=[*paired.routes(), *routes(self._doors)], exception_handlers=ERROR_FORMS)

    async def drain(self, seconds: float) -> None:
        """Let the calls of requests finish for so long, then end what outlives its request."""
        await self._doors.at_work.wait(seconds)
        await self._doors.close()
