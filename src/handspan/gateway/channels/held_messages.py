"""Messages that this node answers. Of several nodes, one answers each; another one does when that one is gone."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from handspan.channels.bus import MessageBus
from handspan.core.channels import InboxMessage
from handspan.core.errors import HandspanError, StoreError
from handspan.core.nodes import Nodes
from handspan.core.store import ChannelBook
from handspan.core.tasks import Tasks

_LOOK_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)
TakeMessage: TypeAlias = Callable[[InboxMessage], Awaitable[None]]
"""Answers a message that another node has taken, and does not answer any more."""


class HeldMessages:
    """Says which node answers a message. A gateway alone answers all of them."""

    def __init__(self, messages: MessageBus, book: ChannelBook, nodes: Nodes) -> None:
        self._messages = messages
        self._book = book
        self._nodes = nodes
        self._held: set[str] = set()
        self._tasks = Tasks()

    async def open(self, take: TakeMessage) -> None:
        """Give `take` what is not answered: of an earlier process; of other nodes, when they are gone."""
        await self._take_left(take)
        self._tasks.start(self._look(take))

    async def close(self) -> None:
        """Take no more messages of other nodes."""
        await self._tasks.close()

    async def hold(self, entry: InboxMessage) -> bool:
        """Whether this node has to answer this message."""
        name = _lease_of(entry)
        if await self._nodes.work.hold(name):
            self._held.add(name)
            await self._nodes.follow(entry.owner)  # the devices of other nodes may be needed
        return name in self._held

    async def finish(self, entry: InboxMessage) -> None:
        """Note that this message is answered."""
        await self._book.set_state(entry.message.channel, entry.message.id, "done")
        await self.give_up([entry])

    async def give_up(self, messages: Iterable[InboxMessage]) -> None:
        """Leave these messages to another node, if they are not answered."""
        for name in map(_lease_of, messages):
            self._held.discard(name)
            with contextlib.suppress(StoreError):  # then it goes with this node
                await self._nodes.work.leave(name)

    async def _unanswered_messages(self) -> list[InboxMessage]:
        queues = [queue for queue in self._messages if not queue.problem]  # of others no answer could be delivered
        return [entry for queue in queues for entry in await self._book.unanswered_messages(queue.name)]

    async def _look(self, take: TakeMessage) -> None:
        while await self._nodes.pause(_LOOK_SECONDS):
            try:
                await self._take_left(take)
            except HandspanError as error:
                _log.debug("Messages of other nodes could not be looked for: %s", error)
            except Exception:  # a fault of ours must be seen, and the next look must come
                _log.exception("Messages of other nodes could not be looked for")

    async def _take_left(self, take: TakeMessage) -> None:
        """Take what no node holds."""
        left = {_lease_of(entry): entry for entry in await self._unanswered_messages()}
        for name in self._nodes.work.free([name for name in left if name not in self._held]):
            if await self.hold(left[name]):
                await take(left[name])


def _lease_of(entry: InboxMessage) -> str:
    return f"message {entry.message.channel} {entry.message.id}"
