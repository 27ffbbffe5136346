"""Clients across their connections: each keeps its calls and questions while it may come back (ws.md 6, 7)."""

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from handspan.core.bus import DeviceChanged, ToolsChanged
from handspan.core.nodes import Nodes
from handspan.core.principals import Origin, Principal
from handspan.core.values import Json
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.peer import NO_RELAY, NORMAL_CLOSES, FormerKey, Peer, PeerSocket, Relayed
from handspan.gateway.clients.resume_tokens import ResumeTokens
from handspan.gateway.clients.unfinished_calls import UnfinishedCalls
from handspan.registry.name_rights import DisplacedTool
from handspan.registry.registry import Registry
from handspan.sources.offers import OfferRules, SchemaCache, SessionOffers
from handspan.sources.ws.calls import RemoteCalls
from handspan.sources.ws.questions import RemoteQuestions
from handspan.sources.ws.tools import RemoteTools, Waiting, place_of_tools
from handspan.wire.ws import shared_capabilities
from handspan.wire.ws_frames import Connect, DeviceNotes, ToolsWithdrawn

GONE: Final = "The client disconnected"
_log = logging.getLogger(__name__)
_DROPPED: Final = 1006
_COME_BACK: Final = 1012
_OFFER_SECONDS: Final = 5.0
"""The time in which a client that comes from another node offers its tools again."""
_REPLACED: Final = 4001
"""The close code for the older of two connections of a client: it must not be opened again (ws.md 9.2)."""


class ClientRegister(Protocol):
    """Tells the other nodes of the clients of this one."""

    def arrive(self, peer: Peer, frame: Connect) -> Relayed:
        """Tell the others that this client is connected here now. Return the connection as they use it."""

    def offer(self, peer: Peer) -> None:
        """Tell the others that the tools of this client have changed."""

    def leave(self, peer: Peer) -> None:
        """Tell the others that the connection of this client is gone."""

    def end(self, peer: Peer, why: str) -> None:
        """Tell the others that this client will not come back."""


class ClientNodes(Nodes, Protocol):
    """All nodes, each of which knows the clients of all."""

    @property
    def client_rows(self) -> ClientRegister: ...

    def take(self, peer_id: str) -> Waiting:
        """Return what is here of a client that was connected to another node: its calls, questions and tools."""


class PeerArrival(Struct, frozen=True):
    """A peer that has just connected; `resumed`: it came back."""

    peer: Peer
    resumed: bool


