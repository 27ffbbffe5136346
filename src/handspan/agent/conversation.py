"""The messages of a session, and their projections for models (SPEC A2, M4)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

from handspan.agent.budgets import Budgets
from handspan.agent.compaction.meter import ContextMeter, Window
from handspan.agent.compaction.view import visible
from handspan.agent.limits import TurnCounts, TurnLimits
from handspan.agent.tools_in_use import ToolsInUse
from handspan.config.settings import ModelPrice
from handspan.core.bounded import BoundedDict
from handspan.core.budgets import Settlement
from handspan.core.events import TurnEnd
from handspan.core.messages import AssistantMessage, Message, UserMessage, check_all, check_next
from handspan.core.records import ContextMarks
from handspan.core.store import Conversations
from handspan.core.tasks import finish
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


_MOST_PROJECTIONS: Final = 4


class Log(Protocol):
    """Stores messages. A returned future is done when the message is stored, even if the caller is cancelled."""

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        """Store a message, if the session has exactly `after` messages; otherwise it must not be stored."""
        ...


class Conversation:
    """The messages of one session, its agent and its model. New messages are appended to every projection."""

    def __init__(
        self,
        session_id: str,
        caller: Caller,
        model: Model,
        log: Log,
        messages: Sequence[Message] = (),
        limits: TurnLimits | None = None,
        meter: ContextMeter | None = None,
        costs: "ReplyCosts | None" = None,
    ) -> None:
        """Begin with these messages. Raises `UnpairedCalls` when calls and results do not match.

        `meter`: of the model's context; without it the context has no limit.
        """
        check_all(messages)
        self.id = session_id
        self.caller = caller
        self.model = model
        self.own_model = model
        """The model without the wishes of a client, which `model` has while its turn runs."""
        self.limits = limits or TurnLimits()
        self.messages = list(messages)
        self.removed = 0
        """How many messages were removed so far. Another number in the store means that the messages differ."""
        self.meter = meter or ContextMeter(None, Window(None))
        self.costs = costs or ReplyCosts()
        """What the model's replies cost."""
        self.marks = ContextMarks()
        """What the model sees in place of all messages."""
        self.compacted = 0
        """How often the marks have moved so far. Another number in the store means that they differ."""
        self.shown_tools: int | None = None
        """So many tools are sent to the model in place of `tools.shown`, whose context is too small for them."""
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
        self._log = log
        self.added_instructions = ""
        """Instructions that a client lays on top of the agent's, while its turn runs (SPEC F2)."""
        self._projections: BoundedDict[tuple[type, str, str], Projection] = BoundedDict(_MOST_PROJECTIONS)
        """By the model's class and name, and the added instructions."""

    @property
    def owner(self) -> str:
        """The owner of the conversation."""
        return self.caller.who.owner

    @property
    def box(self) -> Toolbox:
        """The tools that the model may call now."""
        return self.turn_box or self.caller.box

    @property
    def instructions(self) -> str:
        """What the model reads first: the instructions of the agent with its skills, and those that were added."""
        return "\n\n".join(filter(None, (self.caller.agent.instructions, self.added_instructions)))

    def prepare(self, own_instructions: str, day: date) -> None:
        """Use these instructions, which were made on this day."""
        self.own_instructions, self.prepared_on = own_instructions, day

    def use_for_turn(self, skills: tuple[Skill, ...], box: Toolbox | None) -> None:
        """Use these skills until the turn ends. `box`: the toolbox if they limit it."""
        self.turn_skills, self.turn_box = skills, box

    def end_turn_skills(self) -> None:
        """Switch off the skills that the model switched on: the turn is over (SPEC A3)."""
        self.use_for_turn((), None)

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
        if self.shown_tools is None:
            return self.in_use.choose_specs(self.box, self.caller.box)
        return self.in_use.choose_specs(self.box.narrow(self.shown_tools), self.caller.box.narrow(self.shown_tools))

    def send_fewer_tools(self, shown: int) -> None:
        """Send so many tools to the model from now on, as with a smaller `tools.shown`."""
        self.shown_tools = shown

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
        self.meter.note(message, len(self.messages))
        for projection in self._projections.values():
            projection.append(message)
        self.on_stored(message)

    def use_marks(self, marks: ContextMarks, compacted: int) -> None:
        """Show the model what these marks leave. `compacted`: how often they have moved so far."""
        self.marks, self.compacted = marks, compacted
        self.meter.forget_count()
        self.forget_projections()

    def rewrite(self, messages: list[Message], removed: int, marks: ContextMarks) -> None:
        """Replace the messages by these, which the store has. `removed`: how many messages were removed so far.

        `marks`: those of these messages.
        """
        self.messages = messages
        self.meter = self.meter.renewed()
        self.marks = marks
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
        """Return the conversation in the format of the session's model, as its marks show it.

        It is made once; then messages are appended, until the marks move.
        """
        key = (type(self.model), self.model.name, self.added_instructions)
        projection = self._projections.get(key)
        if projection is None:
            projection = self._projections[key] = self.model.projection(self.instructions)
            for message in visible(self.messages, self.marks):
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


class ReplyCosts:
    """What replies cost, each by the price of the model that answered."""

    def __init__(self, price_for: Callable[[AssistantMessage], ModelPrice | None] = lambda _: None) -> None:
        """`price_for` returns the price that the settings give to the model of a reply."""
        self._price_for = price_for
        self._last: tuple[AssistantMessage | None, float | None] = (None, None)
        """The last reply with its cost: an event tells it, and then the reply is stored with it."""

    def of(self, reply: AssistantMessage) -> float | None:
        """Return the cost of this reply in US dollars; None when it is not known."""
        if self._last[0] is not reply:
            self._last = reply, cost(reply.usage, price_of(reply.model, self._price_for(reply), reply.usage))
        return self._last[1]


class StoredLog:
    """Stores the messages of one owner's sessions, with the cost of each reply if the cost is known."""

    def __init__(
        self,
        conversations: Conversations,
        owner: str,
        costs: ReplyCosts | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        self._conversations = conversations
        self._owner = owner
        self._costs = costs or ReplyCosts()
        self._budgets = budgets

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        """Store a message. Return None when the store writes the message together with other changes."""
        dollars: float | None = None
        settles: tuple[Settlement, ...] = ()
        if isinstance(message, AssistantMessage):
            dollars = self._costs.of(message)
            settles = () if self._budgets is None else self._budgets.take(session)
        storing = self._conversations.keep(
            session, message, owner=self._owner, after=after, cost=dollars, settles=settles
        )
        if settles and storing is not None and self._budgets is not None:
            storing.add_done_callback(partial(self._budgets.note_stored, settles))
        return storing
