"""What a door gets from the gateway, and what it gives in return. Each door's module has one `open_door`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp

from handspan.agent.sessions import Sessions
from handspan.config.listing import SettingChanges
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

if TYPE_CHECKING:
    from handspan.gateway.channels.door import ChannelDoor


class GatewayParts(Struct, frozen=True, kw_only=True):
    """The parts of the gateway that doors use."""

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
    """Returns the model for agents that name none."""
    choice_at_once: Callable[[], Choice]
    """Returns the same as far as it is known now, without a search for a local model."""
    channels: "ChannelDoor | None"
    """None without a channel."""
    forget_models: Callable[[], None]
    """Lets the next request choose its model anew: the models have changed."""
    reload: Callable[[], Awaitable[SettingChanges]]
    """Takes the settings as their files have them now. Raises `ConfigError` when they can't be used."""


async def _end_nothing(seconds: float = 0.0) -> None:
    """For doors whose work ends with the request."""


def _count_nothing() -> int:
    """For the same doors."""
    return 0


class Door(Struct, frozen=True):
    """An open door."""

    answer: ASGIApp
    """Answers an HTTP request that was let in."""
    connect: ASGIApp | None = None
    """Serves a WebSocket connection; the door itself checks its token."""
    drain: Callable[[float], Awaitable[None]] = _end_nothing
    """Waits so many seconds for work that outlives its request, then ends it."""
    close: Callable[[], Awaitable[None]] = _end_nothing
    """Closes the door; called after `drain`."""
    count_running: Callable[[], int] = _count_nothing
    """Counts the calls for which `drain` waits."""


OpenDoor: TypeAlias = Callable[[GatewayParts], Door]