class Peers:
    """All clients that are connected, or may come back."""

    def __init__(
        self,
        registry: Registry,
        rules: OfferRules,
        tokens: ResumeTokens,
        devices: Devices,
        unfinished: UnfinishedCalls,
        grace: float,
        nodes: ClientNodes,
    ) -> None:
        self._registry = registry
        self._rules = rules
        self._tokens = tokens
        self._devices = devices
        self._unfinished = unfinished
        self._nodes = nodes
        self._bus = nodes.bus
        self._schemas = SchemaCache()
        self._offers = SessionOffers()
        self._peers: dict[str, Peer] = {}
        self._left: dict[FormerKey, list[Peer]] = {}
        """Devices whose link is closed, and which may come back."""
        self.grace = grace
        self.is_open = True
        registry.listen(self)

    def __iter__(self) -> Iterator[Peer]:
        return iter(tuple(self._peers.values()))

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def takes_new(self) -> bool:
        """Whether new connections are accepted."""
        return self.is_open and not self._nodes.is_draining and not self._nodes.is_cut_off

    def find(self, peer_id: str) -> Peer | None:
        """Return the peer of this id."""
        return self._peers.get(peer_id)

    def has_chat(self, owner: str, session: str) -> bool:
        """Whether a connected client of the owner shows the questions of this session."""
        shown = (peer for peer in self if peer.session == session and peer.socket is not None)
        return any(peer.role == "chat" and "questions" in peer.can and peer.who.owner == owner for peer in shown)

    def resume_token(self, peer: Peer) -> str:
        """Return the token with which this peer may come back."""
        return self._tokens.issue(peer.id, peer.who.owner, peer.role, peer.token)

    def meet(self, frame: Connect, who: Principal, token: str, session: str) -> PeerArrival:
        """Return the peer of a new connection: one that comes back, or a new one. The caller calls its `up`."""
        can = shared_capabilities(frame.capabilities)
        resumes = bool(frame.resume) and "resume" in can
        peer_id = self._tokens.read(frame.resume or "", who.owner, frame.role, token) if resumes else None
        known = None if peer_id is None else self._peers.get(peer_id)
        if known is not None:
            self._come_back(known)
            known.calls.capabilities = can
            known.relay = self._nodes.client_rows.arrive(known, frame)
            return PeerArrival(known, resumed=True)
        key = FormerKey(who.owner, token, frame.label or "", frame.device_name or "")
        if peer_id is None:
            self._end_former(key)
        peer = self._new(peer_id or secrets.token_hex(16), frame, can, who, key=key, session=session)
        if peer_id is not None:
            self._unfinished.take_over(peer_id, peer.calls)
        peer.relay = self._nodes.client_rows.arrive(peer, frame)
        return PeerArrival(peer, peer_id is not None)

    def conflicting_clients(self, peer: Peer, offered: Sequence[Json]) -> list[PeerSocket]:
        """Return the connections of other clients whose tools have these names, and would conflict with the peer's."""
        found = (self._peers.get(other) for other in peer.tools.conflicting_clients(offered))
        return [other.socket for other in found if other is not None and other.socket is not None]

    def lose(self, peer: Peer, socket: PeerSocket, code: int = _DROPPED) -> None:
        """Note that the peer's connection is gone, with this close code. End a peer that left or can't come back."""
        if peer.socket is not socket:  # a newer connection took over, or the peer was dismissed
            return
        has_left = code in NORMAL_CLOSES and not peer.is_awaited
        comes_back = "resume" in peer.can and self.is_open and not has_left
        peer.is_moving = peer.is_moving and comes_back
        self._take_down(peer)
        if comes_back:
            why = f"{GONE} and did not come back"
            peer.grace = asyncio.get_running_loop().call_later(self.grace, self.end, peer, why)
            if peer.role == "device":
                self._left.setdefault(peer.former, []).append(peer)
        else:
            self.end(peer, GONE)

    def end(self, peer: Peer, why: str) -> None:
        """Remove a peer that will not come back. Its open calls are lost."""
        self._stop_grace(peer)
        if self._peers.get(peer.id) is peer:  # a successor may have the same id
            del self._peers[peer.id]
            if peer.role == "device":
                self._devices.end(peer.who.owner, peer.label)
            peer.is_moving = False
            peer.end(why)
            self._end_elsewhere(peer, why)

    def move(self, peer: Peer) -> None:
        """Send a client to another node, which takes it. Its tools stay until it is there, or has not come in time."""
        if peer.socket is not None:
            peer.is_moving = "resume" in peer.can and len(peer.tools) > 0
            peer.socket.close(_COME_BACK, "this node stops: connect again")

    def replace(self, peer: Peer) -> None:
        """Let go of a peer that has a newer connection on another node: its calls go on there.

        The tools of a peer that was sent there stay in the registry, for the caller.
        """
        socket = peer.socket
        if socket is not None:
            self._take_down(peer)
        self._stop_grace(peer)
        if self._peers.get(peer.id) is peer:
            del self._peers[peer.id]
            if peer.role == "device":
                self._devices.end(peer.who.owner, peer.label)
        if peer.chat is not None:
            peer.chat.end()
            peer.chat = None
        if socket is not None:
            close_replaced(peer, socket)

    def revoke(self, token: str) -> None:
        """Dismiss the peers that use this token."""
        for peer in self:
            if peer.token == token:
                self.dismiss(peer, "the token was revoked")

    def dismiss(self, peer: Peer, reason: str = "it was forgotten here") -> None:
        """End the peer and close its connection. It can't come back."""
        _log.info("the client %s was sent away: %s", peer.label or peer.session, reason)
        socket, why = peer.socket, f"The client was sent away ({reason})"
        self._end_elsewhere(peer, why)  # first: after `_take_down`, the other nodes would wait for the client
        if socket is not None:
            self._take_down(peer)
        self.end(peer, why)
        if socket is not None:  # last: the close must find nothing of the peer any more
            socket.close(1008, reason)

    def stop(self) -> None:
        """Take no new peer: the gateway is being stopped."""
        self.is_open = False
        for peer in self:
            peer.calls.is_stopping = True

    def close(self) -> None:
        """End all peers: the gateway stops."""
        self.is_open = False
        for peer in self:
            self.end(peer, "The gateway was stopped")

    def start_login(self, owner: str, call_id: str, question: str) -> None:
        """Let the client whose call waits for a login start it."""
        for peer in self:
            if peer.who.owner == owner and peer.calls.start_login(call_id, question):
                return

    # Names that belong to the gateway's own sources (ws.md 4.8, 7.2).

    def on_reserved(self) -> None:
        """Let the devices whose labels are reserved now come back under other ones."""
        self._devices.forget_taken()
        for peer in self:
            if peer.role == "device" and self._devices.is_reserved(peer.label):
                self._leave_label(peer)

    def on_displaced(self, origin: Origin, tools: Sequence[DisplacedTool]) -> None:
        """Tell a client which of its tools have lost their names."""
        peer = self._peers.get(origin.connection)
        lost = [] if peer is None or peer.tools.origin != origin else peer.tools.drop(tools)
        if peer is not None and lost:
            if "unregister" in peer.can:
                peer.send(ToolsWithdrawn(lost, len(peer.tools)))
            self.publish_tools(peer)

    def _leave_label(self, peer: Peer) -> None:
        """Close the connection of a device whose label is reserved, and give it another one if it may come back."""
        socket, before = peer.socket, peer.label
        if socket is not None:
            self.lose(peer, socket)
        if peer.id in self._peers:
            peer.label = self._devices.leave_label(peer.who.owner, before)
            peer.tools.rename(peer.label)
        _log.warning("device %s has lost its label: an MCP server has that name now", before)
        self._bus.publish(DeviceChanged(peer.who.owner))
        if socket is not None:
            socket.close(_COME_BACK, "an MCP server has this label: connect again")

    def notice(self, peer: Peer) -> str:
        """Return why a device does not have the label that it asked for; empty if it has."""
        return self._devices.notice(peer.who.owner, peer.label) if peer.role == "device" else ""

    def describe(self, peer: Peer, notes: DeviceNotes) -> None:
        """Show people what the device says of itself."""
        self._devices.describe(peer.who.owner, peer.label, notes)
        self._bus.publish(DeviceChanged(peer.who.owner))

    def publish_tools(self, peer: Peer) -> None:
        """Publish that the peer's tools have changed."""
        self._nodes.client_rows.offer(peer)
        self._bus.publish(ToolsChanged(peer.who.owner))
        if peer.role == "device":
            tools = peer.tools
            self._devices.record_offer(peer.who.owner, peer.label, tools.fingerprints(), tools.rejected)

    def _take_down(self, peer: Peer) -> None:
        """Drop the peer's link now, before the socket is closed."""
        peer.down()
        self._nodes.client_rows.leave(peer)
        peer.relay = NO_RELAY
        self._bus.publish(ToolsChanged(peer.who.owner))
        if peer.role == "device":
            self._devices.disconnect(peer.who.owner, peer.label)
            self._bus.publish(DeviceChanged(peer.who.owner))

    def _end_elsewhere(self, peer: Peer, why: str) -> None:
        """Tell the other nodes that this client will not come back."""
        self._nodes.client_rows.end(peer, why)
        peer.relay = NO_RELAY

    def _stop_grace(self, peer: Peer) -> None:
        """Wait no more for this peer to come back."""
        if peer.grace is None:
            return
        peer.grace.cancel()
        peer.grace = None
        left = self._left.get(peer.former, [])
        if peer in left:
            left.remove(peer)
        if not left:
            self._left.pop(peer.former, None)

    def _end_former(self, key: FormerKey) -> None:
        """End the device in whose place this one was started, so that its label is free (ws.md 7.2)."""
        left = self._left.get(key)
        if left:
            self.end(min(left, key=lambda peer: (len(peer.label), peer.label)), f"{GONE}, and was started again")

    def _come_back(self, peer: Peer) -> None:
        """Let a known peer use a new connection. An older one that is still open is closed."""
        self._stop_grace(peer)
        if peer.socket is not None:  # ws.md 6.2: the newer connection counts
            older = peer.socket
            peer.down()
            close_replaced(peer, older)
        if peer.role == "device":
            self._devices.reconnect(peer.who.owner, peer.label, peer.token)
            self._bus.publish(DeviceChanged(peer.who.owner))

    def _new(
        self, peer_id: str, frame: Connect, can: frozenset[str], who: Principal, key: FormerKey, session: str
    ) -> Peer:
        """Make a peer for a client that is new here. Calls that other nodes know of it go on."""
        is_device = frame.role == "device"
        before = self._nodes.take(peer_id)  # first: this frees its label
        label = ""
        if is_device:
            label = self._devices.connect(who.owner, key.label, key.name, key.token)
        calls = before.calls or RemoteCalls(can)
        calls.capabilities = can
        questions = before.questions or (RemoteQuestions() if "permissions" in can else None)
        tools = RemoteTools(
            self._registry,
            self._schemas,
            self._rules,
            calls,
            *place_of_tools(frame.role, label, session, peer=peer_id, owner=who.owner, prefix=bool(frame.prefix)),
            questions=questions,
            earlier=None if is_device else self._offers,
        )
        peer = self._peers[peer_id] = Peer(
            peer_id, who, key, frame.role, label=label, session=session, calls=calls, questions=questions, tools=tools
        )
        if before.tools is not None:
            tools.take_over(before.tools)
            asyncio.get_running_loop().call_later(_OFFER_SECONDS, self._drop_unconfirmed, peer)
        if is_device:
            self._bus.publish(DeviceChanged(who.owner))
        return peer

    def _drop_unconfirmed(self, peer: Peer) -> None:
        """Remove the tools of the connection before that the peer has not offered again."""
        if peer.tools.drop_unconfirmed():
            self.publish_tools(peer)


def close_replaced(peer: Peer, socket: PeerSocket) -> None:
    """Close the older of two connections of one client. A client that can't resume knows only 1000."""
    socket.close(_REPLACED if "resume" in peer.can else 1000, "replaced: a newer connection of this client counts")
