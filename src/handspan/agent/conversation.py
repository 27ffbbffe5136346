"""What was said in a session, and its projections in the words of the models it talks to (SPEC A2, M4)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from handspan.agent.limits import TurnCounts, TurnLimits
from handspan.config.settings import ModelPrice
from handspan.core.messages import AssistantMessage, Message, UserMessage, check_all, check_next
from handspan.core.store import Conversations
from handspan.engine.caller import Caller
from handspan.models.model import Model, Projection
from handspan.models.prices import cost, price_of
from handspan.skills.file import Skill


class Log(Protocol):
    """Where messages are kept: at once, or when what it gives was awaited. It is on its way even if nobody waits."""

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        """`after`: so many come before it; where there are not so many, it must not be kept."""
        ...


class NoLog:
    """Keeps nothing: a conversation that ends with the process."""

    def append(self, session: str, message: Message, after: int) -> None:
        """Nothing to do."""


class Conversation:
    """The messages of one session, its agent and its model. Every projection grows with the messages."""

    def __init__(
        self,
        session_id: str,
        caller: Caller,
        model: Model,
        log: Log | None = None,
        messages: Sequence[Message] = (),
        limits: TurnLimits | None = None,
    ) -> None:
        """A conversation that goes on from these messages; `UnpairedCalls` when they can't be one."""
        check_all(messages)
        self.id = session_id
        self.caller = caller
        self.model = model
        self.limits = limits or TurnLimits()
        self.messages = list(messages)
        self.removed = 0
        """How many messages it has lost so far. Where the store says another number, it is not the same any more."""
        self.counts = TurnCounts(messages)
        self.agent = caller.agent
        """The agent as it is without skills; `caller` acts as it is with them."""
        self.skills: tuple[Skill, ...] = ()
        self.knows_skills = False
        """Whether the instructions tell what skills there are."""
        self.notes: tuple[str, ...] = ()
        """What a person should know, such as a skill that can't be used."""
        self.inbox: list[UserMessage] = []
        """What a person said while the model was at work; it joins at the next round."""
        self.on_stored: Callable[[Message], None] = _ignore
        """Called with every message when it is stored."""
        self._log = log or NoLog()
        self._projections: dict[str, Projection] = {}

    @property
    def owner(self) -> str:
        """Whose conversation it is."""
        return self.caller.who.owner

    @property
    def last(self) -> Message | None:
        """The last message."""
        return self.messages[-1] if self.messages else None

    @property
    def is_cut_off(self) -> bool:
        """Whether the model has not answered the last message."""
        return bool(self.messages) and type(self.last) is not AssistantMessage

    def find_message(self, message_id: str) -> UserMessage | None:
        """What was said under this id, if it is part of the conversation."""
        said = (message for message in reversed(self.messages) if type(message) is UserMessage)
        return next((message for message in said if message.id == message_id), None) if message_id else None

    async def append(self, message: Message) -> None:
        """Add a message: kept first, then part of every projection. `UnpairedCalls` when it must not stand here."""
        check_next(self.last, message)
        keeping = self._log.append(self.id, message, len(self.messages))
        if keeping is not None:
            try:
                await asyncio.shield(keeping)
            except asyncio.CancelledError:  # it is on its way: what the log keeps is part of the conversation here too
                await keeping
                self._take(message)
                raise
        self._take(message)

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        self.counts.note(message)
        for projection in self._projections.values():
            projection.append(message)
        self.on_stored(message)

    def rewrite(self, messages: list[Message], removed: int) -> None:
        """Go on from these messages: the store has others than we know."""
        self.messages = messages
        self.removed = removed
        self.counts = TurnCounts(messages)
        self.forget_projections()

    def forget_projections(self) -> None:
        """Let the next request be written anew: the instructions have changed."""
        self._projections.clear()

    def projection(self) -> Projection:
        """The conversation in the words of the session's model; made once, then appended to."""
        projection = self._projections.get(self.model.name)
        if projection is None:
            projection = self._projections[self.model.name] = self.model.projection(self.caller.agent.instructions)
            for message in self.messages:
                projection.append(message)
        return projection


def open_calls(last: Message | None) -> list[str]:
    """The names of the calls that have no results yet, where this is the last message."""
    return [call.name for call in last.calls] if isinstance(last, AssistantMessage) else []


def waits_for(calls: list[str]) -> str:
    """Why nothing can be said now."""
    return f"The session waits for the outcome of {', '.join(calls)}: say it again later."


def _ignore(_: Message) -> None:
    """For a conversation without a turn."""


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
