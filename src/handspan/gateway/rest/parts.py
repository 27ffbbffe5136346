"""The parts of the gateway that the routes of REST use. `door.py` makes `RestParts`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from handspan.agent.sessions import Sessions
from handspan.config.listing import SettingChanges
from handspan.core.bus import Bus
from handspan.core.store import ArtifactStore, Store
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.http.calls import RunningCalls
from handspan.gateway.http.idempotency import AskedCalls, Replays
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.parts import OtherGateways
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.models.choice import Choice
from handspan.wire.rest.devices import ForgottenDevice

if TYPE_CHECKING:
    from handspan.gateway.channels.door import ChannelDoor

BodySize: TypeAlias = Literal["tiny", "small", "large", "upload"]


class BodyLimits(Struct, frozen=True):
    """The largest body of a request in bytes, and the longest time for it."""

    tiny: int = 4 * 1024
    """For callers without a token."""
    small: int = 64 * 1024
    large: int = 1024 * 1024
    """`gateway.request_bytes`: arguments of tools, instructions of agents."""
    upload: int = 64 * 1024 * 1024
    """`gateway.upload_bytes`."""
    seconds: float = 30.0
    """For a whole JSON body; for an upload, until more of it comes."""

    def of(self, size: BodySize) -> int:
        """Return the limit of a body of this size. No JSON body may be larger than the setting for large ones."""
        limit = {"tiny": self.tiny, "small": self.small, "large": self.large, "upload": self.upload}[size]
        return limit if size == "upload" else min(limit, self.large)


def _forget_nothing() -> None:
    """Do nothing: for a door whose models never change."""


async def _reload_nothing() -> SettingChanges:
    """Return no changes: for a door whose settings never change."""
    return SettingChanges([], [])


class RestParts(Struct, kw_only=True):
    """Everything that a route of REST may use."""

    app: App
    bus: Bus
    artifacts: ArtifactStore
    auth: Auth
    sessions: Sessions
    questions: AwaitedQuestions
    devices: Devices
    forget_device: Callable[[str, str], Awaitable[ForgottenDevice | None]]
    """Forgets a device by label and owner, with its connection and its token. Returns None when there is none."""
    pairing: Pairing
    live: Live
    metrics: Metrics
    cluster: OtherGateways | None = None
    """The other nodes; None when there are none."""
    channels: "ChannelDoor | None" = None
    """None: a door without channels."""
    model_choice: Callable[[], Awaitable[Choice]] | None = None
    """Chooses the model for agents that name none. None: the settings choose."""
    choice_at_once: Callable[[], Choice] | None = None
    """Chooses that model without a search for a local one."""
    forget_models: Callable[[], None] = _forget_nothing
    """Lets the next request choose its model anew: the models have changed."""
    reload: Callable[[], Awaitable[SettingChanges]] = _reload_nothing
    """Takes the settings as their files have them now. Raises `ConfigError` when they can't be used."""
    limits: BodyLimits = BodyLimits()
    wait_seconds: float = 25.0
    """Seconds that a request waits for a call's result. After that the answer is the call's id."""
    at_work: RunningCalls = field(default_factory=RunningCalls)
    asked_calls: AskedCalls = field(default_factory=AskedCalls)
    webhook_answers: Replays[Struct] = field(default_factory=lambda: Replays(300.0, conflict=_used_for_another))
    """Stored answers by owner and key, for five minutes. A failed request may be sent again with its key."""
    webhook_tries: TryLimit = field(default_factory=lambda: TryLimit(30, 60.0))

    @property
    def store(self) -> Store:
        """The store."""
        return self.app.store

    async def drain(self, seconds: float) -> None:
        """Wait so long for running calls, then end them and the streams. Each call gets a result."""
        self.at_work.is_open = False
        await self.at_work.wait(seconds)
        self.live.close()
        await self.at_work.close()


def _used_for_another(key: str) -> Refusal:
    return Refusal(
        409, "idempotency_conflict", f"The key {key!r} was used for another message. Use a new one for this."
    )
