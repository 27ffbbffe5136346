"""How this node goes on with work of another one: calls and turns of a lost node, and a turn that was handed over."""

from collections.abc import Sequence
from typing import Protocol

from handspan.core.calls import CallRecord
from handspan.core.records import Recovery
from handspan.gateway.clients.peer import Peer
from handspan.gateway.nodes.client_rows import ClientRows
from handspan.gateway.nodes.servers import SharedServers
from handspan.gateway.parts import Here
from handspan.sources.nodes.mirrors import Mirrors


class WorkingNode(Protocol):
    """What this node has for the work of others."""

    client_rows: ClientRows
    mirrors: Mirrors
    servers: SharedServers
    runs_turns: bool
    is_draining: bool

    async def follow(self, owner: str) -> None:
        """Make the owner's clients and events on other nodes known to this node."""


class TakingOver:
    """Goes on with calls and turns, as after a restart."""

    def __init__(self, node: WorkingNode, here: Here, *, grace: float) -> None:
        """`grace`: seconds that calls wait for a client without a connection."""
        self._grace = grace
        self._node = node
        self._here = here

    async def take_over(self, recovery: Recovery) -> None:
        """Go on with the calls and turns that a lost node left open."""
        node, parts = self._node, self._here()
        taken = await parts.unfinished.open(self._grace)
        parts.sessions.cut_off.update(recovery.closed)
        for owner in {record.owner for record in taken}:
            await node.follow(owner)
        for peer_id in {record.tool.origin.connection for record in taken if record.tool.origin is not None}:
            self._take_calls_of(peer_id, taken)
        node.servers.wake()
        await parts.resumable.recover(recovery)

    def _take_calls_of(self, peer_id: str, taken: Sequence[CallRecord]) -> None:
        """Let these calls get their answers from a client of this node or of another one."""
        client = self._here().peers.find(peer_id) or self._node.mirrors.find(peer_id)
        if client is not None and client.tools is not None:
            self._here().unfinished.take_over(peer_id, client.calls)
            if isinstance(client, Peer):
                self._node.client_rows.release_calls(client, taken)
            client.tools.resume_calls()

    async def take_over_turn(self, session: str, owner: str) -> None:
        """Go on with a turn that another node has handed over."""
        if self._node.runs_turns and not self._node.is_draining:
            await self._node.follow(owner)
            self._here().sessions.take_over_turn(session, owner)
