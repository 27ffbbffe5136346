"""The message bus: takes messages to channels through bounded queues. It knows nothing of any network.

Not the `Bus` of `core/bus.py`: that one takes events between parts of the gateway, and may lose them.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from handspan.config.settings import ChannelSettings
from handspan.core.channels import ANYONE, ChannelKind, ChannelState, ChannelStatus, Inbox, OutgoingMessage
from handspan.core.errors import ConfigError, ToolError
from handspan.core.names import did_you_mean

_log = logging.getLogger(__name__)


class Channel(Protocol):
    """A way to write to people."""

    async def deliver(self, message: OutgoingMessage) -> str:
        """Deliver a message and return the channel's own id of it, if it has one. Raises `ToolError` if it fails."""


@runtime_checkable
class TwoWayChannel(Channel, Protocol):
    """A channel where people write, too."""

    async def listen(self, inbox: Inbox, note_up: Callable[[], None]) -> None:
        """Give the inbox what people write, until it is cancelled. Raises `ToolError` when the network is down.

        Calls `note_up` whenever the network has answered.
        """

    def split(self, content: str) -> Sequence[str]:
        """Return the parts of a long message, each short enough for one."""

    async def remove_buttons(self, chat_id: str, message_ref: str) -> None:
        """Remove the buttons of a message that `deliver` returned. Raises `ToolError` if it fails."""

    async def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class Checkable(Channel, Protocol):
    """A channel whose settings take long to check."""

    def check(self) -> None:
        """Raise `ConfigError` when the settings can't be used. May block."""


