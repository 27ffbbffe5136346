"""MCP servers that are programs: one node runs each of them, and all nodes use it (SPEC K2).

The row of a server in the database is the lease. One node can enter the row, and the row is removed when that node is
lost. The node then starts the program, and writes the server's tools and state into the row. All other nodes read the
row, and call the server through that node. When the row is gone, a node that has the server in its settings enters it
anew: the server's first node at once, another one a moment later.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from handspan.bus.link import NatsLink
from handspan.bus.nats import NatsBus
from handspan.core.bus import ToolsChanged
from handspan.core.errors import StoreError
from handspan.core.nodes import SERVER, SHARED, ClientNode, ClientRecord
from handspan.core.tasks import wait_for
from handspan.gateway.nodes.server_share import NodeShare, ServerNames, first_node
from handspan.gateway.parts import Here
from handspan.sources.mcp.connection import McpConnection
from handspan.sources.mcp.servers import McpServers
from handspan.sources.nodes import messages
from handspan.sources.nodes.hosted import HostedServer
from handspan.sources.nodes.messages import encode
from handspan.sources.nodes.mirror import Mirror, MirrorHost
from handspan.sources.nodes.server_link import CAPABILITIES, NodeServerLink, encode_snapshot
from handspan.sources.ws.calls import LostCall

_PREFIX: Final = "mcp-"
_SETTLE_SECONDS: Final = 1.0
"""How long a node that starts leaves the servers to nodes that start together with it."""
_TICK_SECONDS: Final = 0.5
_REPEAT_TICKS: Final = 6
_CALLER_SECONDS: Final = 10.0
"""How long the calls of a node that is gone may run on. The node may live, under a new incarnation."""
_MAX_ENDED: Final = 100
_MAX_CALLS: Final = 1000
"""Calls of other nodes that one server may have open. Most of them wait until earlier calls have ended."""
_SERVER_LOST: Final = "The node that ran the MCP server was lost"
_log = logging.getLogger(__name__)


def is_server(peer: str) -> bool:
    """Whether this id belongs to an MCP server, and not to a client."""
    return peer.startswith(_PREFIX)


class SharedServers:
    """What this node does for the MCP servers that all nodes share: run some, and call the others through their nodes.

    Implements `RelayHost`.
    """

    def __init__(self, host: MirrorHost, link: NatsLink, bus: NatsBus, here: Here, *, name: str, away: float) -> None:
        """`name`: this node's. `away`: seconds without the database after which this node's programs end."""
        self.link, self.frames, self.start = link, host.frames, host.start
        self.most_calls = _MAX_CALLS
        self.book = host.book
        self.ready = asyncio.Event()
        """Is set when this node takes part in the work of all nodes."""
        self.node = name
        self._here = here
        self._host = host
        self._bus = bus
        self._away = away
        self._names = ServerNames(host.book, lambda: here().app.mcp)
        self._shares: dict[str, NodeShare] = {}
        """This node's part in each server, by the name of the server."""
        self._links: dict[str, NodeServerLink] = {}
        """The servers of other nodes, by their names."""
        self._by_peer: dict[str, NodeServerLink] = {}
        """The servers of other nodes, by the peers of their rows."""
        self._hosted: OrderedDict[str, HostedServer] = OrderedDict()
        """Servers that this node runs, or ran, by the peers of their rows. Old ones stay: an answer may be repeated."""
        self._has_claimed = False
        """Whether this node has ever claimed a server, so that it may have rows."""
        self._claiming: set[str] = set()
        """The peers of rows that this node is about to enter."""
        self._unwanted: list[tuple[str, int]] = []
        """Rows to remove: peer and epoch."""
        self._opened_at = 0.0
        self._seen_at = time.monotonic()
        """When the database answered last."""
        self._gone: dict[str, float] = {}
        """Since when each node that has calls here is not among the living nodes."""
        self._wake = asyncio.Event()

    @property
    def _mcp(self) -> McpServers:
        return self._here().app.mcp

    def close(self) -> None:
        """Stop. The rows of this node are removed when the programs have ended, or with the lease of this node."""
        for link in self._by_peer.values():
            link.lost.set()

    async def drain(self, seconds: float) -> None:
        """Give the servers of this node to other nodes: each when its calls have ended, or after the time."""
        held = [share for share in self._shares.values() if share.hosted is not None]
        if seconds and held:
            await asyncio.gather(*(share.hand_over(seconds) for share in held))

    def share(self, name: str) -> NodeShare:
        """Return the part of this node in the server of this name."""
        share = self._shares[name] = NodeShare(name, self)
        return share

    def forget(self, share: NodeShare) -> None:
        """Note that the connection of this share is closed."""
        if self._shares.get(share.name) is share:
            del self._shares[share.name]
        self._wake.set()

    # The lease.

    @property
    def settles_in(self) -> float:
        """Seconds in which nodes that start together with this one may still come."""
        return self._opened_at + _SETTLE_SECONDS - time.monotonic()

    async def is_first(self, name: str) -> bool:
        """Whether this is the node that runs the server if all nodes can choose."""
        return first_node(await self.book.nodes(), name) == self.book.own

    async def claim(self, name: str) -> HostedServer | None:
        """Enter this node as the one that runs the server. Return None if another node does, or this node may not."""
        connection = self._mcp.find(name)
        if self._here().nodes.is_draining or connection is None or self._mcp.is_foreign(name):
            return None
        record = ClientRecord(
            peer=f"{_PREFIX}{secrets.token_hex(16)}",
            owner=SHARED,
            node=self.book.own,
            epoch=0,
            role=SERVER,
            label=name,
            session="",
            prefix=False,
            capabilities=CAPABILITIES,
            name=self.node,
            tools=encode_snapshot(connection.snapshot()),
        )
        self._has_claimed = True
        self._claiming.add(record.peer)
        try:
            epoch = await self.book.claim_server(record)
            if not epoch:
                return None
            await self._here().app.read_pins()
        finally:
            self._claiming.discard(record.peer)  # if this failed after the row was entered, the next look removes it
        app = self._here().app
        hosted = HostedServer(
            record.peer, epoch, connection.run_named, self, artifacts=app.artifacts, folder=app.settings.workspace
        )
        self._hosted[record.peer] = hosted
        while len(self._hosted) > _MAX_ENDED and next(iter(self._hosted.values())).is_over:
            self._hosted.popitem(last=False)
        _log.info("The MCP server %s runs on this node.", name)
        return hosted

    async def release(self, hosted: HostedServer) -> None:
        """Remove the row of a server whose program has ended on this node."""
        await hosted.end()
        self._unwanted.append((hosted.peer, hosted.epoch))
        await self._remove_rows()

    async def publish(self, hosted: HostedServer, snapshot: bytes) -> None:
        """Write the server's snapshot into its row, and tell the other nodes."""
        await self.book.store_tools(hosted.peer, hosted.epoch, snapshot)
        self._bus.publish(ToolsChanged(SHARED))

    async def _remove_rows(self) -> None:
        try:
            while self._unwanted:
                await self.book.remove_client(*self._unwanted[-1])
                self._unwanted.pop()
            self._bus.publish(ToolsChanged(SHARED))
        except StoreError as error:  # the next tick tries again; at the latest the rows go with the lease of this node
            _log.debug("The lease of an MCP server could not be given up yet: %s", error)

    def lose_all(self) -> None:
        """End the programs on this node: other nodes counted it as lost, and may run its servers now."""
        for share in self._shares.values():
            share.lose()

    def find(self, name: str) -> McpConnection | None:
        """Return the connection of this server."""
        return self._mcp.find(name)

    # Servers of other nodes.

    def link_of(self, name: str) -> NodeServerLink | None:
        """Return the link to the server on another node; None while no other node runs the server."""
        link = self._links.get(name)
        return None if link is None or link.lost.is_set() else link

    def appear(self, mirror: Mirror) -> None:
        """Take what the row of another node's server says: its tools and its state."""
        link = self._by_peer.get(mirror.id)
        if link is None or link.mirror is not mirror or (link.lost.is_set() and not link.snapshot.is_leaving):
            link = self._by_peer[mirror.id] = NodeServerLink(mirror, self._host)
        link.read()
        name = mirror.record.label
        self._links[name] = link
        self._wake_share(name)
        if name not in self._shares:
            self.start(self._mcp.add_foreign(name, link.snapshot))

    def disappear(self, mirror: Mirror) -> None:
        """Note that another node does not run this server any more."""
        link = self._by_peer.get(mirror.id)
        if link is not None:
            link.lost.set()
            self._wake_share(mirror.record.label)

    def _wake_share(self, name: str) -> None:
        share = self._shares.get(name)
        if share is not None:
            share.changed_elsewhere.set()
            connection = self._mcp.find(name)
            if connection is not None and share.hosted is None:
                connection.wake()

    # Messages of other nodes.

    def find_hosted(self, peer: str, epoch: int) -> HostedServer | None:
        """Return the server that this node runs under this lease; None if it does not."""
        hosted = self._hosted.get(peer)
        return None if hosted is None or hosted.epoch != epoch else hosted

    def receive_question(self, question: messages.CallQuestion) -> None:
        """Pass a question of a call that runs on another node to the link of its server.

        A question of an unknown server is dropped.
        """
        link = self._by_peer.get(question.peer)
        if link is not None:
            link.receive_question(question)

    def receive_answer(self, answered: messages.CallAnswer) -> None:
        """Pass the answer of a person on another node to the server that has asked."""
        hosted = self._hosted.get(answered.peer)
        if hosted is not None:
            hosted.receive_answer(answered)

    def trust(self, message: messages.TrustServer) -> bytes:
        """Accept the definitions of a server that runs on this node, for a person on another node."""
        return encode(messages.TrustedServer(self._mcp.trust_here(message.name)))

    # Every half second.

    async def run(self) -> None:
        """Claim servers, and look after those of all nodes."""
        self._bus.subscribe(ToolsChanged, lambda _: self._wake.set())
        self._opened_at = time.monotonic()
        self.ready.set()
        count = 0
        while True:
            await wait_for(_TICK_SECONDS, self._wake)
            self._wake.clear()
            count += 1
            try:
                await self._names.look()
                await self._look()
            except StoreError as error:
                _log.debug("The database is away: %s", error)
                self._step_down()
            except Exception:
                _log.exception("The MCP servers of all nodes could not be looked after")
            if count % _REPEAT_TICKS == 0:
                for hosted in self._hosted.values():
                    hosted.relay.repeat_answers()

    async def _look(self) -> None:
        """Write the snapshots of this node's servers, notice a lost lease, and show or hide servers of other nodes."""
        if self._has_claimed:
            rows = await self.book.client_nodes([SHARED])
            held = [share for share in self._shares.values() if share.hosted is not None]
            self._note_unwanted_rows(rows)
            for share in held:
                share.check({(row.peer, row.epoch) for row in rows})
            for share in held:
                await share.write()
            await self._end_calls_of_lost_nodes()
        if self._unwanted:
            await self._remove_rows()
        await self._take_over_calls()
        self._seen_at = time.monotonic()
        for name, link in list(self._links.items()):
            if not link.mirror.is_up:
                await self._hide(name, link)
            elif name not in self._shares:  # the server's connection was removed from this node
                await self._mcp.add_foreign(name, link.snapshot)
        for peer in [peer for peer, link in self._by_peer.items() if link.lost.is_set() and not link.mirror.is_awaited]:
            if not self._by_peer[peer].mirror.is_up:
                del self._by_peer[peer]

    async def _take_over_calls(self) -> None:
        """Get the answers of calls of lost nodes from the servers that run them.

        If no node runs the server any more, the outcome of its calls is unknown.
        """
        unfinished = self._here().unfinished
        awaited = [peer for peer in unfinished.awaited_peers if is_server(peer)]
        rows = {row.peer for row in await self.book.client_nodes([SHARED])} if awaited else ()
        for peer in awaited:
            hosted, link = self._hosted.get(peer), self._by_peer.get(peer)
            if hosted is not None:
                for call in unfinished.take(peer):
                    hosted.take_over(call)
            elif link is not None and link.mirror.is_up:
                unfinished.take_over(peer, link.mirror.calls)
                link.resume_calls()
            elif peer not in rows:
                for call in unfinished.take(peer):
                    call.end(LostCall(was_sent=True, why=_SERVER_LOST))

    def acknowledge(self, call_id: str) -> None:
        """Let the node of a server forget the answer to this call, because the result is stored."""
        for link in self._by_peer.values():
            link.mirror.calls.acknowledge_stored(call_id)

    async def acknowledge_late(self, mirror: Mirror, call_id: str) -> None:
        """Let the node of a server forget an answer that no call on this node waits for.

        The answer stays if the ledger says that the call is still open: another node waits for it.
        """
        with contextlib.suppress(StoreError):  # the database is away: the answer comes again
            record = await self._here().store.ledger.find(call_id)
            if record is None or record.state == "done":
                mirror.calls.acknowledge(call_id)

    def wake(self) -> None:
        """Do the next look now, because this node may have taken over calls of a lost node."""
        self._wake.set()

    def _note_unwanted_rows(self, rows: Sequence[ClientNode]) -> None:
        """Note the rows of this node whose server it does not run, so that they are removed.

        Such a row stays when the answer to a claim is lost, or when the server's connection closes.
        """
        run = {share.hosted.peer for share in self._shares.values() if share.hosted is not None} | self._claiming
        for row in rows:
            key = (row.peer, row.epoch)
            if row.node == self.book.own and row.peer not in run and key not in self._unwanted:
                self._unwanted.append(key)

    async def _hide(self, name: str, link: NodeServerLink) -> None:
        """Forget a server that no node runs any more, and that is not in the settings of this node."""
        share = self._shares.get(name)
        if share is None or (self._mcp.is_foreign(name) and share.is_alone):
            if self._links.get(name) is link:
                del self._links[name]
            await self._mcp.remove_foreign(name)

    async def _end_calls_of_lost_nodes(self) -> None:
        """Cancel the calls that run on this node for nodes that have been gone for `_CALLER_SECONDS`."""
        callers = {node for hosted in self._hosted.values() for node in hosted.callers()}
        if not callers:
            self._gone.clear()
            return
        living = {node.id for node in await self.book.nodes()}
        now = time.monotonic()
        self._gone = {node: self._gone.get(node, now) for node in callers - living}
        lost = {node for node, since in self._gone.items() if now - since > _CALLER_SECONDS}
        for hosted in self._hosted.values() if lost else ():
            hosted.cancel_of(lost)

    def _step_down(self) -> None:
        """End the programs if the database has been away for so long that another node may run them by now."""
        if time.monotonic() - self._seen_at > self._away:
            self.lose_all()
