"""Which nodes may send messages, and which of their messages came before: a recorded message counts once (SPEC K).

A message names the incarnation of its sender, and a number that grows with every message of that sender. The messages
of one subject come in the order of their numbers, except when a connection is made anew. So each subscription has, for
each sender, the highest number that came and a window below it. A sender is known when the database has its row: an
incarnation without a row is over for ever.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Final

from handspan.core.bounded import BoundedDict
from handspan.core.errors import StoreError
from handspan.core.nodes import MessageSender

WINDOW: Final = 1024
"""How far below the highest number a number may be that has not come yet."""
_ALL_CAME: Final = (1 << WINDOW) - 1
_PLAIN_SECONDS: Final = 10.0
"""Seconds for which messages without a number still count after the last node that sends such has left."""
_MAX_ENDED: Final = 1024
_MAX_WAITING: Final = 4096
"""Messages that may wait until the database has said who their sender is. Further ones are lost."""
_log = logging.getLogger(__name__)


class _Window:
    """The numbers of one sender that have come, on one subject."""

    __slots__ = ("_came", "_highest")

    def __init__(self, highest: int) -> None:
        self._highest = highest
        self._came = 0
        """A bit for each number of the window; the lowest bit is the highest number."""

    def add(self, number: int) -> bool:
        """Note that this number has come. Return False if it came before, or is below the window."""
        ahead = number - self._highest
        if ahead > 0:
            self._highest = number
            self._came = (self._came << ahead | 1) & _ALL_CAME if ahead < WINDOW else 1
            return True
        bit = 1 << -ahead if ahead > -WINDOW else 0
        if not bit or self._came & bit:
            return False
        self._came |= bit
        return True


class Senders:
    """The nodes whose messages count."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, MessageSender]]]) -> None:
        """`read` returns the nodes that the database has, by their incarnations. It raises `StoreError`."""
        self._read = read
        self.highest: dict[bytes, int] = {}
        """For each known sender, the highest number that came on any subject, or that the database had."""
        self.first: dict[bytes, int] = {}
        """For each known sender, the number that the database had when the sender became known."""
        self._ended: BoundedDict[bytes, None] = BoundedDict(_MAX_ENDED)
        self._plain_until = 0.0
        self.uses_numbers = True
        """Whether every node understands messages with a number."""
        self._order = asyncio.Lock()
        self._waiting: list[tuple[bytes, Callable[[], None]]] = []
        """Messages of senders that are not known yet, in their order: each sender, and what takes the message."""
        self._looking: asyncio.Task[None] | None = None
        self.refused = 0
        """Messages of senders that are over, or that are not known."""

    @property
    def takes_plain(self) -> bool:
        """Whether messages without a number count: a node of an older version is there, or was there just now."""
        return not self.uses_numbers or time.monotonic() < self._plain_until

    async def look(self) -> None:
        """Read which nodes there are. Raises `StoreError`."""
        async with self._order:  # an answer that was read earlier must not replace a later one
            asked_for = {sender for sender, _ in self._waiting}
            found = {node.encode(): sender for node, sender in (await self._read()).items()}
            for gone in self.highest.keys() - found.keys():
                del self.highest[gone], self.first[gone]
            for node in found.keys() - self.highest.keys():
                self.highest[node] = self.first[node] = found[node].sent
        self.uses_numbers = all(sender.is_numbered for sender in found.values())
        if not self.uses_numbers:
            self._plain_until = time.monotonic() + _PLAIN_SECONDS
        self._take_waiting(asked_for)

    def look_for(self, sender: bytes, take: Callable[[], None]) -> None:
        """Call `take` as soon as the database says that this sender is there; never, if the sender is over."""
        if sender in self._ended or len(self._waiting) >= _MAX_WAITING:
            self.refused += 1
            return
        self._waiting.append((sender, take))
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_now())

    async def close(self) -> None:
        """Look for no more senders."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look_now(self) -> None:
        """Look for the senders of the messages that wait, until none waits."""
        try:
            while self._waiting:
                await self.look()
        except StoreError as error:  # what waits is lost; the next message of this sender asks again
            _log.debug("Messages of another node were lost: %s", error)
            self.refused += len(self._waiting)
            self._waiting.clear()
        finally:
            self._looking = None

    def _take_waiting(self, asked_for: Set[bytes]) -> None:
        """Take the messages of senders that are known now, before later ones come. Refuse those of senders that were
        asked for and are not there; a sender that came while the database was read is asked for again."""
        waiting, self._waiting = self._waiting, []
        for sender, take in waiting:
            if sender in self.highest:
                take()
            elif sender in asked_for:
                self.refused += 1
                self._ended[sender] = None
            else:
                self._waiting.append((sender, take))


class ReceivedNumbers:
    """The numbers of all senders that have come on one subject."""

    __slots__ = ("_before", "_senders", "_windows")

    def __init__(self, senders: Senders) -> None:
        self._senders = senders
        self._before = dict(senders.highest)
        """The highest numbers from before the subscription: what is older than the window below them is refused.

        What lies in the window may still be on its way, so it counts, once.
        """
        self._windows: dict[bytes, _Window] = {}

    def add(self, sender: bytes, number: int) -> bool:
        """Note a message of a known sender. Return False if it came before, or is too old."""
        window = self._windows.get(sender)
        if window is None:
            window = self._begin(sender)
        if number > self._senders.highest[sender]:
            self._senders.highest[sender] = number
        return window.add(number)

    def _begin(self, sender: bytes) -> _Window:
        for gone in self._windows.keys() - self._senders.highest.keys():
            del self._windows[gone]
        first = self._before.pop(sender, None)
        window = self._windows[sender] = _Window(self._senders.first.get(sender, 0) if first is None else first)
        return window
