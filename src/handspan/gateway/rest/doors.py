"""What the routes need of the house, and nothing else. `http.py` fills it."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from handspan.agent.sessions import Sessions
from handspan.core.errors import StoreError
from handspan.core.store import KeptArtifacts, Store
from handspan.gateway.app import App
from handspan.gateway.clients.devices import DeviceInfo
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.entry.tries import Tries
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.rest.at_work import CallsAtWork
from handspan.gateway.rest.idempotency import CallIds, Remembered
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


class OwnedDevices(Protocol):
    """The owners' devices, those that are away too."""

    async def all(self, owner: str) -> list[DeviceInfo]:
        """The owner's devices."""
        ...

    async def rename(self, label: str, new: str, owner: str) -> bool:
        """Give it another label; False when the owner has no such device, `ToolError` for a label that can't be."""
        ...

    async def forget(self, label: str, owner: str) -> bool:
        """Close its connection, revoke its token and forget it; False when the owner has no such device."""
        ...

    async def looked(self, label: str, owner: str) -> bool:
        """A person has seen what changed; False when the owner has no such device."""
        ...


class Doors(Struct, kw_only=True):
    """The house as the routes see it."""

    app: App
    artifacts: KeptArtifacts
    auth: Auth
    sessions: Sessions
    questions: AwaitedQuestions
    devices: OwnedDevices
    pairing: Pairing
    live: Live
    metrics: Metrics
    call_ids: CallIds
    model_choice: Callable[[], Awaitable[Choice]] | None = None
    """The model that answers where nobody names one; None: as the settings say."""
    limits: BodyLimits = BodyLimits()
    patience: float = 25.0
    """Seconds that a request waits for a call; then it gets the call's id."""
    at_work: CallsAtWork = field(default_factory=CallsAtWork)
    webhook_answers: Remembered = field(default_factory=Remembered)
    webhook_tries: Tries = field(default_factory=lambda: Tries(30, 60.0))

    @property
    def store(self) -> Store:
        """All that lasts."""
        if self.app.store is None:
            raise StoreError("This house keeps nothing: open it with durable=True.")
        return self.app.store

    async def close(self) -> None:
        """End what outlives its request: streams, and calls that nobody waits for. Each call gets its result."""
        self.live.close()
        await self.at_work.close()
