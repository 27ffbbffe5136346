"""What the routes need of the gateway, and nothing else. `door.py` fills it."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from handspan.agent.sessions import Sessions
from handspan.core.errors import StoreError
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
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.models.choice import Choice

BodySize: TypeAlias = Literal["tiny", "small", "large", "upload"]


class BodyLimits(Struct, frozen=True):
    """How many bytes a request's body may have, and how long it may take."""

    tiny: int = 4 * 1024
    """Of who has no token yet."""
    small: int = 64 * 1024
    large: int = 1024 * 1024
    """`gateway.request_bytes`: arguments of tools, instructions of agents."""
    upload: int = 64 * 1024 * 1024
    """`gateway.upload_bytes`."""
    seconds: float = 30.0
    """For JSON as a whole; for an upload until more of it comes."""

    def of(self, size: BodySize) -> int:
        """The limit of such a body; what the settings say of large ones holds for small ones too."""
        limit = {"tiny": self.tiny, "small": self.small, "large": self.large, "upload": self.upload}[size]
        return limit if size == "upload" else min(limit, self.large)


class Doors(Struct, kw_only=True):
    """The house as the routes see it."""

    app: App
    artifacts: ArtifactStore
    auth: Auth
    sessions: Sessions
    questions: AwaitedQuestions
    devices: Devices
    forget_device: Callable[[str, str], Awaitable[bool]]
    """Forgets a device, by its label and owner, with its connection and its token; False when there is none."""
    pairing: Pairing
    live: Live
    metrics: Metrics
    model_choice: Callable[[], Awaitable[Choice]] | None = None
    """The model that answers where an agent names none; None: as the settings say."""
    choice_at_once: Callable[[], Choice] | None = None
    """The same as far as it is known now: a local model is not looked for."""
    limits: BodyLimits = BodyLimits()
    patience: float = 25.0
    """Seconds that a request waits for a call; then it gets the call's id."""
    at_work: RunningCalls = field(default_factory=RunningCalls)
    asked_calls: AskedCalls = field(default_factory=AskedCalls)
    webhook_answers: Replays[Struct] = field(default_factory=lambda: Replays(300.0, conflict=_used_for_another))
    """By owner and key, for five minutes. A failed try may be made again under its key."""
    webhook_tries: TryLimit = field(default_factory=lambda: TryLimit(30, 60.0))

    @property
    def store(self) -> Store:
        """All that lasts."""
        if self.app.store is None:
            raise StoreError("This house keeps nothing: open it with durable=True.")
        return self.app.store

    async def drain(self, seconds: float) -> None:
        """Let calls finish for so long, then end what outlives its request. Each call gets its result."""
        self.at_work.is_open = False
        await self.at_work.wait(seconds)
        self.live.close()
        await self.at_work.close()


def _used_for_another(key: str) -> Refusal:
    return Refusal(
        409, "idempotency_conflict", f"The key {key!r} was used for another message. Use a new one for this."
    )
