"""This gateway as one of several nodes: link, bus, the clients of the others, and what is taken over (SPEC K)."""

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.bus.link import LinkOptions, NatsLink
from handspan.bus.memory import STRICT_VARIABLE
from handspan.bus.nats import NatsBus
from handspan.bus.senders import Senders
from handspan.config.secrets import read_secret
from handspan.config.settings import ClusterSettings
from handspan.core.bus import DeviceChanged, ToolsChanged
from handspan.core.errors import ConfigError, HandspanError, StoreError
from handspan.core.nodes import SHARED, ClientRecord, NodeBook, NodeRecord, RequestClaim
from handspan.core.records import Recovery
from handspan.core.tasks import Tasks
from handspan.gateway.clients.peer import Peer
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.metrics import node_lines
from handspan.gateway.nodes.client_rows import ClientRows
from handspan.gateway.nodes.draining import Draining, runs_turns
from handspan.gateway.nodes.events import ClusterParts, NodeEvents
from handspan.gateway.nodes.forwarding import RequestForwarding
from handspan.gateway.nodes.heartbeat import TICK_SECONDS, Heartbeat
from handspan.gateway.nodes.incoming import take_message
from handspan.gateway.nodes.lost_nodes import LostNodes, end_taken_calls
from handspan.gateway.nodes.servers import SharedServers
from handspan.gateway.nodes.session_ids import SessionRoutes
from handspan.gateway.nodes.turns import TurnsElsewhere
from handspan.registry.registry import Registry
from handspan.sources.nodes import messages
from handspan.sources.nodes.messages import LargeFrames
from handspan.sources.nodes.mirror import Mirror
from handspan.sources.nodes.mirrors import Mirrors
from handspan.sources.nodes.probes import Probes
from handspan.sources.offers import OfferRules, SchemaCache
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws_frames import Connect, FailureFrame, ResultFrame

_ROLES: Final = {"all": ("chat", "device"), "edge": ("device",), "agent": ("chat",)}
_PROBED_SECONDS: Final = 15.0
"""A proxy looks at `/ready` at least so often, if it looks at all."""
_NOTICE_SECONDS: Final = 3.0
"""Seconds in which a proxy that looks at `/ready` notices that a node stops."""
_log = logging.getLogger(__name__)


