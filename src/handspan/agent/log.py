"""A session's messages in the store."""

import asyncio

from handspan.config.settings import ModelPrice
from handspan.core.messages import AssistantMessage, Message
from handspan.core.store import Conversations
from handspan.models.prices import cost, price_of


class StoredLog:
    """Keeps the messages of one owner's sessions, with what each reply cost where that is known."""

    def __init__(self, conversations: Conversations, owner: str, price: ModelPrice | None = None) -> None:
        self._conversations = conversations
        self._owner = owner
        self._price = price

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        """Kept for good when this is done; None when it is done with all else around it."""
        dollars = None
        if type(message) is AssistantMessage:
            dollars = cost(message.usage, price_of(message.model, self._price))
        return self._conversations.keep(session, message, owner=self._owner, after=after, cost=dollars)
