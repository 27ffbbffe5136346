"""The messages of a session, and their projections for models (SPEC A2, M4)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Literal, Protocol, TypeAlias

from handspan.agent.limits import TurnCounts, TurnLimits
from handspan.agent.tools_in_use import ToolsInUse
from handspan.config.settings import ModelPrice
from handspan.core.events import TurnEnd
from handspan.core.finishing import finish
from handspan.core.messages import AssistantMessage, Message, UserMessage, check_all, check_next
from handspan.core.store import Conversations
from handspan.core.tool import ToolSpec
from handspan.engine.caller import Caller
from handspan.models.model import Model, Projection
from handspan.models.prices import cost, price_of
from handspan.registry.toolbox import Toolbox
from handspan.skills.file import Skill

Handover: TypeAlias = Literal["none", "after_step", "now", "if_waiting"]
"""Whether another process goes on with the turn: not, after the step that runs, or at once (the step is cancelled).

`if_waiting`: the step is cancelled; another process goes on with the turn only if some of its calls can wait.
"""


class Log(Protocol):
    """Stores messages. A returned future is done when the message is stored, even if the caller is cancelled."""

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        """Store a message, if the session has exactly `after` messages; otherwise it must not be stored."""
        ...


class NoLog:
    """Stores nothing: the conversation ends with the process."""

    def append(self, session: str, message: Message, after: int) -> None:
        """Do nothing."""


class Conversation:
    """The messages of one session, its agent and its model. New messages are appended to every projection."""

    def __init__(
        self,
        session_id: str,
        caller: Caller,
        model: Model,
        log: Log | None = None,
        messages: Sequence[Message] = (),
        limits: TurnLimits | None = None,
    ) -> None:
        """Begin with these messages. Raises `UnpairedCalls` when calls and results do not match."""
        check_all(messages)
        self.id = session_id
        self.caller = caller
        self.model = model
        self.limits = limits or TurnLimits()
        self.messages = list(messages)
        self.removed = 0
        """How many messages were removed so far. Another number in the store means that the messages differ."""
        self.ends: Mapping[int, TurnEnd] = {}
        """How turns ended, by the sequence numbers of their last messages, as far as this process knows."""
        self.counts = TurnCounts(messages)
        self.in_use = ToolsInUse(messages)
        self.agent = caller.agent
        """The agent without skills; `caller` has the agent with skills."""
        self.skills: tuple[Skill, ...] = ()
        self.turn_skills: tuple[Skill, ...] = ()
        """Skills that the model switched on. They are on until the turn ends."""
        self.turn_box: Toolbox | None = None
        """The toolbox while `turn_skills` limit it."""
        self.own_instructions = caller.agent.instructions
        """The instructions without skills: those of the agent, or those made from the live state (SPEC A5)."""
        self.prepared_on: date | None = None
        """The day on which the instructions were made; None before the first turn."""
        self.notes: tuple[str, ...] = ()
        """Notes for the person, such as a skill that can't be used."""
        self.inbox: list[UserMessage] = []
        """Messages that came while the model was at work; they join the turn at its next round."""
        self.on_stored: Callable[[Message], None] = ignore_stored
        """Is called with every message that was stored."""
        self.handover: Handover = "none"
        """Whether another process goes on with the turn that runs."""
        self._log = log or NoLog()
        self._projections: dict[str, Projection] = {}

    @property
    def owner(self) -> str:
        """The owner of the conversation."""
        return self.caller.who.owner

    @property
    def box(self) -> Toolbox:
        """The tools that the model may call now."""
        return self.turn_box or self.caller.box

    def end_turn_skills(self) -> None:
        """Switch off the skills that the model switched on: the turn is over (SPEC A3)."""
        self.turn_skills, self.turn_box = (), None

    @property
    def last(self) -> Message | None:
        """The last message."""
        return self.messages[-1] if self.messages else None

    @property
    def is_cut_off(self) -> bool:
        """Whether the model has not answered the last message."""
        return bool(self.messages) and not isinstance(self.last, AssistantMessage)

    def specs_for_model(self) -> tuple[ToolSpec, ...]:
        """Return the tools for the next request to the model. The model may call other tools by name, too (SPEC R4)."""
        return self.in_use.choose_specs(self.box, self.caller.box)

    def find_message(self, message_id: str) -> UserMessage | None:
        """Return the person's message of this id; None when there is none, or the id is empty."""
        messages = (message for message in reversed(self.messages) if isinstance(message, UserMessage))
        return next((message for message in messages if message.id == message_id), None) if message_id else None

    async def append(self, message: Message) -> None:
        """Store a message, then add it to every projection. Raises `UnpairedCalls` if it can't follow the last one."""
        check_next(self.last, message)
        storing = self._log.append(self.id, message, len(self.messages))
        if storing is not None:
            try:
                await finish(storing)
            except asyncio.CancelledError:  # the log stores the message all the same, so the conversation has it too
                storing.result()
                self._add(message)
                raise
        self._add(message)

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.counts.note(message)
        self.in_use.note(message)
        for projection in self._projections.values():
            projection.append(message)
        self.on_stored(message)

    def rewrite(self, messages: list[Message], removed: int) -> None:
        """Replace the messages by these, which the store has. `removed`: how many messages were removed so far."""
        self.messages = messages
        self.removed = removed
        self.ends = {}
        self.end_turn_skills()
        self.counts = TurnCounts(messages)
        self.in_use = ToolsInUse(messages)
        self.forget_projections()

    def forget_projections(self) -> None:
        """Drop the projections, because the instructions have changed."""
        self._projections.clear()

    def projection(self) -> Projection:
        """Return the conversation in the format of the session's model. It is made once; then messages are appended."""
        projection = self._projections.get(self.model.name)
        if projection is None:
            projection = self._projections[self.model.name] = self.model.projection(self.caller.agent.instructions)
            for message in self.messages:
                projection.append(message)
        return projection


def open_calls(last: Message | None) -> list[str]:
    """Return the names of the calls without results. `last`: the last message of the conversation."""
    return [call.name for call in last.calls] if isinstance(last, AssistantMessage) else []


def waits_for(calls: list[str]) -> str:
    """Return the message for a session that waits for these calls."""
    return f"The session waits for the outcome of {', '.join(calls)}: say it again later."


def ignore_stored(_: Message) -> None:
    """The `on_stored` of a conversation without a turn."""


class StoredLog:
    """Stores the messages of one owner's sessions, with the cost of each reply if the cost is known."""

    def __init__(self, conversations: Conversations, owner: str, price: ModelPrice | None = None) -> None:
        self._conversations = conversations
        self._owner = owner
        self._price = price

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        """Store a message. Return None when the store writes the message together with other changes."""
        dollars = None
        if isinstance(message, AssistantMessage):
            dollars = cost(message.usage, price_of(message.model, self._price))
        return self._conversations.keep(session, message, owner=self._owner, after=after, cost=dollars)
