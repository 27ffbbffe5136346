"""This gateway as one of several nodes: link, bus, the clients of the others, and what is taken over (SPEC K)."""

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.bus.link import LinkOptions, NatsLink, Respond
from handspan.bus.memory import STRICT_VARIABLE
from handspan.bus.nats import NatsBus
from handspan.bus.senders import Senders
from handspan.config.secrets import read_secret
from handspan.config.settings import ClusterSettings, Settings
from handspan.core.bus import AbortRequested
from handspan.core.errors import ConfigError, HandspanError, StoreError
from handspan.core.nodes import SHARED, NodeRecord, SharedRequests
from handspan.core.store import Store
from handspan.core.tasks import Tasks
from handspan.gateway.clients.peer import Peer, Relayed
from handspan.gateway.metrics import node_lines
from handspan.gateway.nodes.clients_elsewhere import ClientsElsewhere
from handspan.gateway.nodes.draining import Draining, runs_turns
from handspan.gateway.nodes.events import NodeEvents
from handspan.gateway.nodes.forwarding import RequestForwarding
from handspan.gateway.nodes.heartbeat import TICK_SECONDS, Heartbeat
from handspan.gateway.nodes.incoming import take_message
from handspan.gateway.nodes.lost_nodes import LostNodes, end_taken_calls
from handspan.gateway.nodes.server_share import wait_for
from handspan.gateway.nodes.session_ids import SessionRoutes
from handspan.gateway.nodes.shared_work import SharedWork
from handspan.gateway.nodes.taking_over import TakingOver
from handspan.gateway.nodes.turns import TurnsElsewhere
from handspan.gateway.one_node import RoutedSessions
from handspan.gateway.parts import Here
from handspan.sources.mcp.sharing import ServerShare
from handspan.sources.nodes import messages
from handspan.sources.nodes.messages import LargeFrames
from handspan.sources.nodes.probes import Probes
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws_frames import Connect

MakeLink: TypeAlias = Callable[[LinkOptions, Respond, Senders], NatsLink]
"""Makes the connection to the other nodes."""
_ROLES: Final = {"all": ("chat", "device"), "edge": ("device",), "agent": ("chat",)}
_PROBED_SECONDS: Final = 15.0
"""A proxy looks at `/ready` at least so often, if it looks at all."""
_NOTICE_SECONDS: Final = 3.0
"""Seconds in which a proxy that looks at `/ready` notices that a node stops."""
_log = logging.getLogger(__name__)


