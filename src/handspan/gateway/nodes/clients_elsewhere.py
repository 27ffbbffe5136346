"""The clients of all nodes: those of others appear on this node, and those of this one may leave it (SPEC K2)."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from handspan.bus.link import NatsLink
from handspan.bus.nats import NatsBus
from handspan.config.settings import Settings
from handspan.core.bus import DeviceChanged, ToolsChanged
from handspan.core.errors import HandspanError
from handspan.core.nodes import SHARED, ClientRecord, NodeBook
from handspan.gateway.clients.peer import Peer
from handspan.gateway.nodes.client_rows import ClientRows, record_of
from handspan.gateway.nodes.servers import SharedServers
from handspan.gateway.parts import Here
from handspan.registry.registry import Registry
from handspan.sources.nodes import messages
from handspan.sources.nodes.messages import LargeFrames
from handspan.sources.nodes.mirror import Mirror
from handspan.sources.nodes.mirrors import Mirrors
from handspan.sources.offers import OfferRules, SchemaCache
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws_frames import FailureFrame, ResultFrame

_log = logging.getLogger(__name__)


class ClientsElsewhere:
    """Brings what the rows of other nodes' clients say to the parts of this gateway. Implements `MirrorHost`."""

    def __init__(
        self,
        link: NatsLink,
        book: NodeBook,
        frames: LargeFrames,
        bus: NatsBus,
        *,
        here: Here,
        name: str,
        settings: Settings,
        start: Callable[[Coroutine[Any, Any, None]], Any],
    ) -> None:
        """`name`: this node's. `start` does work in a task of its own."""
        self.link = link
        self.book = book
        self.frames = frames
        self.grace = settings.gateway.resume_grace
        self.start = start
        self.schemas = SchemaCache()
        self._bus = bus
        self._here = here
        self._unfollow: dict[str, Callable[[], None]] = {}
        self.mirrors = Mirrors(self)
        self.rows = ClientRows(
            book,
            link,
            frames,
            lambda: here().peers,
            most_calls=settings.gateway.limits.pending_calls,
            start=start,
            moved=self.move,
            written=lambda owner: bus.publish_elsewhere(ToolsChanged(owner)),
        )
        self.servers = SharedServers(self, link, bus, here, name=name, away=settings.cluster.away)

    @property
    def registry(self) -> Registry:
        """The tools of this node, with those of clients of other nodes."""
        return self._here().app.registry

    @property
    def rules(self) -> OfferRules:
        """The rules for the tools that clients offer."""
        return self._here().offer_rules

    # Owners.

    async def follow(self, owner: str) -> None:
        """Make the owner's clients and events on other nodes known to this node."""
        if owner not in self._unfollow:
            self._unfollow[owner] = self._bus.follow_owner(owner)
        await self.mirrors.follow(owner)

    def on_unfollowed(self, owner: str) -> None:
        """Note that the owner is not at work on this node any more."""
        unfollow = self._unfollow.pop(owner, None)
        if unfollow is not None:
            unfollow()

    def is_needed(self, owner: str) -> bool:
        """Whether the owner has a session, an open page or a client on this node."""
        if owner == SHARED:
            return True
        parts = self._here()
        has_page = parts.live.count(owner) > 0
        return has_page or parts.sessions.is_used_by(owner) or any(peer.who.owner == owner for peer in parts.peers)

    # Clients of other nodes: `MirrorHost`.

    def take_waiting(self, record: ClientRecord) -> Waiting | None:
        """Return what is left here of a client that was connected to this node before.

        Return None when the client's connection to this node is newer than this record.
        """
        peer = self._here().peers.find(record.peer)
        if peer is None:
            return Waiting()
        if not self.rows.is_older(record):
            return None
        self._here().peers.replace(peer)
        return _waiting_of(peer)

    def appear(self, mirror: Mirror) -> None:
        """Make a client of another node known to this node."""
        if mirror.is_server:
            self.servers.appear(mirror)
            return
        self._here().unfinished.take_over(mirror.id, mirror.calls)
        if mirror.calls.open and mirror.tools is not None:
            mirror.tools.resume_calls()
        record = mirror.record
        if record.role == "device" and mirror.tools is not None:
            self._here().devices.appear(record.owner, record.label, record.name, mirror.tools.fingerprints())
        self._publish_here(record.owner)

    def disappear(self, mirror: Mirror) -> None:
        """Note on this node that a client of another node is gone."""
        if mirror.is_server:
            self.servers.disappear(mirror)
            return
        if mirror.record.role == "device":
            self._here().devices.disappear(mirror.record.owner, mirror.record.label)
        self._publish_here(mirror.record.owner)

    def late(self, mirror: Mirror, frame: ResultFrame | FailureFrame) -> None:
        """Take an answer that no call waits for."""
        if mirror.is_server:
            self.start(self.servers.acknowledge_late(mirror, frame.call))
        else:
            self._here().late.take(mirror, frame)

    def _publish_here(self, owner: str) -> None:
        """Tell the listeners of this node that the owner's tools and devices have changed."""
        self._bus.publish_here(ToolsChanged(owner))
        self._bus.publish_here(DeviceChanged(owner))

    # What other nodes ask for, and what is asked of them.

    def dismiss(self, owner: str, label: str, reason: str) -> bool:
        """Send a device away that is connected to another node. Return False when no other node has this device."""
        for mirror in self.mirrors:
            is_meant = mirror.record.owner == owner and mirror.label == label and mirror.record.role == "device"
            if is_meant and mirror.is_up:
                dismissed = messages.ClientDismissed(owner, mirror.id, reason)
                self.link.send(mirror.record.node, messages.DISMISS, messages.encode(dismissed))
                return True
        return False

    def move(self, moved: messages.ClientMoved) -> None:
        """Let a client go that has a newer connection to another node. Its calls wait for their answers from there."""
        peer = self.rows.move(moved)
        is_asked = peer is not None and peer.questions is not None and peer.questions.is_open
        if peer is not None and (peer.is_moving or peer.calls.open or is_asked):
            self.mirrors.take_over(record_of(peer, ""), _waiting_of(peer))

    def dismiss_here(self, dismissed: messages.ClientDismissed) -> None:
        """Send a device away that was forgotten on another node, and revoke its token."""
        peer = self._here().peers.find(dismissed.peer)
        if peer is not None and peer.who.owner == dismissed.owner:
            if "admin" not in peer.who.scopes:  # without the token of an admin, the operator would lose access
                self.start(self._revoke(peer.token, peer.who.owner))
            self._here().peers.dismiss(peer, dismissed.reason)

    async def _revoke(self, token: str, owner: str) -> None:
        try:
            await self._here().auth.revoke(token, owner)
        except HandspanError as error:
            _log.error("The token of a forgotten device could not be revoked: %s", error)


def _waiting_of(peer: Peer) -> Waiting:
    """Return what is left here of a client that has connected to another node."""
    return Waiting(peer.calls, peer.questions, peer.tools if peer.is_moving else None)
