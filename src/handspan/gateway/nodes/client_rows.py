"""The clients of this node as rows, so that the other nodes know them. Connections never wait for the database."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, structs

from handspan.core.calls import CallRecord
from handspan.core.errors import StoreError
from handspan.core.nodes import ClientRecord, NodeBook, NodeLink
from handspan.gateway.clients.peer import Peer
from handspan.gateway.clients.peers import Peers
from handspan.sources.nodes.messages import GONE, MOVED, ClientLost, ClientMoved, LargeFrames, encode
from handspan.sources.nodes.relay import Relay
from handspan.wire.ws_frames import Connect

_T = TypeVar("_T")

_AT_ONCE: Final = 250
"""Rows that are given to the database at once, which writes them in one statement."""
_RETRY_SECONDS: Final = 1.0
_REPEAT_SECONDS: Final = 3.0
_log = logging.getLogger(__name__)


class _Client(Struct):
    """One connection: what its row should say, and what has been written."""

    peer: Peer
    frame: Connect
    relay: Relay
    is_here: bool = True
    """Whether the connection is still open."""
    is_entered: bool = False
    """Whether no row has to be entered: it is written, or another connection counts."""
    has_new_tools: bool = False
    """Whether its tools have changed since its row was written."""
    came_at: float = msgspec.field(default_factory=lambda: time.monotonic())


class ClientRows:
    """Writes which clients are connected to this node, and passes on the frames that other nodes send to them."""

    def __init__(
        self,
        book: NodeBook,
        link: NodeLink,
        frames: LargeFrames,
        peers: Callable[[], Peers],
        *,
        most_calls: int,
        start: Callable[[Coroutine[Any, Any, None]], Any],
        moved: Callable[[ClientMoved], None],
        written: Callable[[str], None],
    ) -> None:
        """`most_calls`: how many calls from other nodes may wait for one client. `start` does work in a task.

        `moved` is called when the rows show that a newer connection of a client, to another node, counts. `written` is
        called with the owner of a client whose row has changed: other nodes can read the row now.
        """
        self.link = link
        self.frames = frames
        self.most_calls = most_calls
        self.start = start
        self._book = book
        self._peers = peers
        self._moved = moved
        self._written = written
        self._clients: dict[str, _Client] = {}
        self._moving: dict[str, int] = {}
        """The epochs of clients that were sent to another node. Their rows stay, so that the others wait for them."""
        self._leaving: set[tuple[str, int]] = set()
        """Connections that are gone and whose rows have to be removed: client and epoch."""
        self._changed: set[str] = set()
        """The owners of clients whose rows have changed, until `written` is called."""
        self._has_work = asyncio.Event()

    # What the clients do.

    def arrive(self, peer: Peer, frame: Connect) -> Relay:
        """Note that this client is connected to this node. Return the connection as other nodes use it."""

        def send(data: bytes) -> None:
            if peer.socket is not None:
                peer.socket.send_text(data)

        relay = Relay(peer.id, peer.who.owner, peer.calls, send, host=self)
        self._clients[peer.id] = _Client(peer, frame, relay)
        self._has_work.set()
        return relay

    def offer(self, peer: Peer) -> None:
        """Note that the tools of this client have changed."""
        client = self._clients.get(peer.id)
        if client is not None:
            client.has_new_tools = True
            self._has_work.set()

    def leave(self, peer: Peer) -> None:
        """Note that the connection of this client is gone."""
        self._leave(peer, is_over="resume" not in peer.can, why="The client disconnected")

    def end(self, peer: Peer, why: str) -> None:
        """Note that this client will not come back, unless it is sent away because this node stops."""
        comes_back = "resume" in peer.can and not self._peers().is_open  # then it connects to another node
        self._leave(peer, is_over=not comes_back, why=why)

    def _leave(self, peer: Peer, *, is_over: bool, why: str) -> None:
        """Note that a connection is gone. `is_over`: the client can't come back, because of `why`."""
        client, epoch = self._clients.pop(peer.id, None), self._moving.pop(peer.id, 0)
        if client is not None:
            client.is_here = False
            epoch = client.relay.epoch
        is_moving = peer.is_moving and epoch > 0
        if is_moving:
            self._moving[peer.id] = epoch
        elif epoch:
            self._leaving.add((peer.id, epoch))
            self._has_work.set()
        gone = encode(ClientLost(peer.who.owner, peer.id, epoch, is_over, why=why, is_moving=is_moving))
        for node in () if client is None else client.relay.callers:
            self.link.send(node, GONE, gone)

    def add_all_again(self) -> None:
        """Enter all clients anew: this node has a new incarnation."""
        for client in self._clients.values():
            client.is_entered = False
            client.relay.epoch = 0
        self._leaving.clear()
        self._moving.clear()
        self._has_work.set()

    # What other nodes ask for.

    def relay_of(self, peer: str, epoch: int) -> Relay | None:
        """Return this connection of a client; None if it is gone."""
        client = self._clients.get(peer)
        return None if client is None or client.relay.epoch != epoch else client.relay

    def is_moving(self, peer: str, epoch: int) -> bool:
        """Whether the client of this connection was sent to another node."""
        return self._moving.get(peer) == epoch

    def release_calls(self, peer: Peer, records: Sequence[CallRecord]) -> None:
        """Let calls of a lost node, which this node took over, get their answers from this client of this node.

        A call that the client runs is not sent again. A call that the client has answered gets that answer.
        """
        client = self._clients.get(peer.id)
        for record in records if client is not None else ():
            call = peer.calls.open.get(record.id)
            found = client.relay.release(record.id) if client is not None and call is not None else False
            if call is None or found is False:
                continue
            call.name = peer.tools.own_name(record.name)  # `resume_calls` sends only calls without a name
            if found is not True:
                peer.calls.receive_answer(found)

    def is_older(self, record: ClientRecord) -> bool:
        """Whether the client's connection to this node is older than the connection in the record."""
        client = self._clients.get(record.peer)
        return client is None or 0 < client.relay.epoch < record.epoch

    def move(self, moved: ClientMoved) -> Peer | None:
        """Let go of a client that has a newer connection to another node. Return the client, if this node had it."""
        client = self._clients.get(moved.peer)
        if client is not None and client.relay.epoch >= moved.epoch:
            return None
        peer = self._peers().find(moved.peer)
        if peer is not None:
            self._peers().replace(peer)
        self._moving.pop(moved.peer, None)
        return peer

    # The rows.

    async def write(self) -> None:
        """Write the rows whenever there is something to write. They are removed with the lease of this node."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            try:
                await self._write_all()
                continue
            except StoreError as error:  # clients stay connected; their rows are entered when the database is back
                _log.debug("The clients of this node are not stored yet: %s", error)
            except Exception:
                _log.exception("The clients of this node could not be stored")
            await asyncio.sleep(_RETRY_SECONDS)
            self._has_work.set()

    async def _write_all(self) -> None:
        """Write what waits: first what is gone, then what is new, then what has changed, each in few statements.

        Raises the first failure when all the others are written: a row that is refused keeps no other row away.
        """
        failures = await self._do_together(self._remove_row, self._leaving)
        if not failures:  # else a new client may have the label of a client whose row is still there
            new = [client for client in self._clients.values() if not client.is_entered]
            failures += await self._do_together(self._add_client, new)
            changed = [one for one in self._clients.values() if one.is_entered and one.has_new_tools]
            failures += await self._do_together(self._store_tools, changed)
        if failures:
            raise failures[0]

    async def _do_together(
        self, write: Callable[[_T], Coroutine[Any, Any, None]], given: Iterable[_T]
    ) -> list[BaseException]:
        """Write a row for each of these, many at once. Tell whose rows have changed. Return the failures."""
        waiting, failures = list(given), list[BaseException]()
        while waiting:
            some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            failures += filter(None, await asyncio.gather(*map(write, some), return_exceptions=True))
            changed, self._changed = self._changed, set()
            for owner in changed:
                self._written(owner)
        return failures

    async def _remove_row(self, left: tuple[str, int]) -> None:
        await self._book.remove_client(*left)
        self._leaving.discard(left)

    async def _store_tools(self, client: _Client) -> None:
        client.has_new_tools = False
        try:
            await self._book.store_tools(client.peer.id, client.relay.epoch, _tools_of(client.peer))
        except StoreError:
            client.has_new_tools = True
            raise
        self._changed.add(client.peer.who.owner)

    async def _add_client(self, client: _Client) -> None:
        """Enter the row of a client, and act on what another node has entered for it since."""
        peer, frame, node = client.peer, client.frame, self._book.own
        client.has_new_tools = False
        record = structs.replace(
            record_of(peer, node),
            prefix=bool(frame.prefix),
            name=frame.device_name or "",
            token=peer.token,
            tools=_tools_of(peer),
            age=time.monotonic() - client.came_at,
        )
        try:
            added = await self._book.add_client(record)
        except StoreError:
            client.has_new_tools = True
            raise
        if added.newer:  # the row comes too late: the client has connected to another node since
            client.is_entered = True
            self._moved(ClientMoved(peer.id, added.newer))
            return
        if not added.epoch:
            if client.is_here and peer.socket is not None:  # a device of this label came to another node just now
                peer.socket.close(1012, "another device took this label: connect again")
            client.is_entered = True
            return
        if node != self._book.own:
            return  # this node has a new incarnation by now
        client.is_entered, client.relay.epoch = True, added.epoch
        self._changed.add(peer.who.owner)
        if not client.is_here:
            self._leaving.add((peer.id, added.epoch))
            self._has_work.set()
        if added.replaced:
            self.link.send(added.replaced, MOVED, encode(ClientMoved(peer.id, added.epoch)))

    async def repeat(self) -> None:
        """Send answers again that no node has acknowledged."""
        while True:
            await asyncio.sleep(_REPEAT_SECONDS)
            for client in list(self._clients.values()):
                client.relay.repeat_answers()


def record_of(peer: Peer, node: str) -> ClientRecord:
    """Return the record of a client that is or was connected to this node, as of one at `node`, without its tools."""
    return ClientRecord(
        peer=peer.id,
        owner=peer.who.owner,
        node=node,
        epoch=0,
        role=peer.role,
        label=peer.label,
        session=peer.session,
        prefix=True,
        capabilities=tuple(sorted(peer.can)),
    )


def _tools_of(peer: Peer) -> bytes:
    return msgspec.json.encode(peer.tools.offers())
