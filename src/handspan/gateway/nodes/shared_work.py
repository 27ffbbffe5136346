"""What all nodes count together, answer once and do once: tries, requests with a key, and named work (SPEC K5)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from handspan.bus.nats import NatsBus
from handspan.core.bus import TryNoted
from handspan.core.nodes import NodeBook, RequestClaim

_LOOK_SECONDS: Final = 1.0
"""How often a node looks whether it is the one that does a work."""


class SharedWork:
    """The leases of named work, and what one node tells the others of tries. Implements `NodeWork`."""

    def __init__(self, book: NodeBook, bus: NatsBus) -> None:
        self._book = book
        self._bus = bus
        self._left: set[str] = set()
        """Works that no node held at the last look: the node that took one may be about to hold it."""

    def share_tries(self, kind: str, count: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that tells the other nodes of a try. `count` gets the tries on other nodes."""

        def on_try(event: TryNoted) -> None:
            if event.kind == kind:
                count(event.address)

        self._bus.subscribe_elsewhere(TryNoted, on_try)
        return lambda address: self._bus.publish(TryNoted("", kind, address))

    def requests(self, kind: str) -> "KindOfRequests":
        """Return the requests of this kind, of which each is answered by one node."""
        return KindOfRequests(self._book, kind)

    async def hold(self, name: str) -> bool:
        """Take the work of this name if no other node has it. Return whether this node has it.

        The work is free again when the node is lost.
        """
        return await self._book.hold(name) == self._book.own

    async def leave(self, name: str) -> None:
        """Leave the work of this name to another node."""
        await self._book.release(name)

    def free(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of these works that this node may take: no node held them at the last look, either."""
        before, self._left = self._left, set(names)
        return [name for name in names if name in before]

    async def do_once(self, name: str, work: Callable[[], Awaitable[None]], on_wait: Callable[[], None]) -> bool:
        """Do this work once this node is the one that does it. Return False when another node does it by now."""
        while not await self.hold(name):
            on_wait()
            await asyncio.sleep(_LOOK_SECONDS)
        doing = asyncio.ensure_future(work())
        try:
            while not doing.done() and await self.hold(name):
                await asyncio.wait([doing], timeout=_LOOK_SECONDS)
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)


class KindOfRequests:
    """The requests of one kind to which their client gave a key. Implements `SharedRequests`."""

    def __init__(self, book: NodeBook, kind: str) -> None:
        self._book = book
        self._kind = kind

    async def claim(self, owner: str, key: str, fingerprint: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request, unless a node answers it already, or has in the last `seconds`."""
        return await self._book.claim_request(self._kind, owner, key, fingerprint, seconds=seconds)

    async def answer(self, owner: str, key: str, encode: Callable[[], Awaitable[bytes | None]]) -> None:
        """Store the answer of a claimed request. None: the request has no answer, and may be claimed again."""
        await self._book.answer_request(self._kind, owner, key, await encode())
