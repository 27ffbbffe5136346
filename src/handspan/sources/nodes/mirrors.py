"""Clients of other nodes, as this node sees them: their tools are in the registry, their calls travel (SPEC K2, K3).

The rows of the database say which clients there are. This node reads the rows of the owners who are at work on it: when
a hint comes, and every second in any case.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from handspan.core.errors import HandspanError, StoreError, WireError
from handspan.core.nodes import ClientNode, ClientRecord
from handspan.core.principals import Origin
from handspan.core.tasks import wait_for
from handspan.registry.name_rights import DisplacedTool
from handspan.sources.nodes.messages import ClientLost, FromClient, read_head
from handspan.sources.nodes.mirror import GONE, Mirror, MirrorHost
from handspan.sources.ws.calls import LostCall
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws import decode_client
from handspan.wire.ws_frames import FailureFrame

_LOOK_SECONDS: Final = 1.0
_FOLLOW_SECONDS: Final = 300.0
"""How long the clients of an owner are known to this node after the last request of that owner."""
_log = logging.getLogger(__name__)


class Mirrors:
    """All clients of other nodes whose owners are at work on this node."""

    def __init__(self, host: MirrorHost) -> None:
        self._host = host
        self._mirrors: dict[str, Mirror] = {}
        self._followed: dict[str, float] = {}
        """Owners, and when they were last needed."""
        self._read: set[str] = set()
        """Followed owners whose rows were read, or tried to be."""
        self._hinted: set[str] = set()
        """Owners whose rows are to be read soon."""
        self._has_hint = asyncio.Event()
        self._reading = asyncio.Lock()
        """Held while the rows of an owner are read for the first time."""
        self._refreshing = asyncio.Lock()

    def __iter__(self) -> Iterator[Mirror]:
        return iter(tuple(self._mirrors.values()))

    def close(self) -> None:
        """End all mirrors. Their calls stay open in the ledger."""
        for mirror in self:
            mirror.end("The gateway was stopped")
        self._mirrors.clear()

    def find(self, peer: str) -> Mirror | None:
        """Return the mirror of this client."""
        return self._mirrors.get(peer)

    async def follow(self, owner: str) -> bool:
        """Make the owner's clients on other nodes known to this node. Return whether they were not known before.

        Requests that come at once wait for the same look: a client that moves here goes on with the tools it had.
        """
        self._followed[owner] = time.monotonic()
        if owner in self._read:
            return False
        async with self._reading:
            is_new = owner not in self._read
            if is_new:
                try:
                    await self._refresh([owner])
                except StoreError as error:
                    _log.warning("The clients of other nodes are not known yet: %s", error)
                self._read.add(owner)
        return is_new

    def hint(self, owner: str) -> None:
        """Read the rows of the owner's clients soon; without an owner, those of all clients."""
        self._hinted.update(self._followed if not owner else (owner,) if owner in self._followed else ())
        self._has_hint.set()

    def take(self, peer: str) -> Waiting:
        """End the mirror of a client that is connected to this node now. Return what goes on with the client."""
        mirror = self._mirrors.pop(peer, None)
        return Waiting() if mirror is None else mirror.release()

    def take_over(self, record: ClientRecord, waiting: Waiting) -> None:
        """Let the calls of a client that left this node go on at the node to which the client connects next.

        The client's mirror waits until the rows name that node. After the grace time the calls are lost.
        """
        earlier = self._mirrors.get(record.peer)
        if earlier is None or earlier.calls is not waiting.calls:  # else the rows were faster than the message
            mirror = self._mirrors[record.peer] = Mirror(record, self._host, waiting)
            mirror.start_grace(partial(self._end, mirror))
        self._followed.setdefault(record.owner, time.monotonic())
        self.hint(record.owner)

    # Messages of other nodes.

    def receive(self, message: FromClient) -> None:
        """Pass a frame of a client to its mirror."""
        mirror = self._mirrors.get(message.peer)
        if mirror is None or mirror.record.owner != message.owner:
            return
        if message.stored:
            self._host.start(self._receive_stored(mirror, message))
        else:
            self._take(mirror, message.frame)

    async def _receive_stored(self, mirror: Mirror, message: FromClient) -> None:
        """Take a frame that was too large for a message, from the store."""
        frame = await self._host.frames.read(message.stored, message.owner)
        if frame is not None:
            self._take(mirror, frame)
        else:
            text = (
                "The tool has run, and its result is too large to be sent between nodes: artifacts are not shared here."
            )
            mirror.take(FailureFrame(id=message.call, error=text))

    def _take(self, mirror: Mirror, frame: bytes) -> None:
        try:
            mirror.take(decode_client(frame))
        except WireError as error:  # a frame of a newer version, or a result that is nested too deeply
            _log.warning("A frame of another node is not understood: %s", error)
            with contextlib.suppress(msgspec.DecodeError):
                text = f"The tool has run, and its result can't be sent between nodes: {error}"
                mirror.take(FailureFrame(id=read_head(frame).id, error=text))

    def lose(self, message: ClientLost) -> None:
        """Note that a client's connection is gone, that it moves, or that its node has not run one call."""
        mirror = self._mirrors.get(message.peer)
        if mirror is None or mirror.record.owner != message.owner or mirror.record.epoch > message.epoch:
            return
        call = mirror.calls.open.get(message.not_run) if message.not_run else None
        if message.not_run and call is not None:
            call.end(LostCall(was_sent=False, why=GONE))
        elif message.is_moving:
            mirror.pause()
        elif not message.not_run:
            self._disconnect(mirror, message.why if message.is_over else "")
        self.hint(message.owner)

    # Names that belong to this node's own sources (SPEC R2).

    def on_reserved(self) -> None:
        """Try again to register tools that were refused: their names may be free now."""
        for mirror in self:
            mirror.offer_again()

    def on_displaced(self, origin: Origin, tools: Sequence[DisplacedTool]) -> None:
        """Note that a client of another node has lost tools on this node. Its own node tells it."""
        mirror = self._mirrors.get(origin.connection)
        if mirror is not None and mirror.tools is not None:
            mirror.tools.drop(tools)

    # The rows.

    async def look(self) -> None:
        """Look for changed rows: at a hint, and every second."""
        self._host.registry.listen(self)
        while True:
            if not await wait_for(_LOOK_SECONDS, self._has_hint):
                self._forget_idle_owners()
                self._hinted.update(self._followed)
            self._has_hint.clear()
            hinted, self._hinted = list(self._hinted), set()
            if hinted:
                try:
                    await self._refresh(hinted)
                except StoreError as error:  # the database is away: the last known clients stay
                    _log.debug("The clients of other nodes could not be read: %s", error)
                except Exception:
                    _log.exception("The clients of other nodes could not be read")

    async def _refresh(self, owners: list[str]) -> None:
        """Read the rows of these owners' clients. Update the mirrors that changed, and disconnect those that are gone.

        A mirror is gone when its client has no row any more, or is connected to this node now.
        """
        async with self._refreshing:
            rows = {row.peer: row for row in await self._host.book.client_nodes(owners)}
            changed = [peer for peer, row in rows.items() if self._has_changed(row)]
            for record in await self._host.book.clients(changed) if changed else ():
                if record.node != self._host.book.own:
                    self._apply(record)
            gone = [mirror for mirror in self if mirror.record.owner in owners and self._is_gone(mirror, rows)]
            for mirror in gone:
                if not mirror.is_server:
                    self._disconnect(mirror, "")
            await self._leave_servers([mirror for mirror in gone if mirror.is_server])

    def _is_gone(self, mirror: Mirror, rows: Mapping[str, ClientNode]) -> bool:
        row = rows.get(mirror.id)
        if row is not None and mirror.is_moving:  # its row may still be the one of before
            return False
        return row is None or row.node == self._host.book.own

    async def _leave_servers(self, mirrors: list[Mirror]) -> None:
        """Let go of MCP servers that their nodes do not run any more.

        A node that is alive ends the calls that it has, and says which of them it has not run: the probes ask it. So
        a mirror with open calls stays while its node is alive.
        """
        for mirror in mirrors:
            mirror.leave()
        waiting = any(mirror.is_awaited for mirror in mirrors)
        living = {node.id for node in await self._host.book.nodes()} if waiting else ()
        for mirror in mirrors:
            if not mirror.is_awaited or mirror.record.node not in living:
                self._end(mirror, "The node of the server is gone")

    def _has_changed(self, row: ClientNode) -> bool:
        """Whether this row says more of its client than this node knows."""
        mirror = self._mirrors.get(row.peer)
        if row.node == self._host.book.own:
            return False
        if mirror is not None and mirror.is_moving:  # its node would only say once more that the client moves
            return mirror.record.epoch != row.epoch
        if mirror is None or not mirror.is_up:
            return True
        return (mirror.record.epoch, mirror.record.version) != (row.epoch, row.version)

    def _apply(self, record: ClientRecord) -> None:
        """Make or update the mirror of this client, unless a newer connection is known."""
        mirror = self._mirrors.get(record.peer)
        if mirror is None:
            left = self._host.take_waiting(record)
            if left is None:
                return  # the client's connection to this node is newer
            mirror = self._mirrors[record.peer] = Mirror(record, self._host, left)
        elif record.epoch < mirror.record.epoch:
            return
        try:
            mirror.up(record)
        except (HandspanError, msgspec.DecodeError) as error:
            _log.warning("The tools of a client of another node can't be used: %s", error)

    def _disconnect(self, mirror: Mirror, reason: str) -> None:
        """Note that a client has no connection. `reason`: why the client can't come back; empty when it can."""
        mirror.close_link()
        if reason or "resume" not in mirror.can:
            self._end(mirror, reason or GONE)
        else:  # also without an open call: a call that has found its tool may reach the mirror in a moment
            mirror.start_grace(partial(self._end, mirror))

    def _end(self, mirror: Mirror, reason: str) -> None:
        if self._mirrors.get(mirror.id) is mirror:
            del self._mirrors[mirror.id]
        mirror.end(reason)

    def _forget_idle_owners(self) -> None:
        """End the mirrors of owners who have not been at work on this node for `_FOLLOW_SECONDS`."""
        before = time.monotonic() - _FOLLOW_SECONDS
        awaited = {mirror.record.owner for mirror in self if mirror.is_awaited}
        for owner, last_needed in list(self._followed.items()):
            if last_needed < before and owner not in awaited and not self._host.is_needed(owner):
                del self._followed[owner]
                self._read.discard(owner)
                for mirror in self:
                    if mirror.record.owner == owner:
                        self._end(mirror, GONE)
                self._host.on_unfollowed(owner)
