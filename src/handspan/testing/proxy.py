"""A proxy that breaks connections on command.

    async with FaultProxy(gateway.url, seed=7) as proxy:
        device = DeviceLogic(proxy.url, …)
        proxy.delay(0.05, jitter=0.02)      # everything arrives later
        proxy.cut()                         # every connection is reset
        proxy.half_open("up")               # what clients send goes nowhere, and no end notices
        proxy.heal()                        # no more faults, for the connections that are left

Random choices (jitter, which frames are repeated) depend on the seed, the number of the connection and what went
through it before: the same run has the same faults.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final, Self
from urllib.parse import urlsplit

from msgspec import Struct

from handspan.testing.proxy_link import ClientStream, Direction, Flow, LinkFaults, ProxiedLink, reset

_SECONDS_TO_REACH: Final = 5.0
_PORTS: Final = {"http": 80, "ws": 80, "tcp": None}


class ProxyStatistics(Struct):
    """What went through, and which faults were made."""

    connections: int = 0
    refused: int = 0
    """By command, or because the target did not answer."""
    cut: int = 0
    closed: int = 0
    repeated: int = 0
    """Frames that were sent twice."""
    bytes_up: int = 0
    """From clients to the target."""
    bytes_down: int = 0


class FaultProxy:
    """A TCP proxy in front of a gateway, or of any server (`tcp://host:port`).

    For http and ws it replaces the Host header by that of the target, and can repeat whole WebSocket frames. A request
    that is no upgrade has a connection of its own.
    """

    def __init__(self, target_url: str, *, seed: int = 0) -> None:
        target = urlsplit(target_url)
        port = target.port or _PORTS.get(target.scheme)
        if target.scheme not in _PORTS or not target.hostname or port is None:
            raise ValueError(f"{target_url!r} is no address of a server: use http://…, ws://… or tcp://host:port.")
        self._target = target
        self._address = (target.hostname, port)
        self._seed = seed
        self._faults = LinkFaults()
        self._refuses = False
        self._links: dict[ProxiedLink, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self.statistics = ProxyStatistics()

    @property
    def url(self) -> str:
        """The target's address, through this proxy."""
        assert self._server is not None, "the proxy is not open: use `async with`"
        port = self._server.sockets[0].getsockname()[1]
        return self._target._replace(netloc=f"127.0.0.1:{port}").geturl()

    @property
    def links(self) -> tuple[ProxiedLink, ...]:
        """The open connections, the oldest first."""
        return tuple(self._links)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        running = tuple(self._links.values())
        for link in self.links:
            link.cut()
        await asyncio.gather(*running, return_exceptions=True)

    # Commands that hold until `heal`, for open and new connections.

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Pass everything on this much later, plus up to `jitter` seconds; the order stays."""
        self._faults.delay, self._faults.jitter = seconds, jitter

    def split(self, size: int) -> None:
        """Pass everything on in pieces of this many bytes."""
        self._faults.size = max(1, size)

    def duplicate(self, share: float = 1.0, only: Callable[[bytes], bool] | None = None) -> None:
        """Send this share of the clients' whole text frames twice; with `only`, of the frames whose text it accepts."""
        self._faults.share, self._faults.only = share, only

    def half_open(self, direction: Direction = "both", link: ProxiedLink | None = None) -> None:
        """Pass nothing on, of one connection or of all, not even that one end has closed. What is sent waits."""
        if link is None:
            self._faults.stopped = direction
        for one in self._select(link):
            one.stop(direction)

    def refuse(self) -> None:
        """Reset new connections at once."""
        self._refuses = True

    def heal(self) -> None:
        """Make no more faults."""
        self._faults.reset()
        self._refuses = False
        for link in self._links:
            link.resume()

    # Commands that act once.

    def cut(self, link: ProxiedLink | None = None) -> None:
        """Reset one connection, or all: what is on its way is lost, and both ends get an error (RST)."""
        for one in self._select(link):
            self.statistics.cut += one.cut()

    def close(self, link: ProxiedLink | None = None) -> None:
        """Close one connection, or all, as if each end had closed it (FIN)."""
        for one in self._select(link):
            self.statistics.closed += one.close()

    def _select(self, link: ProxiedLink | None) -> Iterator[ProxiedLink]:
        return iter(self.links if link is None else (link,))

    # Connections.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to the target, and pass everything on, with the faults of this moment."""
        number, self.statistics.connections = self.statistics.connections, self.statistics.connections + 1
        try:
            if self._refuses:
                raise ConnectionRefusedError("by command")
            async with asyncio.timeout(_SECONDS_TO_REACH):
                there, to_there = await asyncio.open_connection(*self._address)
        except (OSError, TimeoutError):
            self.statistics.refused += 1
            reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        stream = None if self._target.scheme == "tcp" else ClientStream(self._target.netloc.rpartition("@")[2])
        up, down = (random.Random(f"{self._seed}/{number}/{way}") for way in ("up", "down"))
        link = ProxiedLink(
            Flow(reader, to_there, self._faults, up, count=self._count_up, stream=stream),
            Flow(there, writer, self._faults, down, count=self._count_down),
        )
        if self._faults.stopped is not None:
            link.stop(self._faults.stopped)
        self._links[link] = task
        try:
            await link.run()
        finally:
            self._links.pop(link, None)

    def _count_up(self, count: int, repeated: int) -> None:
        self.statistics.bytes_up += count
        self.statistics.repeated += repeated

    def _count_down(self, count: int, _: int) -> None:
        self.statistics.bytes_down += count
