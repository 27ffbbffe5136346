"""Notices that another node (gateway) has died, or that a message was lost: while calls wait, their nodes are asked.

They are asked twice a second. A lost request is sent again, a lost answer comes again. A node that does not listen any
more is counted as lost at the second look, if our own link has been up for some seconds. A node that listens and is
silent proves nothing: if it hangs, its lease ends by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from handspan.core.nodes import LinkDown, NodeBook, NodeLink, NoSuchNode
from handspan.sources.nodes.messages import PROBE, ClientLost, Probe, Probed, ProbedClient, encode
from handspan.sources.nodes.mirror import Mirror
from handspan.sources.nodes.mirrors import Mirrors

_PROBE_SECONDS: Final = 0.5
_ANSWER_SECONDS: Final = 1.0
_MOST_MISSES: Final = 2
_SETTLED_SECONDS: Final = 3.0
"""How long the link must be up before a missing node counts: other nodes may reconnect later than this one."""
_log = logging.getLogger(__name__)
_decoder: Final = msgspec.msgpack.Decoder(Probed)


class Probes:
    """Asks the nodes for whose clients calls wait."""

    def __init__(
        self, book: NodeBook, link: NodeLink, mirrors: Mirrors, declare_lost: Callable[[str], Awaitable[None]]
    ) -> None:
        """`declare_lost` is called with the id of a node that is gone."""
        self._book = book
        self._link = link
        self._mirrors = mirrors
        self._declare_lost = declare_lost
        self._misses: dict[str, int] = {}
        """How often in a row no node listened under this id."""
        self.resent = 0
        """Requests that were lost and sent again."""

    async def run(self) -> None:
        """Look after waiting calls."""
        known: frozenset[str] = frozenset()
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            waiting = {call: mirror for mirror in self._mirrors for call in _waiting_calls(mirror)}
            # Most calls end before the second look: only the others are worth a message.
            old = [(call, mirror) for call, mirror in waiting.items() if call in known]
            known = frozenset(waiting)
            self._misses = {
                node: count
                for node, count in self._misses.items()
                if any(mirror.record.node == node for _, mirror in old)
            }
            by_node: dict[str, dict[str, list[str]]] = {}
            for call, mirror in old:
                by_node.setdefault(mirror.record.node, {}).setdefault(mirror.id, []).append(call)
            await asyncio.gather(*(self._probe(node, clients) for node, clients in by_node.items()))

    async def _probe(self, node: str, clients: dict[str, list[str]]) -> None:
        """Ask this node which of the calls it knows, and repair losses. `clients`: the waiting calls, by client."""
        mirrors = [mirror for peer in clients if (mirror := self._mirrors.find(peer)) is not None]
        asked = tuple(ProbedClient(one.id, one.record.epoch, tuple(clients[one.id])) for one in mirrors)
        try:
            answer = await self._link.request(node, PROBE, encode(Probe(self._book.own, asked)), _ANSWER_SECONDS)
            probed = _decoder.decode(answer)
        except NoSuchNode:
            await self._count_miss(node)
        except (LinkDown, TimeoutError, msgspec.DecodeError):
            return  # no answer proves nothing: if the node hangs, its lease ends by itself
        else:
            self._misses.pop(node, None)
            self._repair(probed, asked)

    def _repair(self, probed: Probed, asked: Iterable[ProbedClient]) -> None:
        """Send again the calls that the node does not know, and note which clients it has lost."""
        for client in probed.unknown:
            mirror = self._mirrors.find(client.peer)
            if mirror is not None and mirror.record.epoch == client.epoch:
                self.resent += len(client.calls)
                for call in client.calls:
                    mirror.calls.ask_again(call)
        for client in asked:
            mirror = self._mirrors.find(client.peer)
            is_moving = client.peer in probed.moving
            if mirror is not None and (is_moving or client.peer in probed.gone):
                lost = ClientLost(mirror.record.owner, client.peer, client.epoch, is_moving=is_moving)
                self._mirrors.lose(lost)

    async def _count_miss(self, node: str) -> None:
        """Note that no node listens under this id. At the second time in a row, the node counts as lost."""
        if self._link.up_for < _SETTLED_SECONDS:
            return
        self._misses[node] = self._misses.get(node, 0) + 1
        if self._misses[node] >= _MOST_MISSES:
            del self._misses[node]
            await self._declare_lost(node)


def _waiting_calls(mirror: Mirror) -> list[str]:
    """Return the ids of the calls that were sent and have no answer. A server's calls count even after it has left."""
    if not mirror.is_up and not mirror.is_server:
        return []
    return [call.id for call in mirror.calls.open.values() if call.was_sent and not call.outcome.done()]
