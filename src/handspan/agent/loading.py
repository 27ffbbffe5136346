"""Loads conversations: an agent with its skills, its model and its messages (SPEC A1, A3)."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from msgspec import structs

from handspan.agent.budgets import Budgets
from handspan.agent.compaction.compactor import Compactor
from handspan.agent.compaction.meter import ContextMeter
from handspan.agent.conversation import Conversation, ReplyCosts, StoredLog, open_calls
from handspan.agent.instructions import DefaultInstructions
from handspan.agent.limits import TurnLimits
from handspan.agent.loop import Loop
from handspan.agent.session import Session
from handspan.core.agents import Agent, SkillTools, agent_in_session, limit_agent
from handspan.core.children import ASK_AGENT
from handspan.core.context import Progress, no_progress
from handspan.core.errors import ToolError
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.principals import Principal
from handspan.core.records import SessionRecord
from handspan.core.schedules import schedule_of
from handspan.core.store import Store
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.models.choice import Choice
from handspan.registry.registry import Registry
from handspan.skills.file import Skill
from handspan.skills.skills import Skills, build_instructions, tools_of_skills
from handspan.skills.use_skill import UseSkill, skills_switched_on

DescribeAgents: TypeAlias = Callable[[tuple[str, ...], str], Awaitable[str]]


class ActiveSkills(NamedTuple):
    """The skills that are on in a session."""

    skills: tuple[Skill, ...]
    """The skills of the session, and those that the model has switched on for the turn that is not over."""
    notes: tuple[str, ...]
    """Notes for the person, such as a skill that can't be used."""
    open_calls: frozenset[str]
    """The ids of the calls that the turn waits for."""


