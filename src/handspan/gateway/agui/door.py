"""AG-UI's door. The gateway loads it when the first request comes."""

from functools import partial
from operator import attrgetter
from typing import Final

from handspan.agent.refusals import TurnRefused
from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.gateway.agui.envelope import refusal_of, refuse
from handspan.gateway.agui.request import AguiParts, AguiRequest
from handspan.gateway.agui.run import begin_run
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import Endpoint, Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.runs.chats import Chats
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.lines import StreamCodec, StreamLines

_REPLAY_SECONDS: Final = 600.0
"""How long a stream is kept for a client that sends its request again."""
_PATHS: Final = ("/agui", "/agui/{agent}")


def open_door(gateway: GatewayParts) -> Door:
    """Return the door for clients that speak AG-UI, which authentication let in."""
    runs = gateway.runs()
    parts = AguiParts(
        gateway=gateway,
        chats=Chats(runs, gateway.store, gateway.sessions, gateway.brief),
        streams=Replays(
            _REPLAY_SECONDS,
            shared=gateway.nodes.work.requests("agui"),
            codec=StreamCodec,
            conflict=_conflict,
            forgets=(StoreError, TurnRefused),
            size_of=attrgetter("size"),
            wait_for_end=StreamLines.wait_for_last,
            limit=100,
        ),
    )
    gateway.bus.subscribe(TokenRevoked, lambda event: parts.open_streams.revoke(event.token))
    return Door(_router(parts), close=runs.close)


def _router(parts: AguiParts) -> Router:
    envelope = Envelope(
        refusal_of,
        refuse,
        no_path="There is nothing at {path!r}: runs are begun at /agui and at /agui/AGENT.",
        no_method="{method} can't be used at {path!r}: use {allow}.",
        complete=partial(_refuse_revoked, parts),
    )

    async def read(request: AsgiRequest) -> dict[str, object]:
        return {"request": AguiRequest(parts, RunClient.of_front(request.scope["state"]["admitted"]), request)}

    return Router({path: {"POST": Endpoint(read, begin_run, _respond)} for path in _PATHS}, envelope)


def _refuse_revoked(parts: AguiParts, request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
    """Return the response, unless its token was revoked meanwhile."""
    admitted = request.scope.get("state", {}).get("admitted")
    try:
        if admitted is not None:
            parts.gateway.auth.refuse_revoked(admitted)
    except Refusal as refusal:
        return refuse(refusal)
    return response


def _respond(answered: object) -> AsgiResponse:
    assert isinstance(answered, AsgiResponse), "a run is answered by a stream"
    return answered


def _conflict(key: str) -> Refusal:
    return Refusal(
        409, "idempotency_key_in_use", "This Idempotency-Key was used for another request: choose a new one."
    )
