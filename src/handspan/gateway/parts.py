"""What a door gets from the gateway, and what it gives in return. Each door's module has one `open_door`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp

from handspan.agent.sessions import Sessions
from handspan.config.settings import Settings
from handspan.core.bus import Bus
from handspan.core.store import ArtifactStore, Store
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.late_results import LateResults
from handspan.gateway.clients.peers import Peers
from handspan.gateway.clients.resume_tokens import ResumeTokens
from handspan.gateway.clients.trust import DeviceTrust
from handspan.gateway.clients.unfinished_calls import UnfinishedCalls
from handspan.gateway.default_model import DefaultModel
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.one_node import GatewayNodes
from handspan.gateway.push.push import Push
from handspan.gateway.reloading import Reloading
from handspan.gateway.schedules.scheduler import Scheduler
from handspan.gateway.sessions.brief import BriefSessions
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.gateway.sessions.resumable_calls import ResumableCalls
from handspan.sources.offers import OfferRules
from handspan.wire.ws_frames import WireLimits

if TYPE_CHECKING:
    from handspan.gateway.channels.door import ChannelDoor
    from handspan.gateway.runs.runs import Runs


class GatewayParts(Struct, frozen=True, kw_only=True):
    """All parts of a gateway. `composition.py` makes it; every door gets it, and takes from it what it names."""

    settings: Settings
    """As they were at the start. `app.settings` has those that a reload has changed."""
    nodes: GatewayNodes
    """All nodes of the gateway, as this one sees them."""
    bus: Bus
    store: Store
    app: App
    artifacts: ArtifactStore
    auth: Auth
    pairing: Pairing
    sessions: Sessions
    questions: AwaitedQuestions
    resumable: ResumableCalls
    brief: BriefSessions
    devices: Devices
    unfinished: UnfinishedCalls
    resume_tokens: ResumeTokens
    peers: Peers
    late: LateResults
    trust: DeviceTrust
    push: Push
    limits: WireLimits
    offer_rules: OfferRules
    live: Live
    metrics: Metrics
    models: DefaultModel
    reloading: Reloading
    channels: "ChannelDoor | None"
    """The way in for people on other networks; None without a channel."""
    scheduler: Scheduler
    runs: "Callable[[], Runs]"
    """Returns the runs of clients that may have tools of their own. Its first caller loads and makes them."""

    def forget_models(self) -> None:
        """Let the next turn choose its model anew: the models have changed."""
        self.models.forget()
        self.sessions.forget_models()


Here: TypeAlias = Callable[[], GatewayParts]
"""Returns the parts of this gateway: for parts that are made before the others, and use them later."""


async def _end_nothing(seconds: float = 0.0) -> None:
    """Do nothing: for doors whose work ends with the request."""


def _count_nothing() -> int:
    """Return 0: for doors whose work ends with the request."""
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
