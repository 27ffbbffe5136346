"""When a gateway (a node) has died, the others notice it here and take over its work (SPEC A2, K3).

Sessions and calls go on as after a restart. This module also takes the turns that a node handed over before it stopped,
and ends the waiting for calls that another node took over from this one.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final

from handspan.core.calls import CallRecord
from handspan.core.errors import HandspanError, StoreError
from handspan.core.nodes import NodeBook
from handspan.core.records import Recovery
from handspan.core.store import Store
from handspan.gateway.clients.peer import Peer
from handspan.gateway.nodes.clients_elsewhere import ClientsElsewhere
from handspan.gateway.parts import Here
from handspan.sources.ws.calls import LostCall, RemoteCalls

_LOOK_SECONDS: Final = 0.5
_RECOVER_SECONDS: Final = 5.0
_TAKEN: Final = "Its node was counted as lost"
_log = logging.getLogger(__name__)


class LostNodes:
    """Looks for nodes whose lease is over, and closes or continues the work that they left."""

    def __init__(self, store: Store, book: NodeBook, clients: ClientsElsewhere, here: Here) -> None:
        self._store = store
        self._book = book
        self._clients = clients
        self._here = here
        self._recovering = asyncio.Lock()
        self._recovered_at = time.monotonic()

    async def declare_lost(self, node: str) -> None:
        """Count a node as lost, and go on with its work, unless another node did so first."""
        try:
            name = next((one.name for one in await self._book.nodes() if one.id == node), "")
            if await self._book.declare_lost(node):
                _log.warning(
                    "The node %s is gone: its work goes on here.", f"{name} ({node[:8]})" if name else node[:8]
                )
                self._clients.mirrors.hint("")
                await self.recover()
        except HandspanError as error:  # the next look tries it again
            _log.warning("The work of the node %s could not be taken over yet: %s", node[:8], error)

    async def recover(self) -> None:
        """Close or continue the work that lost nodes left open. A node without turns leaves it to others."""
        if not self._here().nodes.runs_turns:
            return
        async with self._recovering:
            self._recovered_at = time.monotonic()
            await self._take_over(await self._store.recover())

    async def look(self) -> None:
        """Look for lost nodes, if this node can go on with their work."""
        while self._here().nodes.runs_turns:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                for node in await self._book.lost_nodes():
                    await self.declare_lost(node)
                for session, owner in await self._store.conversations.handed_over_turns():
                    await self.take_over_turn(session, owner)
                if time.monotonic() - self._recovered_at > _RECOVER_SECONDS:
                    await self.recover()  # the node that declared another one lost may be lost itself
            except HandspanError as error:
                _log.debug("Lost nodes could not be looked for: %s", error)
            except Exception:
                _log.exception("Lost nodes could not be looked for")

    async def take_over_turn(self, session: str, owner: str) -> None:
        """Go on with a turn that another node has handed over."""
        parts = self._here()
        if parts.nodes.runs_turns and not parts.nodes.is_draining:
            await self._clients.follow(owner)
            parts.sessions.take_over_turn(session, owner)

    async def _take_over(self, recovery: Recovery) -> None:
        """Go on with the calls and turns that a lost node left open, as after a restart."""
        parts = self._here()
        taken = await parts.unfinished.open(self._clients.grace)
        parts.sessions.cut_off.update(recovery.closed)
        parts.scheduler.take_over(recovery.runs)
        for owner in {record.owner for record in taken}:
            await self._clients.follow(owner)
        for peer_id in {record.tool.origin.connection for record in taken if record.tool.origin is not None}:
            self._take_calls_of(peer_id, taken)
        self._clients.servers.wake()
        await parts.resumable.recover(recovery)

    def _take_calls_of(self, peer_id: str, taken: Sequence[CallRecord]) -> None:
        """Let these calls get their answers from a client of this node or of another one."""
        client = self._here().peers.find(peer_id) or self._clients.mirrors.find(peer_id)
        if client is not None and client.tools is not None:
            self._here().unfinished.take_over(peer_id, client.calls)
            if isinstance(client, Peer):
                self._clients.rows.release_calls(client, taken)
            client.tools.resume_calls()


async def end_taken_calls(clients: Iterable[RemoteCalls], book: NodeBook) -> None:
    """End the waiting for calls whose result another node has stored, because it counted this one as lost.

    A client answers once, and it answered to the node that took the call over. The engine finds the result in the
    ledger.
    """
    waiting = [(calls, call) for calls in clients for call in calls.open.values()]
    while waiting := [(calls, call) for calls, call in waiting if not call.outcome.done()]:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            for calls, call in waiting:
                if not await book.holder_of(call.id) and call.end(LostCall(call.was_sent, _TAKEN)):
                    calls.acknowledge(call.id)  # the client's node may have noted that this node waits for the answer
        except StoreError as error:
            _log.debug("Calls that were taken over could not be looked for: %s", error)
