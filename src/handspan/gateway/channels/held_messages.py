"""Messages that this node answers. Of several nodes, one answers each; another one does when that one is gone."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from handspan.channels.bus import MessageBus
from handspan.core.channels import ChannelNodes, InboxMessage
from handspan.core.errors import HandspanError, StoreError
from handspan.core.store import ChannelBook

_LOOK_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)
TakeMessage: TypeAlias = Callable[[InboxMessage], Awaitable[None]]
"""Answers a message that another node has taken, and does not answer any more."""


class HeldMessages:
    """Says which node answers a message. A gateway that is alone answers all of them."""

    def __init__(self, messages: MessageBus, book: ChannelBook, nodes: ChannelNodes | None = None) -> None:
        """`nodes`: None for a gateway that is alone."""
        self._messages = messages
        self._book = book
        self._nodes = nodes
        self._held: set[str] = set()
        self._left: set[str] = set()
        """Messages that no node held at the last look: the node that took one may be about to hold it."""
        self._looking: asyncio.Task[None] | None = None

    async def open(self, take: TakeMessage) -> None:
        """Give `take` what is not answered: of an earlier process; of other nodes, when they are gone."""
        if self._nodes is None:
            for taken in await self._unanswered():
                await take(taken)
        else:
            self._looking = asyncio.create_task(self._look(take))

    async def close(self) -> None:
        """Take no more messages of other nodes."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def hold(self, taken: InboxMessage) -> bool:
        """Whether this node has to answer this message."""
        if self._nodes is None:
            return True
        name = _lease_of(taken)
        if await self._nodes.hold_work(name):
            self._held.add(name)
            await self._nodes.follow(taken.owner)  # the devices of other nodes may be needed
        return name in self._held

    async def finish(self, taken: InboxMessage) -> None:
        """Note that this message is answered."""
        await self._book.set_state(taken.message.channel, taken.message.id, "done")
        await self.give_up([taken])

    async def give_up(self, messages: Iterable[InboxMessage]) -> None:
        """Leave these messages to another node, if they are not answered."""
        for name in map(_lease_of, messages):
            self._held.discard(name)
            if self._nodes is not None:
                with contextlib.suppress(StoreError):  # then it goes with this node
                    await self._nodes.leave_work(name)

    async def _unanswered(self) -> list[InboxMessage]:
        queues = [queue for queue in self._messages if not queue.problem]  # of others no answer could be delivered
        return [taken for queue in queues for taken in await self._book.unanswered(queue.name)]

    async def _look(self, take: TakeMessage) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._take_left(take)
            except HandspanError as error:
                _log.debug("Messages of other nodes could not be looked for: %s", error)
            except Exception:  # a fault of ours must be seen, and the next look must come
                _log.exception("Messages of other nodes could not be looked for")

    async def _take_left(self, take: TakeMessage) -> None:
        before, self._left = self._left, set()
        for taken in await self._unanswered():
            name = _lease_of(taken)
            if name in self._held:
                continue
            if name not in before:
                self._left.add(name)
            elif await self.hold(taken):
                await take(taken)


def _lease_of(taken: InboxMessage) -> str:
    return f"message {taken.message.channel} {taken.message.id}"
