"""What a door needs of the gateway, and what the gateway gets for it. Each door's module has one `open_door`."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp

from handspan.agent.sessions import Sessions
from handspan.core.bus import Bus
from handspan.core.store import Store
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.peers import Peers
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.models.choice import Choice
from handspan.sources.offers import OfferRules


class GatewayParts(Struct, frozen=True, kw_only=True):
    """The gateway as its doors see it: made once, when it is open."""

    app: App
    bus: Bus
    store: Store
    auth: Auth
    pairing: Pairing
    sessions: Sessions
    questions: AwaitedQuestions
    devices: Devices
    peers: Peers
    live: Live
    metrics: Metrics
    offer_rules: OfferRules
    model_choice: Callable[[], Awaitable[Choice]]
    """The model that answers where an agent names none."""
    choice_at_once: Callable[[], Choice]
    """The same as far as it is known now: a local model is not looked for."""


async def _end_nothing(seconds: float = 0.0) -> None:
    """For doors whose requests leave nothing behind."""


class Door(Struct, frozen=True):
    """A door that is open."""

    answer: ASGIApp
    """One HTTP request that was let in."""
    connect: ASGIApp | None = None
    """One WebSocket connection, which the door itself lets in."""
    drain: Callable[[float], Awaitable[None]] = _end_nothing
    """Let what outlives its request finish for so many seconds, and end it."""
    close: Callable[[], Awaitable[None]] = _end_nothing
    """Let go of everything; after `drain`."""


OpenDoor: TypeAlias = Callable[[GatewayParts], Door]
