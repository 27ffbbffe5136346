"""How a node stops: its turns and its clients go to other nodes, one after the other (SPEC K).

A turn is handed over between two steps: its row loses its lease, and the node with the fewest turns is told. A client's
connection is closed with the code 1012, and the client connects to another node. Clients that a call waits for go last.
"""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Final

from handspan.core.errors import StoreError
from handspan.core.nodes import NodeBook, NodeLink, NodeRecord
from handspan.gateway.clients.peers import Peer
from handspan.gateway.nodes.events import ClusterParts
from handspan.sources.nodes import messages

_TICK_SECONDS: Final = 0.1
_log = logging.getLogger(__name__)


class Draining:
    """Hands the work of this node over to other nodes."""

    def __init__(self, book: NodeBook, link: NodeLink, parts: ClusterParts) -> None:
        self._book = book
        self._link = link
        self._parts = parts

    async def run(self, seconds: float) -> None:
        """Hand over turns and clients. Return when none is left, or after so many seconds."""
        await self._leave_turns()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connected = [peer for peer in self._parts.peers if peer.socket is not None]
            idle = [peer for peer in connected if not peer.is_awaited]
            is_over = not self._parts.sessions.is_leaving and not _is_relaying(connected)
            if not connected or (not idle and is_over):
                return
            for peer in idle[: max(1, int(len(idle) * _TICK_SECONDS / max(end - time.monotonic(), _TICK_SECONDS)))]:
                if peer.socket is not None:
                    peer.socket.close(1012, "this node stops: connect again")
            await asyncio.sleep(_TICK_SECONDS)

    async def offer_turn(self, session: str, owner: str) -> None:
        """Tell the node with the fewest turns that it can go on with the turn of this session."""
        try:
            nodes = await self._turn_nodes()
        except StoreError:
            return  # other nodes look for turns without a lease by themselves
        if nodes:
            least = min(nodes, key=lambda one: (one.load.get("turns", 0.0), random.random()))
            self._link.send(least.id, messages.TURN, messages.encode(messages.TurnOffered(owner, session)))

    async def _leave_turns(self) -> None:
        """Let other nodes go on with the turns of this node, if a node can."""
        try:
            has_successors = bool(await self._turn_nodes())
        except StoreError as error:
            _log.warning("The turns of this node are not handed over: %s", error)
            return
        if has_successors:
            self._parts.sessions.leave()

    async def _turn_nodes(self) -> list[NodeRecord]:
        """Return the other nodes that run turns and do not stop."""
        found = await self._book.nodes()
        return [one for one in found if one.id != self._book.own and not one.is_draining and runs_turns(one.role)]


def runs_turns(role: str) -> bool:
    """Whether turns run on nodes with this role."""
    return role != "edge"


def _is_relaying(peers: Sequence[Peer]) -> bool:
    """Whether other nodes wait for one of these clients."""
    return any(peer.relay is not None and peer.relay.is_awaited for peer in peers)
