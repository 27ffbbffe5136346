"""The way of the tool `message`: to which chats an owner's agents may write."""

from collections.abc import Sequence

from handspan.channels.bus import ChannelQueue, MessageBus, describe_unknown
from handspan.channels.page import EVERY_CLIENT
from handspan.core.channels import ANYONE, OutgoingMessage
from handspan.core.errors import ToolError
from handspan.core.schedules import TO_NOWHERE, TO_PAGE
from handspan.core.store import ChannelBook

_CHATS = {
    "page": f"{EVERY_CLIENT!r}, or a session id",
    "telegram": "the id of a chat that was paired",
    "webhook": "a chat of the program behind it",
    "apprise": "'default', or what its address takes",
}


class ChannelDelivery:
    """Sends messages of agents. On a network where anyone can write, such as Telegram, they go to known chats only."""

    def __init__(self, bus: MessageBus, book: ChannelBook) -> None:
        self._bus = bus
        self._book = book

    @property
    def missing(self) -> str:
        """Why no message can be sent; empty when a channel can be used."""
        return self._bus.problem

    @property
    def channels_text(self) -> str:
        """The channels and what a chat is in each, for the tool's description; empty without one."""
        usable = [f"{queue.name} (chat_id: {_CHATS[queue.kind]})" for queue in self._bus if not queue.problem]
        return f" Channels: {'; '.join(usable)}." if usable else ""

    async def send(self, message: OutgoingMessage) -> str:
        """Return when the channel has delivered it. Raises `ToolError` for unknown channels and chats."""
        queue = self._bus.find(message.channel)
        if queue is not None and queue.kind == "telegram" and message.chat_id not in queue.settings.allow:
            await self._check_chat(queue, message)
        return await self._bus.send(message)

    async def check(self, deliver: str, owner: str) -> None:
        """Raise `ToolError` if a schedule of this owner can't deliver there: `page`, `none` or `CHANNEL:CHAT`."""
        channel, _, chat = deliver.partition(":")
        if channel in (TO_PAGE, TO_NOWHERE):
            return
        queue, message = self._bus.find(channel), OutgoingMessage(channel, chat, "", owner)
        if queue is None or queue.settings.owner not in (owner, ANYONE):
            known = [one.name for one in self._bus if one.settings.owner in (owner, ANYONE)]
            raise ToolError("invalid_arguments", describe_unknown(channel, known))
        if queue.kind == "telegram" and chat not in queue.settings.allow:
            await self._check_chat(queue, message)

    def split(self, channel: str, content: str) -> Sequence[str]:
        """Return the parts in which this channel delivers a long message."""
        queue = self._bus.find(channel)
        return [content] if queue is None else queue.split(content)

    async def _check_chat(self, queue: ChannelQueue, message: OutgoingMessage) -> None:
        """Raise `ToolError` if the owner's agents may not write to this chat: no person of the owner is there."""
        is_others = queue.settings.owner not in (message.owner, ANYONE)  # the bus refuses these
        if ANYONE in queue.settings.allow or is_others:
            return
        senders = await self._book.senders(queue.name)
        known = [one.sender for one in senders if one.owner == message.owner]
        known += await self._book.chats(queue.name, owner=message.owner)
        if message.chat_id in known:
            return
        chats = ", ".join(dict.fromkeys([*known, *queue.settings.allow][:20])) or "none"
        raise ToolError(
            "policy_denied",
            f"The chat {message.chat_id[:60]!r} is not known on {queue.name!r}. The known ones: {chats}. The operator "
            f"pairs the person (handspan channels pair {queue.name} ID), or adds the chat to "
            f"channels.{queue.name}.allow.",
        )
