"""How a node stops: its turns and its clients go to other nodes, one after the other (SPEC K).

A turn is handed over between two steps: its row loses its lease, and the node with the fewest turns is told. A client's
connection is closed with the code 1012, and the client connects to another node. Clients that a call waits for go last.
Until a client is there, its tools stay on all nodes and their calls wait: no call fails because its device moves.
"""

import asyncio
import logging
import random
import time
from typing import Final

from handspan.core.errors import StoreError
from handspan.core.nodes import NodeBook, NodeLink, NodeRecord
from handspan.gateway.clients.peer import Peer
from handspan.gateway.parts import Here
from handspan.sources.nodes import messages

_TICK_SECONDS: Final = 0.1
_ASKED_PART: Final = 0.75
"""The part of the time in which all clients are asked to go. In the rest, the last ones come to other nodes."""
_log = logging.getLogger(__name__)


class Draining:
    """Hands the work of this node over to other nodes."""

    def __init__(self, book: NodeBook, link: NodeLink, here: Here) -> None:
        self._book = book
        self._link = link
        self._here = here

    async def run(self, seconds: float) -> None:
        """Hand over turns and clients. Return when all are at other nodes, or after so many seconds."""
        nodes = await self._other_nodes()
        if any(runs_turns(one.role) for one in nodes):
            self._here().sessions.hand_over_turns()
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if self._is_over():
                return
            self._send_away(began + seconds * _ASKED_PART - time.monotonic(), has_successors=bool(nodes))
            await asyncio.sleep(_TICK_SECONDS)

    def _is_over(self) -> bool:
        """Whether no client is left that can go now, or that is expected at another node."""
        if any(peer.is_moving for peer in self._here().peers):
            return False
        connected = self._connected_peers()
        is_working = self._here().sessions.hands_over or any(peer.relay.is_awaited for peer in connected)
        return not connected or (not is_working and all(peer.is_awaited for peer in connected))

    def _send_away(self, seconds: float, *, has_successors: bool) -> None:
        """Send away so many of the idle clients that all of them have been sent after these seconds."""
        idle = [peer for peer in self._connected_peers() if not peer.is_awaited]
        for peer in idle[: max(1, int(len(idle) * _TICK_SECONDS / max(seconds, _TICK_SECONDS)))]:
            if has_successors:
                self._here().peers.move(peer)
            elif peer.socket is not None:
                peer.socket.close(1012, "this node stops: connect again")

    def _connected_peers(self) -> list[Peer]:
        return [peer for peer in self._here().peers if peer.socket is not None and not peer.is_moving]

    async def hand_over_turn(self, session: str, owner: str) -> None:
        """Tell the node with the fewest turns that it can go on with the turn of this session."""
        try:
            nodes = [one for one in await self._book.nodes() if self._is_successor(one) and runs_turns(one.role)]
        except StoreError:
            return  # other nodes look for turns without a lease by themselves
        if nodes:
            least = min(nodes, key=lambda one: (one.load.get("turns", 0.0), random.random()))
            self._link.send(least.id, messages.TURN, messages.encode(messages.TurnOffered(owner, session)))

    async def _other_nodes(self) -> list[NodeRecord]:
        """Return the other nodes that do not stop; none while the database is away."""
        try:
            return [one for one in await self._book.nodes() if self._is_successor(one)]
        except StoreError as error:
            _log.warning("The turns of this node are not handed over: %s", error)
            return []

    def _is_successor(self, node: NodeRecord) -> bool:
        return node.id != self._book.own and not node.is_draining


def runs_turns(role: str) -> bool:
    """Whether turns run on nodes with this role."""
    return role != "edge"
