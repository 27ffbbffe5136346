"""The rate limit on wrong tokens and other tries, by address: so many in a window of time, then a pause."""

import time
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from handspan.core.bounded import BoundedDict

ShareTries: TypeAlias = Callable[[Callable[[str], None]], Callable[[str], None]]
"""Gets the function that counts the tries on other nodes. Returns the one that tells them of a try here."""


def count_here_alone(count: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that tells no other node."""
    return lambda address: None


class _Tried(Struct):
    """The tries of one address."""

    at: list[float]
    free_at: float = 0.0
    """When the address may try again."""


class TryLimit:
    """Counts tries by address. The number of addresses is bounded: the oldest are forgotten first."""

    def __init__(
        self,
        limit: int,
        seconds: float,
        pause: float | None = None,
        *,
        addresses: int = 10_000,
        clock: Callable[[], float] = time.time,
        share: ShareTries = count_here_alone,
    ) -> None:
        """Allow `limit` tries in `seconds`, then a `pause`; without a pause, until the window has moved on."""
        self._limit = limit
        self._seconds = seconds
        self._pause = pause
        self._clock = clock
        self._tried: BoundedDict[str, _Tried] = BoundedDict(addresses)
        self._tell_others = share(self.count)

    def wait(self, address: str) -> float:
        """Return how many seconds this address has to wait; 0 when it may try."""
        tried = self._tried.get(address)
        return max(0.0, tried.free_at - self._clock()) if tried else 0.0

    def note(self, address: str) -> None:
        """Count a try, on the other nodes, too."""
        self.count(address)
        self._tell_others(address)

    def count(self, address: str) -> None:
        """Count a try without telling the other nodes."""
        now = self._clock()
        tried = self._tried.pop(address, None) or _Tried([])
        tried.at = [at for at in tried.at if at > now - self._seconds]
        tried.at.append(now)
        if len(tried.at) >= self._limit:
            tried.free_at = tried.at[0] + self._seconds if self._pause is None else now + self._pause
            if self._pause is not None:
                tried.at = []
        self._tried[address] = tried  # at the end: it is the newest now

    def forget(self, address: str) -> None:
        """Forget the tries of this address."""
        self._tried.pop(address, None)