class Unsent(ToolError):
    """A message did not arrive, or its receiver would know it by its id: it may be sent again."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__("network_error", message)
        self.wait = wait
        """Seconds that the channel asks to wait; 0: it says nothing."""


class ChannelQueue:
    """One channel with its queue: messages are delivered one after another, in their order."""

    def __init__(self, name: str, kind: ChannelKind, settings: ChannelSettings, channel: "Channel | str") -> None:
        """`channel` is a text where there is none: why the settings can't be used."""
        self.name = name
        self.kind: ChannelKind = kind
        self.settings = settings
        self.channel: Channel | None = None if isinstance(channel, str) else channel
        self.problem = channel if isinstance(channel, str) else ""
        self.status: ChannelStatus = "failed" if self.problem else "ready"
        self.reason = self.problem
        self.delivered = 0
        self.received = 0
        self.retry_at: float | None = None
        """On the clock of the event loop."""
        self._queue: asyncio.Queue[tuple[OutgoingMessage, asyncio.Future[str]]] = asyncio.Queue(settings.queue)
        self._worker: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()
        self._is_checked = False

    @property
    def state(self) -> ChannelState:
        """Whether it works, and why not."""
        left = None if self.retry_at is None else max(0.0, self.retry_at - asyncio.get_running_loop().time())
        return ChannelState(self.kind, self.status, self.reason, self.delivered, received=self.received, retry_in=left)

    @property
    def listener(self) -> TwoWayChannel | None:
        """The channel, if people can write there."""
        return self.channel if self.settings.receive and isinstance(self.channel, TwoWayChannel) else None

    async def check(self) -> None:
        """Check settings that take long to check, on a thread and once. Returns when that is done."""
        async with self._checking:
            channel = self.channel
            if self._is_checked or not isinstance(channel, Checkable):
                return
            try:
                await asyncio.to_thread(channel.check)
            except ConfigError as error:
                self.channel, self.problem = None, str(error)
                self.status, self.reason = "failed", self.problem
            self._is_checked = True

    def split(self, content: str) -> Sequence[str]:
        """Return the parts in which the channel delivers this content; most channels take any in one."""
        return self.channel.split(content) if isinstance(self.channel, TwoWayChannel) else [content]

    def note_up(self) -> None:
        """Note that its network has answered: it listens."""
        if self.status != "listening":
            self.status, self.reason, self.retry_at = "listening", "", None

    def note_down(self, reason: str, seconds: float | None = None) -> None:
        """Note that it does not listen, and why. `seconds`: until the next try."""
        self.status, self.reason = "retrying", reason
        self.retry_at = None if seconds is None else asyncio.get_running_loop().time() + seconds

    def note_idle(self) -> None:
        """Note that it is in order, and another node listens."""
        self.status, self.reason, self.retry_at = "ready", "", None

    async def send(self, message: OutgoingMessage) -> str:
        """Return the channel's own id of the message when it is delivered. Raises `ToolError` if it is not."""
        if self.channel is None:
            raise ToolError("tool_not_available", f"The channel {self.name!r} can't be used: {self.problem}")
        delivery: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((message, delivery))
        except asyncio.QueueFull:
            text = f"outbound channel full (backpressure): {self._queue.maxsize} messages wait for {self.name!r}."
            raise ToolError("busy", f"{text} Try again later.") from None
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._deliver_all(self.channel))
        return await delivery

    async def close(self) -> None:
        """Stop. Messages that still wait are not delivered, and their senders get an error."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        while not self._queue.empty():
            _, delivery = self._queue.get_nowait()
            if not delivery.done():
                delivery.set_exception(ToolError("interrupted", "The gateway stops: the message was not sent."))
        channel, self.status = self.channel, "closed"
        if isinstance(channel, TwoWayChannel):
            await channel.close()

    async def _deliver_all(self, channel: Channel) -> None:
        """Deliver what waits. The task ends with the last message: a channel without messages has none."""
        while not self._queue.empty():
            message, delivery = self._queue.get_nowait()
            if not delivery.done():  # else its sender was cancelled while it waited
                await self._deliver(channel, message, delivery)

    async def _deliver(self, channel: Channel, message: OutgoingMessage, delivery: "asyncio.Future[str]") -> None:
        """Send one message, and give the outcome to the caller of `send`, who may wait no more."""
        try:
            reference = await channel.deliver(message)
        except asyncio.CancelledError:
            if not delivery.done():
                text = "The gateway stopped while the message was sent: it may have arrived."
                delivery.set_exception(ToolError("unknown_outcome", text))
            raise
        except ToolError as error:
            self.reason = f"The last message was not delivered: {error.message}"
            _settle(delivery, error)
        except Exception as error:  # an adapter's library: the queue goes on
            _log.exception("A message to the channel %r failed", self.name)
            self.reason = f"The last message was not delivered: {type(error).__name__}; the log says more."
            _settle(delivery, ToolError("execution_failed", f"{self.name!r}: {type(error).__name__}: {error}"))
        else:
            self.delivered += 1
            if self.status in ("ready", "listening"):  # else the reason is why it does not listen
                self.reason = ""
            if not delivery.done():
                delivery.set_result(reference)


class MessageBus:
    """All channels by name."""

    def __init__(self, queues: Mapping[str, ChannelQueue]) -> None:
        self._queues = dict(queues)

    def __iter__(self) -> Iterator[ChannelQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def problem(self) -> str:
        """Why no message can be sent; empty when a channel can be used."""
        if not self._queues:
            return "no channel is configured: the operator has to add one to the setting `channels`"
        if all(queue.problem for queue in self):
            problems = "; ".join(f"{queue.name}: {queue.problem.rstrip('.')}" for queue in self)
            return f"no channel can be used ({problems})"
        return ""

    def find(self, name: str) -> ChannelQueue | None:
        """Return the channel of this name."""
        return self._queues.get(name)

    async def send(self, message: OutgoingMessage) -> str:
        """Return when the channel has delivered it. Raises `ToolError`; for an unknown channel it lists the others."""
        queue = self._queues.get(message.channel)
        if queue is None or queue.settings.owner not in (message.owner, ANYONE):
            known = [one.name for one in self if one.settings.owner in (message.owner, ANYONE)]
            raise ToolError("invalid_arguments", describe_unknown(message.channel, known))
        return await queue.send(message)

    async def check(self) -> None:
        """Check the settings of all channels, also those that take long to check."""
        await asyncio.gather(*(queue.check() for queue in self))

    async def close(self) -> None:
        """Stop all channels."""
        for queue in self:
            await queue.close()


def describe_unknown(name: str, known: Sequence[str]) -> str:
    """Return the error for a channel that is not there; it lists those that are."""
    listed = f"The channels are: {', '.join(known)}." if known else "There is none: the setting `channels` adds one."
    return f"There is no channel {name[:60]!r}.{did_you_mean(name, known)} {listed}"


def _settle(delivery: "asyncio.Future[str]", error: ToolError) -> None:
    if not delivery.done():
        delivery.set_exception(error)