class ConversationLoader:
    """Loads conversations, and keeps their skills and instructions right."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        registry: Registry,
        skills: Skills,
        instructions: DefaultInstructions,
        compactor: Compactor,
        describe_agents: DescribeAgents,
        images_of: Callable[[str], ImageReader] | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """`describe_agents` returns what a model reads of the agents with these names, which it may ask."""
        self._store = store
        self._describe_agents = describe_agents
        self.contexts = store.contexts
        self.ledger = store.ledger
        self.compactor = compactor
        self._budgets = budgets
        self._registry = registry
        self._skills = skills
        self._instructions = instructions
        self._loaded: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self.loop = Loop(engine, store.ledger, images_of, compactor)
        registry.register_own(UseSkill(skills, self._use_skill))

    async def load(self, agent: Agent, choice: Choice, record: SessionRecord, who: Principal) -> Conversation:
        """Return the conversation of this session. Calls that an earlier process left open are closed first."""
        conversations = self._store.conversations
        if record.agent != agent.name:
            await conversations.choose_agent(record.id, agent.name, owner=who.owner)
        messages = await conversations.load(record.id, owner=who.owner)
        await self._skills.refresh()
        skills = _chosen_skills(record) if record.agent == agent.name else None
        meter = await self.compactor.make_meter(choice)
        conversation = self._conversation(record.id, agent, choice, who, meter=meter, messages=messages, skills=skills)
        conversation.removed = record.removed
        if record.compacted:
            conversation.use_marks(await self.contexts.marks(record.id, owner=who.owner), record.compacted)
        if record.state == "idle":  # a running turn belongs to another process, a waiting turn gets its results later
            await self.loop.close(conversation)
        if conversation.is_cut_off or open_calls(conversation.last):  # the turn may go on in this process
            self._use_for_turn(conversation, self._find_turn_skills(messages))
        return conversation

    async def change_agent(self, before: Conversation, agent: Agent, choice: Choice) -> Conversation:
        """Return the conversation with another agent and model. The messages stay."""
        session_id, who = before.id, before.caller.who
        conversations = self._store.conversations
        if agent.name != before.agent.name:
            await conversations.choose_agent(session_id, agent.name, owner=who.owner)
        await self._skills.refresh()
        record = await conversations.get(session_id, owner=who.owner)
        meter = await self.compactor.make_meter(choice)
        changed = self._conversation(
            session_id, agent, choice, who, meter=meter, messages=before.messages, skills=_chosen_skills(record)
        )
        changed.removed = before.removed
        changed.use_marks(before.marks, before.compacted)
        if _as_chosen(agent) == _as_chosen(before.agent):  # skills that were switched on stay on
            self._act_with(changed, before.skills)
            self._use_for_turn(changed, before.turn_skills)
        return changed

    def caller(
        self,
        agent: Agent,
        who: Principal,
        session_id: str,
        progress: Progress = no_progress,
        *,
        in_turn: bool = True,
        skill_tools: SkillTools | None = None,
    ) -> Caller:
        """Return a caller for calls in this session; `in_turn`: with the tools of the running turn."""
        agent = agent_in_session(agent, session_id)
        box = self._registry.toolbox(agent, who, session_id, in_turn=in_turn, skill_tools=skill_tools)
        return Caller(who, agent, box, session_id, progress=progress)

    async def active_skills(self, record: SessionRecord, agent: Agent) -> ActiveSkills:
        """Return the skills with which this agent acts in the session now. The session is not changed."""
        await self._skills.refresh()
        chosen = _chosen_skills(record) if record.agent == agent.name else None
        on, notes = self._skills.select(agent.skills if chosen is None else chosen)
        loaded = self._loaded.get(record.id)
        of_turn: tuple[Skill, ...] = ()
        messages = await self._store.conversations.load(record.id, owner=record.owner)
        last = messages[-1] if messages else None
        calls = last.calls if isinstance(last, AssistantMessage) else ()
        if loaded is not None:
            of_turn = loaded.turn_skills
        elif calls or (last is not None and not isinstance(last, AssistantMessage)):  # a turn that is not over
            of_turn = self._find_turn_skills(messages)
        skills = {skill.name: skill for skill in (*on, *of_turn)}
        return ActiveSkills(tuple(skills.values()), notes, frozenset(call.id for call in calls))

    async def limit(self, agent: Agent, message_id: str, owner: str) -> Agent:
        """Return the agent as it answers this message: a schedule's message limits it (SPEC J2).

        It may do nothing if the schedule is gone.
        """
        schedule_id = schedule_of(message_id)
        if not schedule_id:
            return agent
        schedule = await self._store.schedules.find(schedule_id, owner=owner)
        if schedule is None:
            return limit_agent(agent, (), "read_only")
        return limit_agent(agent, schedule.maker.tools, schedule.maker.mode)

    async def limit_in_session(self, agent: Agent, session: str, owner: str) -> Agent:
        """Return the agent as it acts in the last turn of this session."""
        conversations = self._store.conversations
        if not session or await conversations.find(session, owner=owner) is None:
            return agent
        messages = await conversations.load(session, owner=owner)
        asked = next((one.id for one in reversed(messages) if isinstance(one, UserMessage)), "")
        return await self.limit(agent, asked, owner)

    # Skills.

    async def prepare(self, conversation: Conversation) -> Conversation:
        """Return the same conversation, with the instructions of today and the list of skills in them."""
        # This is not done at loading: to read the skills takes longer than all the rest.
        if conversation.prepared_on != date.today():
            if conversation.prepared_on is not None:
                conversation.forget_projections()
            await self._skills.refresh()
            now = datetime.now().astimezone()
            agent, box = conversation.agent, conversation.caller.box
            text = await self._instructions.write(agent, box, now)
            if agent.may_ask and box.find(ASK_AGENT) is not None:
                text = f"{text}\n\n{await self._describe_agents(agent.may_ask, conversation.owner)}".lstrip()
            conversation.prepare(text, now.date())
            self._act_with(conversation, conversation.skills)
        return conversation

    async def switch_on(self, session: Session, name: str) -> None:
        """Switch on a skill from the next round on, until `switch_off`. Raises `ToolError` for an unusable skill."""
        await self._skills.refresh()
        conversation = conversation_of(session)
        await self._choose_skills(conversation, (*conversation.skills, self._skills.find(name)))

    async def switch_off(self, session: Session, name: str) -> None:
        """Switch off a skill from the next round on. Raises `ToolError` when the skill is not on."""
        conversation = conversation_of(session)
        left = tuple(skill for skill in conversation.skills if skill.name != name)
        if len(left) == len(conversation.skills):
            on = f"These are on: {', '.join(skill.name for skill in left)}." if left else "No skill is on."
            raise ToolError("invalid_arguments", f"The skill {name!r} is not on in this session. {on}")
        await self._choose_skills(conversation, left)

    async def _choose_skills(self, conversation: Conversation, skills: tuple[Skill, ...]) -> None:
        """Use these skills from now on, also when the session is loaded again."""
        names = list(dict.fromkeys(skill.name for skill in skills))
        await self._store.conversations.choose_skills(conversation.id, names, owner=conversation.owner)
        self._act_with(conversation, skills)
        conversation.forget_projections()

    async def _use_skill(self, session_id: str, skill: Skill) -> None:
        """Use a skill that the model switches on by the tool `use_skill`, until the turn ends."""
        conversation = self._loaded.get(session_id)
        if conversation is not None:
            self._use_for_turn(conversation, (*conversation.turn_skills, skill))

    def _use_for_turn(self, conversation: Conversation, skills: tuple[Skill, ...]) -> None:
        """Use also these skills until the turn ends. The model has their instructions from the results of its calls."""
        skills = tuple({skill.name: skill for skill in skills}.values())
        tools = tools_of_skills((*conversation.skills, *skills))
        agent, who = conversation.caller.agent, conversation.caller.who
        box = self._registry.toolbox(agent, who, conversation.id, in_turn=True, skill_tools=tools) if tools else None
        conversation.use_for_turn(skills, box)

    def _find_turn_skills(self, messages: Sequence[Message]) -> tuple[Skill, ...]:
        """Return the skills that the model switched on in the last turn, for a process that goes on with the turn."""
        names = skills_switched_on(messages)
        found = self._skills.select(names)[0] if names else ()
        return tuple(skill for skill in found if not skill.disable_model_invocation)

    def _act_with(self, conversation: Conversation, skills: tuple[Skill, ...]) -> None:
        """Use these skills. Their globs limit the toolbox, and their instructions follow the agent's (SPEC A3)."""
        conversation.skills = tuple({skill.name: skill for skill in skills}.values())
        text = build_instructions(conversation.own_instructions, conversation.skills, self._skills.usable_cached())
        agent = structs.replace(conversation.agent, instructions=text)
        tools = tools_of_skills(conversation.skills)
        conversation.caller = self.caller(agent, conversation.caller.who, conversation.id, skill_tools=tools)
        if conversation.turn_skills:
            self._use_for_turn(conversation, conversation.turn_skills)

    def _conversation(
        self,
        session_id: str,
        agent: Agent,
        choice: Choice,
        who: Principal,
        *,
        meter: ContextMeter,
        messages: Sequence[Message],
        skills: Sequence[str] | None = None,
    ) -> Conversation:
        """Return a new conversation. `skills` are on in place of the agent's own."""
        caller = self.caller(agent, who, session_id)
        costs = ReplyCosts(choice.price_for)
        log = StoredLog(self._store.conversations, who.owner, costs, self._budgets)
        limits = TurnLimits(agent.max_tool_iterations or None, agent.limits.repeats, agent.limits.failed_rounds)
        made = self._loaded[session_id] = Conversation(
            session_id,
            caller,
            choice.model,
            log,
            messages=messages,
            limits=limits,
            meter=meter,
            costs=costs,
        )
        if names := agent.skills if skills is None else skills:
            on, made.notes = self._skills.select(names)
            self._act_with(made, on)
        return made


def _as_chosen(agent: Agent) -> Agent:
    """Return the agent without what a turn that no person has begun makes of it."""
    return structs.replace(agent, mode="automatic", may_ask=(), unattended=None)


def _chosen_skills(record: SessionRecord) -> list[str] | None:
    """Return the names of the skills that a person left on in the session; None: the agent's own skills are on."""
    return None if record.skills is None else record.skills.splitlines()


def conversation_of(session: Session) -> Conversation:
    """Return the conversation of a loaded session."""
    assert session.conversation is not None
    return session.conversation
