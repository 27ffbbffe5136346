"""All that the gateway does with channels: it listens, goes on after a restart, and takes signed requests."""

import asyncio
from collections.abc import Iterator
from typing import Final

from handspan.agent.sessions import Sessions
from handspan.channels.bus import ChannelQueue, MessageBus
from handspan.channels.supervisor import ChannelSupervisor
from handspan.channels.webhook import WebhookChannel
from handspan.core.channels import IncomingMessage, MessageTaken
from handspan.core.nodes import Nodes
from handspan.core.store import ChannelBook
from handspan.gateway.channels.chats import ChannelChats
from handspan.gateway.channels.held_messages import HeldMessages
from handspan.gateway.channels.inbox import ChannelInbox
from handspan.gateway.channels.questions import ChannelQuestions
from handspan.gateway.sessions.questions import AwaitedQuestions

_DRAIN_SECONDS: Final = 5.0


class ChannelDoor:
    """The way in for people on other networks."""

    def __init__(
        self, messages: MessageBus, book: ChannelBook, sessions: Sessions, questions: AwaitedQuestions, nodes: Nodes
    ) -> None:
        self.messages = messages
        self.book = book
        self._questions = ChannelQuestions(messages, questions, sessions.askers, nodes.bus)
        self._held = HeldMessages(messages, book, nodes)
        self._chats = ChannelChats(messages, book, sessions, self._questions, held=self._held)
        self.inbox = ChannelInbox(
            messages, book, sessions, self._chats, questions=self._questions, held=self._held, nodes=nodes
        )
        self._supervisor = ChannelSupervisor(messages, self.inbox, nodes)

    def __iter__(self) -> Iterator[ChannelQueue]:
        return iter(self.messages)

    async def open(self) -> None:
        """Go on with messages of an earlier process, and of nodes that are gone; then listen."""
        await self._held.open(self.inbox.recover)
        self._supervisor.open()

    async def stop(self) -> None:
        """Listen no more: the gateway stops. Answers that are on their way still go out."""
        await asyncio.gather(self._supervisor.close(), self._held.close())

    async def drain(self, seconds: float) -> None:
        """Wait so long for answers that are on their way, after the last turn has ended."""
        await self._chats.drain(min(seconds, _DRAIN_SECONDS))

    async def close(self) -> None:
        """Stop all work. What is not answered stays in the store."""
        await self.stop()
        await asyncio.gather(self._chats.close(), self._questions.close())

    def shows(self, session: str) -> bool:
        """Whether questions of this session are shown in a chat now."""
        return self._questions.shows(session)

    def find_webhook(self, name: str) -> WebhookChannel | None:
        """Return the channel of this name, if it takes signed requests."""
        queue = self.messages.find(name)
        channel = None if queue is None or not queue.settings.receive else queue.channel
        return channel if isinstance(channel, WebhookChannel) else None

    async def receive(self, message: IncomingMessage) -> MessageTaken:
        """Return what came of a message that was signed. Raises `ToolError` (`busy`) when too many wait."""
        return (await self.inbox.receive(message.channel, [message]))[0]
