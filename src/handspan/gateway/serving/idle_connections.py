"""The connections without a request at work. They are closed when there are too many, or when they take too long.

An idle connection costs its client nothing, and has shown no token: without a bound, idle sockets alone would lock all
other clients out (SPEC S7). A connection with a request or a WebSocket is not idle.
"""

import resource
import time
from collections.abc import Callable
from typing import Final, Protocol

from handspan.config.gateway_settings import ConnectionLimits

_OWN_FILES: Final = 64
"""Descriptors that stay free for the database, files, child processes and outgoing requests."""


class IdleConnection(Protocol):
    """A connection without a request."""

    def drop(self) -> None:
        """Close the connection: another one needs its place."""

    def end_late(self) -> None:
        """Close the connection: the head of its request did not come in time."""


_INVALID_SECONDS: Final = 60.0
"""Seconds between two lines of the log about invalid bytes from one address."""
_MOST_INVALID: Final = 100
"""The most addresses with such a line in that time: a flood from many must not fill the log."""


class IdleConnections:
    """Keeps idle connections in the order in which they became idle."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._limit = limits.most or _find_limit()
        self._since: dict[IdleConnection, float] = {}
        """When each connection became idle, the oldest first."""
        self._by_address: dict[str, dict[IdleConnection, None]] = {}
        """Only addresses of other computers: programs and proxies on this one share an address."""

        self._invalid: dict[str, float] = {}
        """When invalid bytes of an address were logged last."""

    def should_log_invalid(self, address: str) -> bool:
        """Return whether the log gets a line about invalid bytes of this address, and note that: once a minute."""
        now = self._clock()
        self._invalid = {one: at for one, at in self._invalid.items() if now - at < _INVALID_SECONDS}
        if address in self._invalid or len(self._invalid) >= _MOST_INVALID:
            return False
        self._invalid[address] = now
        return True

    def __len__(self) -> int:
        return len(self._since)

    def make_room(self, count: int) -> bool:
        """Return whether a new connection may stay; `count` are open with it. If need be, drop the oldest idle one."""
        if count <= self._limit:
            return True
        oldest = next(iter(self._since), None)
        if oldest is not None:
            oldest.drop()
        return oldest is not None

    def add(self, connection: IdleConnection, address: str) -> None:
        """Note that this connection is idle from now on. `address`: where it comes from; empty for this computer."""
        self._since[connection] = self._clock()
        if address:
            same = self._by_address.setdefault(address, {})
            same[connection] = None
            if len(same) > self._limits.idle_by_address:
                next(iter(same)).drop()

    def remove(self, connection: IdleConnection, address: str) -> None:
        """Note that this connection has a request, or is gone."""
        self._since.pop(connection, None)
        if address and address in self._by_address:
            same = self._by_address[address]
            same.pop(connection, None)
            if not same:
                del self._by_address[address]

    def end_late(self) -> None:
        """End the connections whose request took too long to come. Call it every second."""
        began = self._clock() - self._limits.head_seconds
        late = []
        for connection, since in self._since.items():
            if since > began:
                break
            late.append(connection)
        for connection in late:
            connection.end_late()


def _find_limit() -> int:
    """Return how many connections fit into the limit on open files of this process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if files == resource.RLIM_INFINITY else max(files - _OWN_FILES, files // 2)
