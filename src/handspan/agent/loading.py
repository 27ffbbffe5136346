"""Loads conversations: an agent with its skills, its model and its messages (SPEC A1, A3)."""

from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

from msgspec import structs

from handspan.agent.conversation import Conversation, StoredLog
from handspan.agent.limits import TurnLimits
from handspan.agent.loop import Loop
from handspan.agent.queue import PATIENCE, Tasks
from handspan.agent.session import Session
from handspan.agent.stored_turns import StoredTurns
from handspan.core.agents import Agent
from handspan.core.bus import Bus
from handspan.core.context import Progress, no_progress
from handspan.core.errors import ToolError
from handspan.core.images import ImageReader
from handspan.core.messages import Message
from handspan.core.principals import BUILTIN, OPERATOR, Principal
from handspan.core.records import SessionRecord, Total, UsageSum
from handspan.core.store import Store
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.models.choice import Choice
from handspan.registry.registry import Registry
from handspan.skills.file import Skill
from handspan.skills.skills import Skills, allowed_globs, build_instructions
from handspan.skills.use_skill import UseSkill

LAST: Final = "last"
"""In place of an id: the owner's last active session."""


class ConversationLoader:
    """Loads conversations. Also hosts the sessions of a program that chooses agent and model itself."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        registry: Registry,
        skills: Skills,
        images_of: Callable[[str], ImageReader] | None = None,
    ) -> None:
        self._store = store
        self._registry = registry
        self._skills = skills
        self._loaded: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self.loop = Loop(engine, store.ledger, images_of)
        self.stored_turns = StoredTurns(store.conversations, self.loop)
        self.bus: Bus | None = None
        self.tasks = Tasks()
        self.patience = PATIENCE
        self.is_open = True
        registry.register(UseSkill(skills, self._use_skill), BUILTIN)

    async def find(self, session_id: str, who: Principal = OPERATOR) -> SessionRecord:
        """Returns the record of this session, or of the last one. Raises `ToolError` when there is none."""
        conversations = self._store.conversations
        if session_id != LAST:
            return await conversations.get(session_id, owner=who.owner)
        page = await conversations.page(owner=who.owner, limit=1)
        if not page.sessions:
            raise ToolError("file_not_found", "There is no session yet to go on with: begin one.")
        return page.sessions[0]

    async def begin(
        self, agent: Agent, choice: Choice, record: SessionRecord | None = None, who: Principal = OPERATOR
    ) -> Session:
        """Returns a new session, or that of the record, with this agent and model until `change_agent` is called."""
        if record is None:
            record = await self._store.conversations.create(owner=who.owner, agent=agent.name)
        session = Session(record.id, who.owner, self)
        session.conversation = await self.load(agent, choice, record, who)
        return session

    async def load(self, agent: Agent, choice: Choice, record: SessionRecord, who: Principal) -> Conversation:
        """Returns the conversation of this session. Calls that an earlier process left open are closed first."""
        conversations = self._store.conversations
        if record.agent != agent.name:
            await conversations.choose_agent(record.id, agent.name, owner=who.owner)
        messages = await conversations.load(record.id, owner=who.owner)
        await self._skills.refresh()
        conversation = self._conversation(record.id, agent, choice, who, messages)
        conversation.removed = record.removed
        if record.state == "idle":  # a running turn belongs to another process, a waiting one gets its results later
            await self.loop.close(conversation)
        return conversation

    async def change_agent(self, session: Session, agent: Agent, choice: Choice) -> Conversation:
        """Give the session another agent and model. Its messages stay."""
        before = conversation_of(session)
        who = before.caller.who
        await self._store.conversations.choose_agent(session.id, agent.name, owner=who.owner)
        await self._skills.refresh()
        changed = self._conversation(session.id, agent, choice, who, before.messages)
        changed.removed = before.removed
        if agent == before.agent:  # only the model has changed: skills that a person switched on stay on
            self._act_with(changed, before.skills)
        session.conversation = changed
        return changed

    async def usage(self, session: Session) -> list[str]:
        """Returns the usage of the session, one line for each model."""
        sums = await self._store.usage.sums("model", owner=session.owner, session=session.id)
        return usage_lines(sums)

    def caller(
        self,
        agent: Agent,
        who: Principal,
        session_id: str,
        progress: Progress = no_progress,
        *,
        in_turn: bool = True,
        skill_tools: tuple[str, ...] | None = None,
    ) -> Caller:
        """Returns a caller for calls in this session; `in_turn`: with the tools of the running turn."""
        box = self._registry.toolbox(agent, who, session_id, in_turn=in_turn, skill_tools=skill_tools)
        return Caller(who, agent, box, session_id, progress)

    # Sessions that a program has begun itself.

    async def open(
        self, session: Session, who: Principal, *, agent: str = "", name: str = ""
    ) -> tuple[Conversation, SessionRecord]:
        """Returns the loaded conversation, ready for a turn."""
        record = await self._store.conversations.get(session.id, owner=session.owner)
        return await self.prepare(conversation_of(session)), record

    async def reopen(self, session: Session, who: Principal | None = None) -> Conversation | None:
        """Returns the loaded conversation, ready for a turn."""
        return await self.prepare(conversation_of(session))

    def release(self, session: Session) -> None:
        """Do nothing: the program holds the session."""

    # Skills.

    async def prepare(self, conversation: Conversation) -> Conversation:
        """Returns the same conversation, with the list of skills in its instructions."""
        if not conversation.knows_skills:  # not at loading: reading the skills takes longer than all the rest
            await self._skills.refresh()
            self._act_with(conversation, conversation.skills)
        return conversation

    async def switch_on(self, session: Session, name: str) -> None:
        """Switch on a skill from the next round on. Raises `ToolError` when it can't be used."""
        await self._skills.refresh()
        conversation = conversation_of(session)
        self._act_with(conversation, (*conversation.skills, self._skills.find(name)))
        conversation.forget_projections()

    async def _use_skill(self, session_id: str, skill: Skill) -> None:
        conversation = self._loaded.get(session_id)
        if conversation is not None:  # the call's result already has the skill's instructions
            self._act_with(conversation, (*conversation.skills, skill))

    def _act_with(self, conversation: Conversation, skills: tuple[Skill, ...]) -> None:
        """Use these skills. SPEC A3: their globs limit the toolbox; their instructions follow the agent's."""
        conversation.knows_skills = True
        conversation.skills = tuple({skill.name: skill for skill in skills}.values())
        text = build_instructions(conversation.agent, conversation.skills, self._skills.usable_cached())
        agent = structs.replace(conversation.agent, instructions=text)
        globs = allowed_globs(conversation.skills)
        conversation.caller = self.caller(agent, conversation.caller.who, conversation.id, skill_tools=globs)

    def _conversation(
        self, session_id: str, agent: Agent, choice: Choice, who: Principal, messages: Sequence[Message]
    ) -> Conversation:
        caller = self.caller(agent, who, session_id)
        log = StoredLog(self._store.conversations, who.owner, choice.price)
        limits = TurnLimits(rounds=agent.max_tool_iterations or None)
        made = self._loaded[session_id] = Conversation(session_id, caller, choice.model, log, messages, limits)
        if agent.skills:
            on, made.notes = self._skills.select(agent.skills)
            self._act_with(made, on)
        return made


def conversation_of(session: Session) -> Conversation:
    """Returns the conversation of a loaded session."""
    assert session.conversation is not None
    return session.conversation


def usage_lines(sums: Sequence[UsageSum]) -> list[str]:
    """Returns one line of text for each sum."""
    return [
        f"{one.of}: {one.replies} {'reply' if one.replies == 1 else 'replies'}, {_render_total(one.input)} tokens in, "
        f"{_render_total(one.output)} out, cost {_render_total(one.cost, '.4f', ' USD')}"
        for one in sums
    ] or ["nothing yet"]


def _render_total(total: Total, form: str = ".0f", unit: str = "") -> str:
    """Returns the sum as text. Unknown amounts are never counted as 0 (SPEC M6)."""
    if total.known is None:
        return "unknown"
    return f"{'at least ' if total.unknown else ''}{total.known:{form}}{unit}"
