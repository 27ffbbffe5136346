"""When a gateway (a node) has died, the others notice it here and take over its work (SPEC A2, K3).

Sessions and calls go on as after a restart. This module also takes the turns that a node handed over before it stopped,
and ends the waiting for calls that another node took over from this one.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from handspan.core.errors import HandspanError, StoreError
from handspan.core.nodes import NodeBook
from handspan.core.records import Recovery
from handspan.core.store import Store
from handspan.sources.ws.calls import LostCall, RemoteCalls

_LOOK_SECONDS: Final = 0.5
_RECOVER_SECONDS: Final = 5.0
_TAKEN: Final = "Its node was counted as lost"
_log = logging.getLogger(__name__)

TakeOver = Callable[[Recovery], Awaitable[None]]
"""Goes on with the calls and turns that a lost node left open."""
TakeOverTurn = Callable[[str, str], Awaitable[None]]
"""Goes on with the turn of this session and owner, which was handed over."""


class LostNodes:
    """Looks for nodes whose lease is over, and closes or continues the work that they left."""

    def __init__(
        self,
        store: Store,
        book: NodeBook,
        take_over: TakeOver,
        take_over_turn: TakeOverTurn,
        *,
        on_clients_lost: Callable[[], None],
        runs_turns: bool,
    ) -> None:
        """`on_clients_lost` is called when the rows of a lost node's clients have been deleted.

        `runs_turns`: whether turns run on this node. A node without turns leaves the work of lost nodes to others.
        """
        self._store = store
        self._book = book
        self._take_over = take_over
        self._take_over_turn = take_over_turn
        self._on_clients_lost = on_clients_lost
        self._runs_turns = runs_turns
        self._recovering = asyncio.Lock()
        self._recovered_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to look for lost nodes, if this node can go on with their work."""
        if not self._runs_turns:
            return
        self._task = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def declare_lost(self, node: str) -> None:
        """Count a node as lost, and go on with its work, unless another node did so first."""
        try:
            name = next((one.name for one in await self._book.nodes() if one.id == node), "")
            if await self._book.declare_lost(node):
                _log.warning(
                    "The node %s is gone: its work goes on here.", f"{name} ({node[:8]})" if name else node[:8]
                )
                self._on_clients_lost()
                await self.recover()
        except HandspanError as error:  # the next look tries it again
            _log.warning("The work of the node %s could not be taken over yet: %s", node[:8], error)

    async def recover(self) -> None:
        """Close or continue the work that lost nodes left open."""
        if not self._runs_turns:
            return
        async with self._recovering:
            self._recovered_at = time.monotonic()
            await self._take_over(await self._store.recover())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                for node in await self._book.lost_nodes():
                    await self.declare_lost(node)
                for session, owner in await self._store.conversations.handed_over():
                    await self._take_over_turn(session, owner)
                if time.monotonic() - self._recovered_at > _RECOVER_SECONDS:
                    await self.recover()  # the node that declared another one lost may be lost itself
            except HandspanError as error:
                _log.debug("Lost nodes could not be looked for: %s", error)
            except Exception:
                _log.exception("Lost nodes could not be looked for")


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
