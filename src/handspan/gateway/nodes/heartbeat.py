"""What a node does twice a second: it tells the others its load, and looks for nodes, revoked tokens and a lost link.

No single look matters. An event tells of a revoked token at once; the next look finds it when the event was lost
(SPEC K). Dead nodes are found in `lost_nodes.py` and `sources/nodes/probes.py`.
"""

import asyncio
import logging
import time
from typing import Final

from handspan.bus.link import NatsLink
from handspan.bus.nats import NatsBus
from handspan.bus.senders import Senders
from handspan.config.store_settings import ClusterSettings
from handspan.core.bounded import BoundedDict
from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.core.nodes import NodeBook
from handspan.gateway.parts import Here
from handspan.sources.nodes.probes import Probes

TICK_SECONDS: Final = 0.5
_MAX_REVOKED: Final = 10_000
_REVOKED_OVERLAP: Final = 120.0
"""Seconds that each look reads once more: a token that another node revokes is stored a little later."""
_log = logging.getLogger(__name__)


class Heartbeat:
    """The regular work of one node."""

    def __init__(
        self,
        book: NodeBook,
        link: NatsLink,
        senders: Senders,
        bus: NatsBus,
        *,
        here: Here,
        probes: Probes,
        settings: ClusterSettings,
    ) -> None:
        self._book = book
        self._link = link
        self._senders = senders
        self._bus = bus
        self._here = here
        self._probes = probes
        self._settings = settings
        self.is_cut_off = False
        """Whether this node has no connection to the other nodes, while others have one."""
        self._down_since = 0.0
        self._looked_at = time.monotonic()
        """When the last look for revoked tokens that succeeded began."""
        self._revoked: BoundedDict[str, None] = BoundedDict(_MAX_REVOKED)
        """The tokens that this node knows to be revoked."""
        bus.subscribe(TokenRevoked, self._note_revoked)

    async def describe(self) -> None:
        """Tell the others whether this node stops, and its load. Raises `StoreError`."""
        await self._book.describe(is_draining=self._here().nodes.is_draining, load=self._load())

    def _note_revoked(self, event: TokenRevoked) -> None:
        self._revoked[event.token] = None

    async def run(self) -> None:
        """Do the regular work."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._look_for_link()
                await self._look_for_changes()
                await self.describe()
                await self._senders.look()
            except StoreError as error:
                _log.debug("The database is away: %s", error)
            except Exception:
                _log.exception("This node could not tell the others about itself")

    def _load(self) -> dict[str, float]:
        """Return the figures that `handspan nodes` shows of this node."""
        parts = self._here()
        return {
            "clients": float(len(parts.peers)),
            "devices": float(sum(peer.role == "device" for peer in parts.peers)),
            "turns": float(parts.sessions.count_running()),
            "calls": float(sum(len(peer.calls.open) for peer in parts.peers)),
            "resent": float(self._probes.resent),
            "forged": float(self._link.signing.forged),
            "repeated": float(self._link.signing.repeated),
            "sent_messages": float(self._link.signing.sent),
            "lost": float(self._link.lost),
            **parts.metrics.totals(),
        }

    async def _look_for_changes(self) -> None:
        """Refuse the tokens that another node has revoked, and note what is due: events of both may be lost."""
        now = time.monotonic()
        found = await self._book.changes(now - self._looked_at + _REVOKED_OVERLAP)
        self._looked_at = now
        self._here().scheduler.note_next(found.next_due)
        for owner, token in found.revoked:
            if token not in self._revoked:
                self._here().auth.note_revoked(token)
                self._bus.publish_here(TokenRevoked(owner, token))

    async def _look_for_link(self) -> None:
        """Take no new clients while this node is cut off. After a while, send its clients to other nodes, too.

        A node without a link is cut off if another one has a link, which the other one's lease shows: without a link no
        node renews it. If no node has a link, the clients are as well off here as anywhere.
        """
        if self._link.is_up:
            self._down_since, self.is_cut_off = 0.0, False
            return
        self._down_since = self._down_since or time.monotonic()
        down_for = time.monotonic() - self._down_since
        if down_for <= self._settings.lease:  # the lease of a node without a link is not over yet
            return
        nodes = await self._book.nodes()
        self.is_cut_off = any(one.id != self._book.own and one.lag < self._settings.lease for one in nodes)
        if self.is_cut_off and down_for > self._settings.away:
            for peer in self._here().peers:
                if peer.socket is not None:
                    peer.socket.close(1012, "this node is cut off: connect again")
