"""The part of this node in an MCP server that one node runs for all: the lease, and how it is handed over (SPEC K2)."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from handspan.core.errors import HandspanError
from handspan.core.nodes import LinkDown, NodeBook, NodeRecord
from handspan.core.tasks import wait_for
from handspan.sources.mcp.process import ServerLost
from handspan.sources.mcp.servers import McpServers
from handspan.sources.mcp.sharing import ServerElsewhere
from handspan.sources.nodes import messages
from handspan.sources.nodes.hosted import HostedServer
from handspan.sources.nodes.messages import encode
from handspan.sources.nodes.server_link import encode_snapshot

if TYPE_CHECKING:
    from handspan.gateway.nodes.servers import SharedServers

_TRY_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 1.0
"""How long a node leaves a server that no node runs to the server's first node."""
_MOVE_SECONDS: Final = 8.0
"""How long calls wait for a node that runs the server. A connection waits twice as long before its tools go."""
_ASK_SECONDS: Final = 10.0
_LEASE: Final = "mcp_server/"
_LOOK_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)
_trusted: Final = msgspec.msgpack.Decoder(messages.TrustedServer)


class NodeShare:
    """The part of this node in one server. Implements `ServerShare`."""

    def __init__(self, name: str, host: "SharedServers") -> None:
        self.name = name
        self.changed_elsewhere = asyncio.Event()
        """Is set when another node begins to run the server, or stops."""
        self.hosted: HostedServer | None = None
        """The server, while this node has the lease."""
        self.is_alone = False
        """Whether no node has run the server for a long time."""
        self._host = host
        self._written = b""
        """The snapshot that the row has."""
        self._is_leaving = False
        """Whether this node gives the lease to another node."""
        self._has_given_up = False
        """Whether the server could not be started on this node, so that another one has to try first."""
        self._released = asyncio.Event()

    @property
    def node(self) -> str:
        """The name of the node that runs the server; empty while none does."""
        link = self._host.link_of(self.name)
        return self._host.node if self.hosted is not None else "" if link is None else link.mirror.record.name

    @property
    def is_held(self) -> bool:
        """Whether this node runs the server, and is not about to give it away."""
        return self.hosted is not None and not self._is_leaving

    async def claim(self) -> ServerElsewhere | None:
        """Return the server at the node that runs it. Return None when this node has the lease, and has to run it.

        While no node runs the server, its first node takes the lease at once and all others after `_TURN_SECONDS`: so
        the servers spread over the nodes, and none waits long for a first node that does not have it in its settings.
        A node that could not start the server comes last.

        Raises `ServerLost` when no node runs the server for too long.
        """
        host = self._host
        await host.ready.wait()
        if self.hosted is not None and self._is_leaving:
            await self.release()
        if self.hosted is None:
            await wait_for(host.settles_in, self.changed_elsewhere)
        end = time.monotonic() + _MOVE_SECONDS
        while self.hosted is None:
            self.changed_elsewhere.clear()
            if (link := host.link_of(self.name)) is not None:
                self.is_alone = False
                return link
            if time.monotonic() > end:
                self.is_alone = True
                raise ServerLost("no node runs it at the moment")
            turns = 2 if self._has_given_up else 0 if await host.is_first(self.name) else 1
            if turns and await wait_for(turns * _TURN_SECONDS, self.changed_elsewhere):
                continue
            self.hosted = await host.claim(self.name)
            if self.hosted is None:
                await wait_for(_TRY_SECONDS, self.changed_elsewhere)
        self.is_alone = self._has_given_up = False
        return None

    async def release(self) -> None:
        """Give the lease up, if this node has it: the program has ended on this node."""
        hosted, self.hosted, self._written, self._is_leaving = self.hosted, None, b"", False
        if hosted is not None:
            self._has_given_up = True
            await self._host.release(hosted)
            self._released.set()

    async def close(self) -> None:
        """Give the lease up: the server is removed from this node."""
        await self.release()
        self._host.forget(self)

    async def trust(self) -> list[str]:
        """Let the node that runs the server accept its definitions as they are now. Return the names of the tools."""
        link = self._host.link_of(self.name)
        if link is None:
            raise LinkDown(f"No node runs the MCP server {self.name!r} at the moment: try again.")
        asked = encode(messages.TrustServer(self.name))
        try:
            answer = await self._host.link.request(link.mirror.record.node, messages.TRUST, asked, _ASK_SECONDS)
        except TimeoutError:
            raise LinkDown(f"The node of the MCP server {self.name!r} does not answer: try again.") from None
        return _trusted.decode(answer).tools

    def lose(self) -> None:
        """Note that another node may run the server by now, and end the program on this node."""
        hosted, self.hosted, self._written = self.hosted, None, b""
        self._released.set()
        connection = self._host.find(self.name)
        if hosted is not None:
            hosted.is_over = True
            if connection is not None:
                _log.warning("The MCP server %s is stopped here: another node may run it by now.", self.name)
                connection.drop()

    def check(self, rows: set[tuple[str, int]]) -> None:
        """Call `lose` if the row with the lease of this node is gone."""
        if self.hosted is not None and (self.hosted.peer, self.hosted.epoch) not in rows:
            self.lose()

    async def write(self) -> None:
        """Write the server's snapshot into its row, if it has changed."""
        connection = self._host.find(self.name)
        if self.hosted is None or connection is None:
            return
        written = encode_snapshot(connection.snapshot(is_leaving=self._is_leaving))
        if written != self._written:
            await self._host.publish(self.hosted, written)
            self._written = written

    async def hand_over(self, seconds: float) -> None:
        """Let another node run the server, when its calls on this node have ended or the time is over."""
        hosted, connection = self.hosted, self._host.find(self.name)
        if hosted is None or connection is None:
            return
        self._is_leaving = True
        self._released.clear()
        end = time.monotonic() + seconds
        try:
            await self.write()
        except HandspanError as error:
            _log.warning("The other nodes do not know yet that this one gives %s up: %s", self.name, error)
        await wait_for(end - time.monotonic(), connection.idle)
        hosted.is_over = True
        connection.drop()
        await wait_for(end + _MOVE_SECONDS - time.monotonic(), self._released)


