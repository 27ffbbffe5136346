"""What a door gets from the gateway, and what it gives in return. Each door's module has one `open_door`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.agent.sessions import Sessions
from handspan.config.listing import SettingChanges
from handspan.core.bus import Bus
from handspan.core.nodes import NodeRecord
from handspan.core.store import Store
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.peers import Peers
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.http.idempotency import SharedRequests
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.models.choice import Choice
from handspan.sources.offers import OfferRules

if TYPE_CHECKING:
    from handspan.gateway.channels.door import ChannelDoor


class RoutedSessions(Protocol):
    """Answers MCP requests where several nodes are one gateway."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, here or by the node that has its session."""
        ...

    def stamp(self, own_id: str) -> str:
        """Return the id that clients get for an object in the memory of this node. It names the node."""
        ...


class OtherGateways(Protocol):
    """The other nodes of a gateway of several, as doors need them."""

    is_draining: bool
    """Whether this node sends its clients away."""

    def note_probe(self) -> None:
        """Note that a proxy looks whether this node is ready."""
        ...

    @property
    def is_cut_off(self) -> bool:
        """Whether this node has no connection to the other nodes, while others have one."""
        ...

    def share_tries(self, kind: str, limit: TryLimit) -> None:
        """Let this limit count the tries on all nodes."""
        ...

    def shared_requests(self, kind: str) -> SharedRequests:
        """Return the requests of this kind, which all nodes answer together."""
        ...

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return all nodes that count as alive, by name."""
        ...

    def is_here(self, node: str) -> bool:
        """Whether this is the id of this node."""
        ...

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Bring each MCP request to the node that has its session. `here` answers those of this node.

        `longest`: bytes of a body; `here` refuses a longer one.
        """
        ...

    def dismiss(self, owner: str, label: str, reason: str) -> bool:
        """Send a device away that is connected to another node. Return False when there is none."""
        ...


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
    """Returns that model as far as it is known now, without a search for a local one."""
    channels: "ChannelDoor | None"
    """None without a channel."""
    forget_models: Callable[[], None]
    """Lets the next request choose its model anew: the models have changed."""
    reload: Callable[[], Awaitable[SettingChanges]]
    """Takes the settings as their files have them now. Raises `ConfigError` when they can't be used."""
    cluster: OtherGateways | None = None
    """The other nodes; None when there are none."""


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