class Cluster:
    """The other nodes, as this gateway sees them.

    Implements `OtherNodes`, `MirrorHost`, `RelayHost` and `MessageTargets`.
    """

    def __init__(self, settings: ClusterSettings, grace: float, most_calls: int) -> None:
        """`grace`: seconds that calls wait for a client; `most_calls`: open calls of other nodes for one client."""
        self._settings = settings
        self.grace = grace
        self._most_calls = most_calls
        self.bus = NatsBus(strict=bool(os.environ.get(STRICT_VARIABLE)))
        self.senders = Senders(lambda: self.book.senders())
        self.link = NatsLink(_options(settings), self._respond, self.senders)
        self.schemas = SchemaCache()
        self.book: NodeBook
        self.frames: LargeFrames
        self.registry: Registry
        self.rules: OfferRules
        self.mirrors = Mirrors(self)
        name = settings.name or socket.gethostname()
        self.servers = SharedServers(self, self.link, self.bus, name, settings.away)
        self._session_key = b""
        """The key with which all nodes sign the ids of MCP sessions."""
        self.forwarding = RequestForwarding(self.link)
        self.process = os.urandom(16).hex()
        """The name of this process in the ids of MCP sessions. It stays when the node gets a new incarnation."""
        self._parts: ClusterParts
        self.client_rows: ClientRows
        self._probes: Probes
        self._lost_nodes: LostNodes
        self._turns: TurnsElsewhere
        self._events: NodeEvents
        self._draining: Draining
        self._heartbeat: Heartbeat
        self._is_open = False
        self._takes_part = False
        """Whether `open` has set the parts, so that this node answers messages of other nodes."""
        self.is_draining = False
        self._probed_at = -math.inf
        """When a proxy last looked whether this node is ready."""
        self._unfollow: dict[str, Callable[[], None]] = {}
        self._tasks = Tasks()

    @property
    def runs_turns(self) -> bool:
        """Whether turns run on this node."""
        return runs_turns(self._settings.role)

    def note_probe(self) -> None:
        """Note that a proxy looks whether this node is ready."""
        self._probed_at = time.monotonic()

    @property
    def is_cut_off(self) -> bool:
        """Whether this node has no connection to the other nodes, while others have one."""
        return self._takes_part and self._parts.peers.is_cut_off

    # Open and close.

    def prepare(self, book: NodeBook, url: str) -> None:
        """Set the address at which this node answers, before the store is opened."""
        self.book = book
        book.prepare(url, lambda: not self._is_open or self.link.is_up, self._on_lost)

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

    def open(self, parts: ClusterParts) -> None:
        """Take part in the work of all nodes."""
        store = parts.app.store
        self._parts, self.registry, self.rules = parts, parts.app.registry, parts.rules
        self.frames = LargeFrames(parts.app.artifacts)
        self.client_rows = ClientRows(self.book, self.link, self.frames, lambda: parts.peers, self._most_calls)
        self.client_rows.moved = self.move
        self.client_rows.written = lambda owner: self.bus.publish_elsewhere(ToolsChanged(owner))
        self._lost_nodes = LostNodes(
            store, self.book, self._take_over, self._take_over_turn, lambda: self.mirrors.hint("")
        )
        self._lost_nodes.runs_turns = parts.sessions.runs_turns = self.runs_turns
        self._draining = Draining(self.book, self.link, parts)
        parts.sessions.hand_over = self._hand_over_turn
        self._probes = Probes(self.book, self.link, self.mirrors, self._lost_nodes.declare_lost)
        self._turns = TurnsElsewhere(parts.sessions, store.conversations)
        parts.peers.others = self
        parts.peers.roles = _ROLES[self._settings.role]
        parts.auth.arrived = self.follow
        parts.pairing.shared = self.book.codes
        parts.sessions.watch = self.bus.follow_session
        parts.sessions.stored_turns.wait_elsewhere = self._turns.wait
        parts.questions.poll_seconds = TICK_SECONDS * 4
        parts.resumable.is_held_elsewhere = self._is_held_elsewhere
        self.mirrors.unfollowed = self._on_unfollowed
        self.mirrors.is_needed = self._is_needed
        self._heartbeat = Heartbeat(self.book, self.link, self.senders, self.bus, parts, self._probes, self._settings)
        self._events = NodeEvents(self.bus, parts, self.mirrors, self._turns, self._heartbeat.revoked)
        self._events.open(self.start)
        for part in (self.client_rows, self.mirrors, self._probes, self._lost_nodes, self._turns):
            part.open()
        self.forwarding.open(self.process, self.frames)
        self.servers.open(parts.app, parts.unfinished)
        self.start(self._follow_shared())
        self._heartbeat.open()
        self._takes_part = True

    async def close(self) -> None:
        """Stop all work with other nodes, and close the link."""
        if not self._is_open:
            return
        if self._takes_part:
            await self._end_own_token()
            await self._heartbeat.close()
            await self.forwarding.close()
            await self.servers.close()
            await self._probes.close()
            await self._lost_nodes.close()
            await self._turns.close()
            await self.mirrors.close()
            await self.client_rows.close()
        await self._tasks.close()
        await self.link.close()
        self._is_open = self._takes_part = False

    async def _end_own_token(self) -> None:
        try:
            await self._parts.auth.end_own_token()
        except HandspanError as error:
            _log.warning("The operator's token of this node is still valid: %s. Revoke it: handspan tokens", error)

    async def drain(self, seconds: float) -> None:
        """Hand over the turns, and send the clients to other nodes. Clients that a call waits for go last."""
        self.is_draining = self._heartbeat.is_draining = self._parts.peers.is_draining = True
        try:
            await self._heartbeat.describe()
        except StoreError as error:
            _log.warning("The other nodes do not know yet that this one stops: %s", error)
        began, is_probed = time.monotonic(), time.monotonic() - self._probed_at < _PROBED_SECONDS
        await self._draining.run(seconds)
        if is_probed:  # until a proxy has noticed that this node stops, it sends requests
            await asyncio.sleep(max(0.0, min(_NOTICE_SECONDS, seconds) - (time.monotonic() - began)))

    def _hand_over_turn(self, session: str, owner: str) -> None:
        self.start(self._draining.hand_over_turn(session, owner))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work in a task of its own."""
        self._tasks.start(work)

    # Owners.

    async def follow(self, owner: str) -> None:
        """Make the owner's clients and events on other nodes known to this node."""
        if owner not in self._unfollow:
            self._unfollow[owner] = self.bus.follow_owner(owner)
        await self.mirrors.follow(owner)

    def _on_unfollowed(self, owner: str) -> None:
        unfollow = self._unfollow.pop(owner, None)
        if unfollow is not None:
            unfollow()

    async def _follow_shared(self) -> None:
        await self.mirrors.follow(SHARED)

    def _is_needed(self, owner: str) -> bool:
        """Whether the owner has a session, an open page or a client on this node."""
        if owner == SHARED:
            return True
        parts = self._parts
        has_page = parts.live.count(owner) > 0
        return has_page or parts.sessions.is_used_by(owner) or any(peer.who.owner == owner for peer in parts.peers)

    # Clients of this node: `OtherNodes`.

    def take(self, peer_id: str) -> Waiting:
        """Return what is here of a client that was connected to another node: its calls, questions and tools."""
        return self.mirrors.take(peer_id)

    def arrive(self, peer: Peer, frame: Connect) -> None:
        """Tell the other nodes that this client is connected to this node now."""
        self.client_rows.arrive(peer, frame)

    def offer(self, peer: Peer) -> None:
        """Tell the other nodes that the tools of this client have changed."""
        self.client_rows.offer(peer)

    def leave(self, peer: Peer) -> None:
        """Tell the other nodes that the connection of this client is gone."""
        self.client_rows.leave(peer, is_over="resume" not in peer.can, why="The client disconnected")

    def end(self, peer: Peer, why: str) -> None:
        """Tell the other nodes that this client will not come back, unless it is sent away because this node stops."""
        comes_back = "resume" in peer.can and not self._parts.peers.is_open  # then it connects to another node
        self.client_rows.leave(peer, is_over=not comes_back, why=why)

    # Clients of other nodes: `MirrorHost`.

    def take_waiting(self, record: ClientRecord) -> Waiting | None:
        """Return what is left here of a client that was connected to this node before.

        Return None when the client's connection to this node is newer than this record.
        """
        peer = self._parts.peers.find(record.peer)
        if peer is None:
            return Waiting()
        if peer.relay is not None and not self.client_rows.is_older(record):
            return None
        self._parts.peers.replace(peer)
        return _waiting_of(peer)

    def appear(self, mirror: Mirror) -> None:
        """Make a client of another node known to this node."""
        if mirror.is_server:
            self.servers.appear(mirror)
            return
        self._parts.unfinished.take_over(mirror.id, mirror.calls)
        if mirror.calls.open and mirror.tools is not None:
            mirror.tools.resume_calls()
        record = mirror.record
        if record.role == "device" and mirror.tools is not None:
            self._parts.devices.appear(record.owner, record.label, record.name, mirror.tools.fingerprints())
        self._publish_here(record.owner)

    def disappear(self, mirror: Mirror) -> None:
        """Note on this node that a client of another node is gone."""
        if mirror.is_server:
            self.servers.disappear(mirror)
            return
        if mirror.record.role == "device":
            self._parts.devices.disappear(mirror.record.owner, mirror.record.label)
        self._publish_here(mirror.record.owner)

    def late(self, mirror: Mirror, frame: ResultFrame | FailureFrame) -> None:
        """Take an answer that no call waits for."""
        if mirror.is_server:
            self.start(self.servers.acknowledge_late(mirror, frame.call))
        else:
            self._parts.late(mirror, frame)

    def acknowledge(self, client: str, call_id: str) -> None:
        """Tell a client of another node that the result of this call is stored. `client`: the client's id, if known."""
        mirror = self.mirrors.find(client)
        if mirror is not None:
            mirror.calls.acknowledge_stored(call_id)
        else:  # an MCP server may have moved to another node while the call waited for it
            self.servers.acknowledge(call_id)

    def _publish_here(self, owner: str) -> None:
        """Tell the listeners of this node that the owner's tools and devices have changed."""
        self.bus.publish_here(ToolsChanged(owner))
        self.bus.publish_here(DeviceChanged(owner))

    def share_tries(self, kind: str, limit: TryLimit) -> None:
        """Let this limit count the tries of all nodes together."""
        self._events.share_tries(kind, limit)

    def shared_requests(self, kind: str) -> "KindOfRequests":
        """Return the requests of this kind, of which each is answered by one node."""
        return KindOfRequests(self.book, kind)

    async def hold_work(self, name: str) -> bool:
        """Take the work of this name if no other node has it. Return whether this node has it.

        The work is free again when the node is lost.
        """
        return await self.book.hold(name) == self.book.own

    async def leave_work(self, name: str) -> None:
        """Leave the work of this name to another node."""
        await self.book.release(name)

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

    def route_sessions(self, here: ASGIApp, longest: int) -> SessionRoutes:
        """Bring each MCP request to the node that has its session. `here` answers the requests for this node."""
        routes = SessionRoutes(self._session_key, self, here, longest)
        self.forwarding.answer = routes.answer
        return routes

    def dismiss(self, owner: str, label: str, reason: str) -> bool:
        """Send a device away that is connected to another node. Return False when no other node has this device."""
        for mirror in self.mirrors:
            is_meant = mirror.record.owner == owner and mirror.label == label and mirror.record.role == "device"
            if is_meant and mirror.is_up:
                dismissed = messages.ClientDismissed(owner, mirror.id, reason)
                self.link.send(mirror.record.node, messages.DISMISS, messages.encode(dismissed))
                return True
        return False

    # Messages of other nodes.

    def _respond(self, kind: str, body: bytes) -> bytes | None:
        if not self._takes_part:
            return None
        try:
            return take_message(self, kind, body)
        except msgspec.DecodeError as error:  # a message of a newer version
            _log.warning("A message of another node is not understood (%s): %s", kind, error)
            return None

    def move(self, moved: messages.ClientMoved) -> None:
        """Let a client go that has a newer connection to another node. Its calls wait for their answers from there."""
        peer = self.client_rows.move(moved)
        is_asked = peer is not None and peer.questions is not None and peer.questions.is_open
        if peer is not None and (peer.is_moving or peer.calls.open or is_asked):
            self.mirrors.take_over(_record_of(peer), _waiting_of(peer))

    def dismiss_here(self, dismissed: messages.ClientDismissed) -> None:
        """Send a device away that was forgotten on another node, and revoke its token."""
        peer = self._parts.peers.find(dismissed.peer)
        if peer is not None and peer.who.owner == dismissed.owner:
            if "admin" not in peer.who.scopes:  # without the token of an admin, the operator would lose access
                self.start(self._revoke(peer.token, peer.who.owner))
            self._parts.peers.dismiss(peer, dismissed.reason)

    async def _revoke(self, token: str, owner: str) -> None:
        try:
            await self._parts.auth.revoke(token, owner)
        except HandspanError as error:
            _log.error("The token of a forgotten device could not be revoked: %s", error)

    # Work that is taken over.

    async def _take_over(self, recovery: Recovery) -> None:
        """Go on with the calls and turns that a lost node left open, as after a restart."""
        parts = self._parts
        taken = await parts.unfinished.open(self.grace)
        parts.sessions.cut_off.update(recovery.closed)
        for owner in {record.owner for record in taken}:
            await self.follow(owner)
        for peer_id in {record.tool.origin.connection for record in taken if record.tool.origin is not None}:
            client = parts.peers.find(peer_id) or self.mirrors.find(peer_id)
            if client is not None and client.tools is not None:
                parts.unfinished.take_over(peer_id, client.calls)
                if isinstance(client, Peer):
                    self.client_rows.release_calls(client, taken)
                client.tools.resume_calls()
        self.servers.wake()
        await parts.resumable.recover(recovery)

    def take_over_turn(self, offered: messages.TurnOffered) -> None:
        """Take over a turn that was handed over to this node."""
        self.start(self._take_over_turn(offered.session, offered.owner))

    async def _take_over_turn(self, session: str, owner: str) -> None:
        """Go on with a turn that another node has handed over."""
        if self.runs_turns and not self.is_draining:
            await self.follow(owner)
            self._parts.sessions.take_over_turn(session, owner)

    async def _is_held_elsewhere(self, call_id: str) -> bool:
        """Whether another node that is alive works on this call. That node then gets the person's answer itself.

        A node that stops waits for no person: it has left the call.
        """
        holder = await self.book.holder_of(call_id)
        if not holder or holder == self.book.own:
            return False
        has_left = any(node.id == holder and node.is_draining for node in await self.book.nodes())
        return not has_left and await self._parts.app.store.leases.is_alive(holder)

    def _on_lost(self, old: str) -> None:
        """Go on under a new incarnation: the other nodes counted this one as lost, and take over its calls."""
        if self._is_open:  # else `connect` begins with the new incarnation
            self.bus.rename(self.book.own)
            self.start(self.link.listen(self.book.own))
        if not self._takes_part:  # this node has no clients and no calls yet
            return
        # Only these calls can outlive this node: the ledger has each of them, and other nodes take them over.
        clients = [peer.calls for peer in self._parts.peers if "resume" in peer.can]
        clients += [mirror.calls for mirror in self.mirrors]
        self.start(end_taken_calls(clients, self.book))
        self.client_rows.add_all_again()
        self.servers.lose_all()
        self.mirrors.hint("")


class KindOfRequests:
    """The requests of one kind to which their client gave a key. Implements `SharedRequests`."""

    def __init__(self, book: NodeBook, kind: str) -> None:
        self._book = book
        self._kind = kind

    async def claim(self, owner: str, key: str, asked: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request, unless a node answers it already, or has in the last `seconds`."""
        return await self._book.claim_request(self._kind, owner, key, asked, seconds)

    async def answer(self, owner: str, key: str, answer: bytes | None) -> None:
        """Store the answer of a claimed request. None: the request has no answer, and may be claimed again."""
        await self._book.answer_request(self._kind, owner, key, answer)


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


def _waiting_of(peer: Peer) -> Waiting:
    """Return what is left here of a client that has connected to another node."""
    return Waiting(peer.calls, peer.questions, peer.tools if peer.is_moving else None)


def _record_of(peer: Peer) -> ClientRecord:
    """Return the record of a client that was connected to this node, without its new node and its tools."""
    return ClientRecord(
        peer=peer.id,
        owner=peer.who.owner,
        node="",
        epoch=0,
        role=peer.role,
        label=peer.label,
        session=peer.session,
        prefix=True,
        capabilities=tuple(peer.can),
    )