class ServerNames:
    """Tells the other nodes the names of this node's servers, and keeps the names of theirs on this node.

    No client of any node gets such a prefix (SPEC R2). Each name is a named lease of a node that has the server in its
    settings, whether the server is up or not. So the names of a node go with the node.
    """

    def __init__(self, book: NodeBook, servers: Callable[[], McpServers]) -> None:
        self._book = book
        self._servers = servers
        self._looked_at = 0.0

    async def look(self) -> None:
        """Enter and read the names, at most once a second. Raises `StoreError`."""
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        holders = {
            lease.removeprefix(_LEASE): node
            for lease, node in (await self._book.holders()).items()
            if lease.startswith(_LEASE)
        }
        own = self._servers().names
        for name in own - holders.keys():
            await self._book.hold(f"{_LEASE}{name}")
        for name in holders.keys() - own:
            if holders[name] == self._book.own:
                await self._book.release(f"{_LEASE}{name}")
        self._servers().keep_names(frozenset(name for name, node in holders.items() if node != self._book.own))
        self._looked_at = time.monotonic()


def first_node(nodes: Iterable[NodeRecord], server: str) -> str:
    """Return the id of the server's first node; empty without a node that can take it.

    Each server has an order of its own over the names of the nodes. So nodes that come or go change the first node of
    few servers, and all nodes know the same one without asking each other.
    """
    able = [node for node in nodes if not node.is_draining]
    first = max(able, key=lambda one: (blake2b(f"{server} {one.name}".encode()).digest(), one.id), default=None)
    return "" if first is None else first.id
