"""Listens on the channels that people write to, and again after each failure, more and more slowly.

Of several nodes, one listens to each channel: a network as Telegram gives each message to one listener (SPEC K5).
"""

import asyncio
import contextlib
import logging
import random
from functools import partial
from typing import Final

from handspan.channels.bus import ChannelQueue, MessageBus, TwoWayChannel, Unsent
from handspan.core.channels import Inbox
from handspan.core.errors import StoreError, ToolError
from handspan.core.nodes import Nodes
from handspan.core.tasks import Tasks

_FIRST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 60.0
_GOOD_SECONDS: Final = 60.0
"""After so long without a failure the next one is waited for as briefly as the first."""
_log = logging.getLogger(__name__)


class ChannelSupervisor:
    """Owns one task for each channel that listens."""

    def __init__(self, bus: MessageBus, inbox: Inbox, nodes: Nodes) -> None:
        """`nodes`: one of them listens to each channel."""
        self._bus = bus
        self._nodes = nodes
        self._inbox = inbox
        self._tasks = Tasks()

    def open(self) -> None:
        """Begin to listen."""
        for queue in self._bus:
            self._tasks.start(self._check(queue))
            if queue.listener is not None:
                queue.note_down("It has not answered yet.")
                self._tasks.start(self._listen(queue, queue.listener))

    async def close(self) -> None:
        """Listen no more, and let another node do it."""
        was_open = len(self._tasks) > 0
        await self._tasks.close()
        if was_open:
            for queue in self._bus:
                with contextlib.suppress(StoreError):  # then it goes with this node
                    await self._nodes.work.leave(_lease_of(queue))

    async def _check(self, queue: ChannelQueue) -> None:
        await queue.check()
        if queue.problem:
            _log.warning("The channel %r can't be used: %s", queue.name, queue.problem)

    async def _listen(self, queue: ChannelQueue, channel: TwoWayChannel) -> None:
        """Listen on this channel without end. After a failure wait, each time twice as long, and listen again."""
        loop, wait = asyncio.get_running_loop(), _FIRST_SECONDS
        while True:
            began = loop.time()
            try:
                listen = partial(channel.listen, self._inbox, queue.note_up)
                if not await self._nodes.work.do_once(_lease_of(queue), listen, queue.note_idle):
                    continue  # another node listens by now
                error = ToolError("network_error", "The channel ended.")
            except ToolError as failed:
                error = failed
            except Exception as failed:  # an adapter's fault must not end the channel for good
                _log.exception("The channel %r failed", queue.name)
                error = ToolError("internal_error", f"{type(failed).__name__}: {failed}")
            if loop.time() - began >= _GOOD_SECONDS:
                wait = _FIRST_SECONDS
            await self._pause(queue, error, wait)
            wait = min(2 * wait, _MOST_SECONDS)

    async def _pause(self, queue: ChannelQueue, error: ToolError, wait: float) -> None:
        asked = error.wait if isinstance(error, Unsent) else 0.0
        seconds = max(asked, wait * random.uniform(0.75, 1.25))
        if queue.reason != error.message:  # once for each reason, however long it lasts
            _log.warning("The channel %r is down: %s", queue.name, error.message)
        queue.note_down(error.message, seconds)
        await asyncio.sleep(seconds)


def _lease_of(queue: ChannelQueue) -> str:
    return f"channel {queue.name}"
