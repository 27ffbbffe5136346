"""What the routes of REST have beside the parts of the gateway. `door.py` makes it."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from handspan.core.bounded import BoundedDict
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.http.calls import RunningCalls
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.live import Live

_MAX_ASKED: Final = 1000
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


class RestState(Struct, kw_only=True):
    """The state of the door: its limits, its running calls, and the requests that may come twice."""

    live: Live
    limits: BodyLimits
    webhook_answers: Replays[Struct]
    """Stored answers by owner and key, for five minutes. A failed request may be sent again with its key."""
    webhook_tries: TryLimit
    push_tries: TryLimit
    wait_seconds: float = 25.0
    """Seconds that a request waits for a call's result. After that the answer is the call's id."""
    running_calls: RunningCalls = field(default_factory=RunningCalls)
    asked_calls: BoundedDict[str, bytes] = field(default_factory=lambda: BoundedDict(_MAX_ASKED))
    """The `fingerprint` of the requests of the last calls with a key, by call id. The ledger knows the older ones."""

    async def drain(self, seconds: float) -> None:
        """Wait so long for running calls, then end them and the streams. Each call gets a result."""
        self.running_calls.is_open = False
        await self.running_calls.wait(seconds)
        self.live.close()
        await self.running_calls.close()
