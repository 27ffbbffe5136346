"""This gateway as one of several nodes: link, bus, the clients of the others, and what is taken over (SPEC K)."""

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from starlette.types import ASGIApp

from handspan.bus.link import LinkOptions, NatsLink, Respond
from handspan.bus.memory import STRICT_VARIABLE
from handspan.bus.nats import NatsBus
from handspan.bus.senders import Senders
from handspan.config.secrets import read_secret
from handspan.config.settings import Settings
from handspan.config.store_settings import ClusterSettings
from handspan.core.bus import AbortRequested
from handspan.core.errors import ConfigError, HandspanError, StoreError
from handspan.core.nodes import SHARED, NodeRecord
from handspan.core.store import Store
from handspan.core.tasks import Tasks, wait_for
from handspan.gateway.nodes.clients_elsewhere import ClientsElsewhere
from handspan.gateway.nodes.draining import Draining, runs_turns
from handspan.gateway.nodes.events import listen_to_nodes
from handspan.gateway.nodes.forwarding import RequestForwarding
from handspan.gateway.nodes.heartbeat import TICK_SECONDS, Heartbeat
from handspan.gateway.nodes.lost_nodes import LostNodes, end_taken_calls
from handspan.gateway.nodes.session_ids import SessionRoutes
from handspan.gateway.nodes.shared_work import SharedWork
from handspan.gateway.nodes.turns import TurnsElsewhere
from handspan.gateway.one_node import RoutedSessions
from handspan.gateway.parts import Here
from handspan.sources.mcp.sharing import ServerShare
from handspan.sources.nodes import messages
from handspan.sources.nodes.hosted import HostedServer
from handspan.sources.nodes.messages import LargeFrames, Read, read_by
from handspan.sources.nodes.probes import Probes
from handspan.sources.nodes.relay import Relay
from handspan.sources.ws.tools import Waiting

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

    Implements `GatewayNodes`. What it does for other nodes needs the parts of this gateway, which are made after it: it
    looks them up when a message or an event comes.
    """

    poll_seconds = TICK_SECONDS * 4
    may_have_cut_off = True

    def __init__(self, settings: Settings, store: Store, here: Here, make_link: MakeLink = NatsLink) -> None:
        """`here` returns the parts of this gateway. Raises `ConfigError` for settings that can't be used."""
        own = settings.cluster
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
        self._looks = Tasks()
        """The regular work for other nodes."""
        self._tasks = Tasks()
        bus = self.bus = NatsBus(strict=bool(os.environ.get(STRICT_VARIABLE)))
        self.senders = Senders(book.senders)
        link = self.link = make_link(_options(own), self._respond, self.senders)
        frames = LargeFrames(store.artifacts)
        self.codes = book.codes
        self.work = SharedWork(book, bus)
        clients = self.clients = ClientsElsewhere(
            link, book, frames, bus, here=here, name=self.name, settings=settings, start=self.start
        )
        self.client_rows, self.servers = clients.rows, clients.servers
        mirrors = self.mirrors = clients.mirrors
        self.forwarding = RequestForwarding(link, self.process, frames)
        self._lost_nodes = LostNodes(store, book, clients, here)
        self._probes = Probes(book, link, mirrors, self._lost_nodes.declare_lost)
        self._turns = TurnsElsewhere(here, store.conversations)
        self._draining = Draining(book, link, here)
        self._heartbeat = Heartbeat(book, link, self.senders, bus, here=here, probes=self._probes, settings=own)
        self._read: dict[str, Read] = {
            messages.TO_CLIENT: read_by(messages.ToClient, self._deliver),
            messages.FROM_CLIENT: read_by(messages.FromClient, mirrors.receive),
            messages.GONE: read_by(messages.ClientLost, mirrors.lose),
            messages.MOVED: read_by(messages.ClientMoved, clients.move),
            messages.DISMISS: read_by(messages.ClientDismissed, clients.dismiss_here),
            messages.TURN: read_by(messages.TurnOffered, self._take_over_turn),
            messages.PROBE: read_by(messages.Probe, self._answer_probe),
            messages.ASK: read_by(messages.CallQuestion, self.servers.receive_question),
            messages.ANSWER: read_by(messages.CallAnswer, self.servers.receive_answer),
            messages.TRUST: read_by(messages.TrustServer, self.servers.trust),
            **self.forwarding.readers(),
        }
        """What does what messages of other nodes say, by their kinds."""

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
        listen_to_nodes(self.bus, self._here, self.mirrors, self._turns, start=self.start)
        self.forwarding.open()
        self.start(self.mirrors.follow(SHARED))
        for look in (
            self.client_rows.write,
            self.client_rows.repeat,
            self.mirrors.look,
            self._probes.run,
            self._lost_nodes.look,
            self._turns.look,
            self.servers.run,
            self._heartbeat.run,
        ):
            self._looks.start(look())
        self._takes_part = True

    async def secret(self, name: str) -> bytes:
        """Return a secret that all nodes share. The first call makes it."""
        return await self.book.secret(name)

    async def close(self) -> None:
        """Stop all work with other nodes, and close the link."""
        if not self._is_open:
            return
        if self._takes_part:
            await self._end_own_token()
            await self._looks.close()
            await self.forwarding.close()
            self.servers.close()
            self.mirrors.close()
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
        """Tell the other nodes that this one stops, hand over, and wait until a proxy has noticed."""
        self.is_draining = True
        try:
            await self._heartbeat.describe()
        except StoreError as error:
            _log.warning("The other nodes do not know yet that this one stops: %s", error)
        began, is_probed = time.monotonic(), time.monotonic() - self._probed_at < _PROBED_SECONDS
        await self._draining.run(seconds)
        if is_probed:  # until a proxy has noticed that this node stops, it sends requests
            await asyncio.sleep(max(0.0, min(_NOTICE_SECONDS, seconds) - (time.monotonic() - began)))

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this work in a task of its own."""
        self._tasks.start(work)

    # Owners, sessions, calls and work.

    async def follow(self, owner: str) -> None:
        """Make the owner's clients and events on other nodes known to this node."""
        await self.clients.follow(owner)

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

    async def is_held_elsewhere(self, call_id: str) -> bool:
        """Whether another node that is alive works on this call. That node then gets the person's answer itself.

        A node that stops waits for no person: it has left the call.
        """
        holder = await self.book.holder_of(call_id)
        if not holder or holder == self.book.own:
            return False
        has_left = any(node.id == holder and node.is_draining for node in await self.book.nodes())
        return not has_left and await self._store.leases.is_alive(holder)

    async def pause(self, seconds: float, until: asyncio.Event | None = None) -> bool:
        """Wait for what another node may do: so long, or until the event."""
        await wait_for(seconds, until or asyncio.Event())
        return True

    def take(self, peer_id: str) -> Waiting:
        """Return what is here of a client that was connected to another node: its calls, questions and tools."""
        return self.mirrors.take(peer_id)

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

    @property
    def own(self) -> str:
        """The id of this node."""
        return self.book.own

    def share_server(self, name: str) -> ServerShare:
        """Return this node's part in an MCP server that is a program: one node runs it for all."""
        return self.servers.share(name)

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Bring each MCP request to the node that has its session. `here` answers the requests for this node."""
        routes = SessionRoutes(self._session_key, self.forwarding, here, longest)
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
            return self._read[kind](body) if kind in self._read else None
        except msgspec.DecodeError as error:  # a message of a newer version
            _log.warning("A message of another node is not understood (%s): %s", kind, error)
            return None

    def _deliver(self, message: messages.ToClient) -> None:
        """Give a frame of another node to the client or the MCP server that it is for."""
        receiver = self._receiver(message.peer, message.epoch)
        if receiver is None or receiver.owner != message.owner:
            is_moving = self.client_rows.is_moving(message.peer, message.epoch)
            gone = messages.ClientLost(message.owner, message.peer, message.epoch, is_moving=is_moving)
            self.link.send(message.sender, messages.GONE, messages.encode(gone))
        elif message.stored:
            self.start(self._deliver_stored(receiver, message))
        else:
            receiver.deliver(message, message.frame)

    async def _deliver_stored(self, receiver: Relay | HostedServer, message: messages.ToClient) -> None:
        frame = await self.clients.frames.take(message.stored, message.owner)
        if frame is not None:
            receiver.deliver(message, frame)

    def _receiver(self, peer: str, epoch: int) -> Relay | HostedServer | None:
        """Return what takes frames for this connection of a client, or for this lease of an MCP server."""
        return self.client_rows.relay_of(peer, epoch) or self.servers.find_hosted(peer, epoch)

    def _take_over_turn(self, offered: messages.TurnOffered) -> None:
        self.start(self._lost_nodes.take_over_turn(offered.session, offered.owner))

    def _answer_probe(self, probe: messages.Probe) -> bytes:
        """Return which of these calls this node does not know. Send known answers and open questions once more."""
        unknown: list[messages.ProbedClient] = []
        gone: list[str] = []
        moving: list[str] = []
        for one in probe.clients:
            receiver = self._receiver(one.peer, one.epoch)
            if receiver is None:
                (moving if self.client_rows.is_moving(one.peer, one.epoch) else gone).append(one.peer)
            elif missing := tuple(call for call in one.calls if not receiver.knows(call, probe.sender)):
                unknown.append(messages.ProbedClient(one.peer, one.epoch, missing))
        return messages.encode(messages.Probed(tuple(unknown), tuple(gone), tuple(moving)))

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
    """Return how this node connects to NATS. Raises `ConfigError`."""
    urls = read_secret(settings.url, os.environ, "cluster.url")
    servers = tuple(one.strip() for one in urls.split(",") if one.strip())
    if not servers or not all(one.startswith(("nats://", "tls://", "ws://", "wss://")) for one in servers):
        raise ConfigError("cluster.url has to be addresses of NATS servers, as in nats://a:4222,nats://b:4222.")
    return LinkOptions(
        servers,
        read_secret(settings.user, os.environ, "cluster.user"),
        read_secret(settings.password, os.environ, "cluster.password"),
        nkey=settings.nkey,
        credentials=settings.credentials,
        tls_ca=settings.tls_ca,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
    )