class Cluster:
    """All nodes of a gateway of several, as this one sees them.

    Implements `GatewayNodes` and `MessageTargets`. What it does for other nodes needs the
    parts of this gateway, which are made after it: it looks them up when a message or an event comes.
    """

    poll_seconds = TICK_SECONDS * 4

    def __init__(self, settings: Settings, store: Store, here: Here, make_link: MakeLink = NatsLink) -> None:
        """`here` returns the parts of this gateway. Raises `ConfigError` for settings that can't be used."""
        own = self._settings = settings.cluster
        assert store.nodes is not None  # `cluster.url` needs `store.url`
        book = self.book = store.nodes
        self.name = own.name or socket.gethostname()
        self.operator_token = read_secret(own.operator_token, os.environ, "cluster.operator_token")
        self.roles = _ROLES[own.role]
        self.runs_turns = runs_turns(own.role)
        self.leaving_seconds = own.drain
        self.is_draining = False
        self.process = os.urandom(16).hex()
        """The name of this process in the ids of MCP sessions. It stays when the node gets a new incarnation."""
        self._here = here
        self._store = store
        self._session_key = b""
        """The key with which all nodes sign the ids of MCP sessions."""
        self._is_open = False
        self._takes_part = False
        """Whether this node answers messages of other nodes."""
        self._probed_at = -math.inf
        """When a proxy last looked whether this node is ready."""
        self._tasks = Tasks()
        bus = self.bus = NatsBus(strict=bool(os.environ.get(STRICT_VARIABLE)))
        self.senders = Senders(book.senders)
        link = self.link = make_link(_options(own), self._respond, self.senders)
        frames = LargeFrames(store.artifacts)
        self.codes = book.codes
        self.work = SharedWork(book, bus)
        clients = self.clients = ClientsElsewhere(
            link,
            book,
            frames,
            bus,
            here=here,
            name=self.name,
            grace=settings.gateway.resume_grace,
            most_calls=settings.gateway.limits.pending_calls,
            away=own.away,
            start=self.start,
        )
        self.client_rows, self.servers = clients.rows, clients.servers
        mirrors = self.mirrors = clients.mirrors
        self.forwarding = RequestForwarding(link, self.process, frames)
        self._taking_over = TakingOver(self, here, grace=settings.gateway.resume_grace)
        self._lost_nodes = LostNodes(
            store,
            book,
            self._taking_over.take_over,
            self._taking_over.take_over_turn,
            on_clients_lost=lambda: mirrors.hint(""),
            runs_turns=self.runs_turns,
        )
        self._probes = Probes(book, link, mirrors, self._lost_nodes.declare_lost)
        self._turns = TurnsElsewhere(here, store.conversations)
        self._draining = Draining(book, link, here)
        self._heartbeat = Heartbeat(book, link, self.senders, bus, here=here, probes=self._probes, settings=own)
        self._events = NodeEvents(bus, here, mirrors, self._turns, revoked=self._heartbeat.revoked, start=self.start)

    def note_probe(self) -> None:
        """Note that a proxy looks whether this node is ready."""
        self._probed_at = time.monotonic()

    @property
    def is_cut_off(self) -> bool:
        """Whether this node has no connection to the other nodes, while others have one."""
        return self._heartbeat.is_cut_off

    # Open and close.

    def prepare(self, url: str) -> None:
        """Set the address at which this node answers, before the store is opened."""
        self.book.prepare(url, lambda: not self._is_open or self.link.is_up, self._on_lost)

    async def connect(self) -> None:
        """Connect to the other nodes, once the store is open. Raises `ConfigError` without a connection to NATS."""
        self._session_key = await self.book.secret("mcp")
        key, own = await self.book.secret("bus"), self.book.own
        await self.senders.look()
        await self.link.open(key, own)
        await self.link.listen_also(self.process)
        self.bus.open(self.link, self.book.own)
        self._is_open = True
        if self.book.own != own:  # the others counted this node as lost meanwhile
            await self.link.listen(self.book.own)

    async def open(self) -> None:
        """Take part in the work of all nodes."""
        self._events.open()
        for part in (self.client_rows, self.mirrors, self._probes, self._lost_nodes, self._turns):
            part.open()
        self.forwarding.open()
        self.servers.open()
        self.start(self._follow_shared())
        self._heartbeat.open()
        self._takes_part = True

    async def _follow_shared(self) -> None:
        await self.mirrors.follow(SHARED)

    async def secret(self, name: str) -> bytes:
        """Return a secret that all nodes share. The first call makes it."""
        return await self.book.secret(name)

    async def close(self) -> None:
        """Stop all work with other nodes, and close the link."""
        if not self._is_open:
            return
        if self._takes_part:
            await self._end_own_token()
            for part in (self._heartbeat, self.forwarding, self.servers, self._probes, self._lost_nodes, self._turns):
                await part.close()
            await self.mirrors.close()
            await self.client_rows.close()
        await self._tasks.close()
        await self.link.close()
        self._is_open = self._takes_part = False

    async def _end_own_token(self) -> None:
        try:
            await self._here().auth.end_own_token()
        except HandspanError as error:
            _log.warning("The operator's token of this node is still valid: %s. Revoke it: handspan tokens", error)

    async def drain(self, seconds: float) -> None:
        """Hand over turns and MCP servers, and send the clients to other nodes. A second call does nothing."""
        if not self.is_draining:
            await asyncio.gather(self._drain(seconds), self.servers.drain(seconds))

    async def _drain(self, seconds: float) -> None:
        self.is_draining = self._heartbeat.is_draining = True
        try:
            await self._heartbeat.describe()
        except StoreError as error:
            _log.warning("The other nodes do not know yet that this one stops: %s", error)
        began, is_probed = time.monotonic(), time.monotonic() - self._probed_at < _PROBED_SECONDS
        await self._draining.run(seconds)
        if is_probed:  # until a proxy has noticed that this node stops, it sends requests
            await asyncio.sleep(max(0.0, min(_NOTICE_SECONDS, seconds) - (time.monotonic() - began)))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work in a task of its own."""
        self._tasks.start(work)

    # Owners, sessions, calls and work.

    async def follow(self, owner: str) -> None:
        """Make the owner's clients and events on other nodes known to this node."""
        await self.clients.follow(owner)

    def follow_session(self, session: str) -> Callable[[], None]:
        """Get the events of this session's turns on other nodes, until the returned function is called."""
        return self.bus.follow_session(session)

    def hand_over_turn(self, session: str, owner: str) -> bool:
        """Hand a turn over to another node."""
        self.start(self._draining.hand_over_turn(session, owner))
        return True

    async def wait_for_turn(self, session: str) -> bool:
        """Wait a moment for the end of a turn that another node runs."""
        await self._turns.wait(session)
        return True

    async def abort_turn(self, session: str, owner: str) -> bool:
        """Stop the session's turn on another node. Return False when no other node runs one."""
        record = await self._store.conversations.find(session, owner=owner)
        is_running = record is not None and record.state == "running"
        if is_running:
            self.bus.publish(AbortRequested(owner, session))
        return is_running

    def may_have_cut_off(self, session: str) -> bool:
        """Return True: any node may have ended."""
        return True

    async def is_held_elsewhere(self, call_id: str) -> bool:
        """Whether another node that is alive works on this call. That node then gets the person's answer itself.

        A node that stops waits for no person: it has left the call.
        """
        holder = await self.book.holder_of(call_id)
        if not holder or holder == self.book.own:
            return False
        has_left = any(node.id == holder and node.is_draining for node in await self.book.nodes())
        return not has_left and await self._store.leases.is_alive(holder)

    async def pause(self, seconds: float) -> bool:
        """Wait so long for what another node may do."""
        await asyncio.sleep(seconds)
        return True

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event that another node may cause, at most so long."""
        await wait_for(seconds, event)

    def share_tries(self, kind: str, count: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that tells the other nodes of a try. `count` gets the tries on other nodes."""
        return self.work.share_tries(kind, count)

    def shared_requests(self, kind: str) -> SharedRequests:
        """Return the requests of this kind, of which each is answered by one node."""
        return self.work.shared_requests(kind)

    async def do_once(self, name: str, work: Callable[[], Awaitable[None]], on_wait: Callable[[], None]) -> bool:
        """Do this work once this node is the one that does it. Return False when another node does it by now."""
        return await self.work.do_once(name, work, on_wait)

    async def hold_work(self, name: str) -> bool:
        """Take the work of this name if no other node has it. Return whether this node has it."""
        return await self.work.hold(name)

    async def leave_work(self, name: str) -> None:
        """Leave the work of this name to another node."""
        await self.book.release(name)

    def free_work(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of these works that this node may take: no node held them at the last look, either."""
        return self.work.free(names)

    # Clients of this node: `ClientNodes`.

    def take(self, peer_id: str) -> Waiting:
        """Return what is here of a client that was connected to another node: its calls, questions and tools."""
        return self.mirrors.take(peer_id)

    def arrive(self, peer: Peer, frame: Connect) -> Relayed:
        """Tell the other nodes that this client is connected to this node now."""
        return self.client_rows.arrive(peer, frame)

    def offer(self, peer: Peer) -> None:
        """Tell the other nodes that the tools of this client have changed."""
        self.client_rows.offer(peer)

    def leave(self, peer: Peer) -> None:
        """Tell the other nodes that the connection of this client is gone."""
        self.client_rows.leave(peer, is_over="resume" not in peer.can, why="The client disconnected")

    def end(self, peer: Peer, why: str) -> None:
        """Tell the other nodes that this client will not come back, unless it is sent away because this node stops."""
        comes_back = "resume" in peer.can and not self._here().peers.is_open  # then it connects to another node
        self.client_rows.leave(peer, is_over=not comes_back, why=why)

    def acknowledge(self, client: str, call_id: str) -> None:
        """Tell a client of another node that the result of this call is stored. `client`: the client's id, if known."""
        mirror = self.mirrors.find(client)
        if mirror is not None:
            mirror.calls.acknowledge_stored(call_id)
        else:  # an MCP server may have moved to another node while the call waited for it
            self.servers.acknowledge(call_id)

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return all nodes that count as alive, by name."""
        return await self.book.nodes()

    async def metric_lines(self) -> list[str]:
        """Return the metrics of all nodes, each and summed. Return no lines while the database is away."""
        try:
            return node_lines(await self.book.nodes())
        except StoreError:
            return []

    def is_here(self, node: str) -> bool:
        """Whether this is the id of this node."""
        return node == self.book.own

    async def forward(self, node: str, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the process `node` answer a request. Raises `NoSuchNode` when that process is gone."""
        await self.forwarding.forward(node, scope, body, receive, send)

    def share_server(self, name: str) -> ServerShare:
        """Return this node's part in an MCP server that is a program: one node runs it for all."""
        return self.servers.share(name)

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Bring each MCP request to the node that has its session. `here` answers the requests for this node."""
        routes = SessionRoutes(self._session_key, self, here, longest)
        self.forwarding.serve(routes.answer)
        return RoutedSessions(routes.answer, routes.stamp)

    def dismiss(self, owner: str, label: str, reason: str) -> bool:
        """Send a device away that is connected to another node. Return False when no other node has this device."""
        return self.clients.dismiss(owner, label, reason)

    # Messages of other nodes.

    def _respond(self, kind: str, body: bytes) -> bytes | None:
        if not self._takes_part:
            return None
        try:
            return take_message(self, kind, body)
        except msgspec.DecodeError as error:  # a message of a newer version
            _log.warning("A message of another node is not understood (%s): %s", kind, error)
            return None

    def take_over_turn(self, offered: messages.TurnOffered) -> None:
        """Take over a turn that was handed over to this node."""
        self.start(self._taking_over.take_over_turn(offered.session, offered.owner))

    def _on_lost(self, old: str) -> None:
        """Go on under a new incarnation: the other nodes counted this one as lost, and take over its calls."""
        if self._is_open:  # else `connect` begins with the new incarnation
            self.bus.rename(self.book.own)
            self.start(self.link.listen(self.book.own))
        if not self._takes_part:  # this node has no clients and no calls yet
            return
        # Only these calls can outlive this node: the ledger has each of them, and other nodes take them over.
        clients = [peer.calls for peer in self._here().peers if "resume" in peer.can]
        clients += [mirror.calls for mirror in self.mirrors]
        self.start(end_taken_calls(clients, self.book))
        self.client_rows.add_all_again()
        self.servers.lose_all()
        self.mirrors.hint("")


def _options(settings: ClusterSettings) -> LinkOptions:
    urls = read_secret(settings.url, os.environ, "cluster.url")
    servers = tuple(one.strip() for one in urls.split(",") if one.strip())
    if not servers or not all(one.startswith(("nats://", "tls://", "ws://", "wss://")) for one in servers):
        raise ConfigError("cluster.url has to be addresses of NATS servers, as in nats://a:4222,nats://b:4222.")
    return LinkOptions(
        servers,
        read_secret(settings.user, os.environ, "cluster.user"),
        read_secret(settings.password, os.environ, "cluster.password"),
        settings.nkey,
        settings.credentials,
        settings.tls_ca,
        settings.tls_cert,
        settings.tls_key,
    )
