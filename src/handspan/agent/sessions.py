"""The sessions of this process: finds, makes, loads and releases them (SPEC A1, A2).

There is one `Session` for each id while a turn or a listener needs it. The conversations used last stay loaded.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct, structs

from handspan.agent.agents import Agents
from handspan.agent.askers import Askers
from handspan.agent.compaction.compactor import ContextParts
from handspan.agent.conversation import Conversation, open_calls
from handspan.agent.loading import ConversationLoader
from handspan.agent.opening import MAX_NAME, ChooseModel, SessionOpening
from handspan.agent.refusals import GatewayStops, SessionRefused, TurnRefused
from handspan.agent.session import Session
from handspan.agent.stored_turns import WAIT_SECONDS, StoredTurns
from handspan.agent.turn_events import QuestionOver, SessionEvent
from handspan.agent.unstored import UnstoredSessions, new_record
from handspan.core.agents import Agent
from handspan.core.bounded import BoundedDict
from handspan.core.bus import Bus, QuestionEnded, QuestionOpened
from handspan.core.children import asking_call
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.events import ContextUse, QuestionAsked, TurnEnd
from handspan.core.messages import Message, UserMessage
from handspan.core.nodes import Nodes
from handspan.core.principals import Principal
from handspan.core.records import SessionEdit, SessionKind, SessionRecord
from handspan.core.schedules import schedule_of
from handspan.core.store import Conversations
from handspan.core.tasks import Tasks
from handspan.core.titles import shorten
from handspan.models.choice import Choice

_MAX_LOADED: Final = 64
_TIDY_SECONDS: Final = 10.0
_log = logging.getLogger(__name__)


class Bound(Struct, frozen=True):
    """A session that a client may use. A new session is stored with its first message."""

    session_id: str
    message_count: int
    name: str
    agent: str
    """The agent that the client named, or the session's; empty for the default agent."""
    named_agent: str = ""
    """The agent that the client named: for `say`. The session's own agent may change while a client is bound."""
    removed: int = 0
    """How many messages were removed from the session so far."""
    is_stored: bool = False
    """Whether the store has the session already."""
    kind: SessionKind = "chat"
    """The kind of a new session."""
    end: TurnEnd | None = None
    """How the last turn ended, if not with a whole answer."""


class LoadedConversation(Struct, frozen=True):
    """The conversation of a session, and the model that it was loaded with."""

    conversation: Conversation
    choice: Choice


class RunningTurn(Struct, frozen=True):
    """A turn that runs in this process."""

    session_id: str
    turn_id: str
    wanted_at: float
    """When the turn was requested, in seconds since 1970."""
    waiting: int
    """How many turns of the session wait after this turn."""


class Sessions:
    """The cache of all sessions of this process."""

    def __init__(
        self,
        conversations: Conversations,
        loader: ConversationLoader,
        agents: Agents,
        choose_model: ChooseModel,
        nodes: Nodes,
        wait_seconds: float = WAIT_SECONDS,
        limit: int = _MAX_LOADED,
    ) -> None:
        """All nodes get the events of all turns. `wait_seconds`: how long a turn waits for the turns before it.

        `limit`: how many conversations stay loaded.
        """
        self._conversations = conversations
        self._loader = loader
        self._opening = SessionOpening(conversations, agents, choose_model)
        self._sessions: dict[str, Session] = {}
        self.unstored = UnstoredSessions(conversations, self._opening, lambda *key: self.find(*key) is not None)
        self._loaded: BoundedDict[str, LoadedConversation] = BoundedDict(limit, self._on_unloaded)
        """The conversations that are loaded, by their sessions; the session used last is at the end."""
        self.loop = loader.loop
        self.askers = Askers(agents, loader.ledger)
        self.stored_turns = StoredTurns(conversations, loader.contexts, loader.loop, nodes)
        self.nodes = nodes
        self.bus: Bus | None = nodes.bus
        self.tasks = Tasks()
        """Turns, and what other parts do beside them: `drain` ends all of it."""
        self.wait_seconds = wait_seconds
        self.is_open = True
        """Whether new turns may begin."""
        self.hands_over = False
        """Whether other nodes take over the turns of this node."""
        self.cut_off: set[str] = set()
        """Sessions whose turn was cut off by the end of an earlier process, until a new message begins another turn."""
        nodes.bus.subscribe(QuestionOpened, self._on_question_opened)
        nodes.bus.subscribe(QuestionEnded, self._on_question_ended)

    def __len__(self) -> int:
        """Return how many sessions are used: they have a turn or a listener."""
        return sum(session.is_used for session in self._sessions.values())

    # Sessions.

    def get(self, session_id: str, owner: str) -> Session:
        """Return the owner's session of this id, loaded or not. Raises `SessionRefused` while another owner uses it."""
        self._check_owner(session_id, owner)
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            self._loaded.pop(session_id, None)
            self.unstored.forget(session_id)
            session = self._sessions[session_id] = Session(session_id, owner, self)
        return session

    def find(self, session_id: str, owner: str) -> Session | None:
        """Return the owner's session of this id, if it is used now."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner and session.is_used else None

    def release(self, session: Session) -> None:
        """Remove the session if no turn, listener or loaded conversation needs it."""
        if not session.is_used and session.id not in self._loaded and self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self.unstored.forget(session.id)

    def find_conversation(self, session_id: str) -> Conversation | None:
        """Return the conversation of this session, if it is loaded."""
        loaded = self._loaded.get(session_id)
        return None if loaded is None else loaded.conversation

    async def bind(
        self, session_id: str | None, who: Principal, *, name: str = "", agent: str = "", kind: SessionKind = "chat"
    ) -> Bound:
        """Return the session of this id, or a new one of this kind; store nothing. Raises `SessionRefused`."""
        if not session_id:
            if agent:  # the default agent is looked up with the first message: devices never send one
                await self._opening.find_agent(agent, None, who.owner)
            return Bound(os.urandom(16).hex(), 0, name, agent, named_agent=agent, kind=kind)
        self._check_owner(session_id, who.owner)
        record = await self._opening.find(session_id, who.owner)
        await self._opening.find_agent(agent, record, who.owner)
        if record is None:
            return Bound(session_id, 0, name, agent, named_agent=agent, kind=kind)
        name, shown, count = record.name or name, agent or record.agent, record.length
        ends = await self._conversations.ends(session_id, owner=who.owner, after=count) if count else {}
        end = ends.get(count)
        return Bound(session_id, count, name, shown, named_agent=agent, removed=record.removed, is_stored=True, end=end)

    def announce(self, bound: Bound, owner: str) -> Callable[[], None]:
        """Let the session exist for all its clients from now on, until the returned function is called (SPEC W7).

        The client that knows the session's id may not have sent a message yet. Raises `SessionRefused` for another
        owner.
        """
        session = self.get(bound.session_id, owner)
        if not bound.is_stored:
            self.unstored.add(session.id, owner, bound.agent, bound.name, kind=bound.kind)
        return session.listen(_ignore)

    async def find_record(self, session_id: str, owner: str) -> SessionRecord:
        """Return the record of a session, stored or not yet. Raises `ToolError` (`file_not_found`) if there is none."""
        await self.until_stored(session_id, owner)
        unstored = await self.unstored.find(session_id, owner)
        return unstored or await self._conversations.get(session_id, owner=owner)

    async def edit(self, session_id: str, edit: SessionEdit, owner: str) -> SessionRecord:
        """Change what a person set of the session, stored or not yet, and return its record. Raises `ToolError`."""
        if not await self.unstored.edit(session_id, edit, owner):
            await self._conversations.edit(session_id, edit, owner=owner)
        return await self.find_record(session_id, owner)

    def running(self, owner: str) -> list[RunningTurn]:
        """Return the owner's turns that run in this process."""
        sessions = (session for session in self._sessions.values() if session.owner == owner and session.turns)
        return [_running_in(session) for session in sessions]

    def count_running(self) -> int:
        """Return how many turns of all owners run in this process."""
        return sum(bool(session.turns) for session in self._sessions.values())

    def is_used_by(self, owner: str) -> bool:
        """Whether this owner has a turn or a listener in this process."""
        return any(session.owner == owner and session.is_used for session in self._sessions.values())

    def may_be_cut_off(self, session_id: str) -> bool:
        """Whether the end of a process, on this node or another, may have cut off the session's turn."""
        return session_id in self.cut_off or self.nodes.may_have_cut_off

    def state(self, session_id: str, owner: str) -> RunningTurn | None:
        """Return the turn that runs in this session, if it runs in this process."""
        session = self.find(session_id, owner)
        return _running_in(session) if session is not None and session.turns else None

    async def until_stored(self, session_id: str, owner: str) -> None:
        """Return when no turn of this process has an end that was published and is not stored yet.

        A client that reads the session in between has missed the event, and would wait for an end that it never gets.
        """
        while (session := self.find(session_id, owner)) is not None and session.turns and session.turns[0].is_over:
            await asyncio.wait([session.turns[0].task])

    def abort(self, session_id: str, owner: str) -> bool:
        """Stop the session's turns. Return False when there is no turn. The text so far is stored."""
        session = self.find(session_id, owner)
        return session is not None and session.abort()

    async def abort_anywhere(self, session_id: str, owner: str) -> bool:
        """Stop the session's turns, also on another node, or one that waits for an agent. Return False without one."""
        if self.abort(session_id, owner) or await self.nodes.abort_turn(session_id, owner):
            return True
        with suppress(HandspanError):
            return await self._end_waiting(session_id, owner)
        return False

    async def _end_waiting(self, session_id: str, owner: str) -> bool:
        """End a turn that waits for another agent, or that works for one and waits. Return False without one."""
        record = await self._conversations.find(session_id, owner=owner)
        if record is None or record.state != "waiting":
            return False
        calls = await self._loader.ledger.open_calls(owner=owner, session=session_id)
        if not asking_call(session_id) and all(call.tool.answered_by != "agent" for call in calls):
            return False
        giving_up = self.get(session_id, owner).give_up(Principal(owner), all_calls=True)
        return (await giving_up.wait_for_end()).reason == "aborted"

    async def resume_turn(self, session_id: str, owner: str) -> None:
        """Resume a waiting turn if all its calls have their results. The session's listeners get its events.

        If the caller is cancelled, the turn goes on.
        """
        if not self.nodes.runs_turns:
            await self._conversations.hand_over(session_id, owner=owner)
            self.nodes.hand_over_turn(session_id, owner)
            return
        try:
            turn = self.get(session_id, owner).resume_once()
            await asyncio.wait([turn.task])
            if not turn.task.cancelled():
                turn.task.result()
        except GatewayStops:
            pass  # another process resumes it
        except TurnRefused as refused:
            _log.warning("The session %s could not go on: %s", session_id, refused)

    def take_over_turn(self, session_id: str, owner: str) -> None:
        """Go on with a turn that another node has handed over, if it is still free and this node runs turns."""
        if not self.nodes.runs_turns or self.hands_over or not self.is_open:
            return
        try:
            self.get(session_id, owner).take_over_turn()
        except TurnRefused as refused:  # the next search for turns that were handed over finds this turn again
            _log.debug("The turn of the session %s could not be taken up: %s", session_id, refused)

    def _check_owner(self, session_id: str, owner: str) -> None:
        """Raise `SessionRefused` if another owner uses this session, which may not be stored yet."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner != owner and session.is_used:
            text = f"The session {session_id[:60]!r} belongs to another owner: choose another id."
            raise SessionRefused("SESSION_OWNER_MISMATCH", text)

    def _on_question_opened(self, event: QuestionOpened) -> None:
        question = event.question
        self._tell_of_question(event.owner, question.session, question.call_id, QuestionAsked(question))

    def _on_question_ended(self, event: QuestionEnded) -> None:
        self._tell_of_question(event.owner, event.session, event.call_id, QuestionOver(event.id, event.kind, event.by))

    def _tell_of_question(self, owner: str, session_id: str, call_id: str, event: SessionEvent) -> None:
        """Tell the question's session; without a call and a session, all sessions of its owner (ws.md 3.8)."""
        if session_id or call_id:
            if (session := self.find(session_id, owner)) is not None:
                session.listeners.tell(event)
            return
        for session in tuple(self._sessions.values()):
            if session.owner == owner:
                session.listeners.tell(event, beside_turns=True)

    # Contexts.

    async def context_of(self, record: SessionRecord) -> ContextUse | None:
        """Return how full the context of the session's model is; None if that is not known (SPEC L3)."""
        loaded = self.find_conversation(record.id)
        if loaded is not None and loaded.meter.used and len(loaded.messages) == record.length:
            used, limit = loaded.meter.used, loaded.meter.window.tokens
        else:
            counted = await self._loader.contexts.last_count(record.id, owner=record.owner)
            if not counted:
                return None
            try:
                agent = await self._opening.find_agent("", record, record.owner)
                choice = await self._opening.choose_model(agent.model)
            except (ConfigError, SessionRefused):
                return None
            used, limit = counted, (await self._loader.compactor.make_meter(choice)).window.tokens
        return ContextUse(used, limit) if used and limit else None

    async def describe_context(self, session_id: str, who: Principal) -> ContextParts:
        """Return what the context of the session's model is used for (SPEC L3). Raises `NoUserMessage`."""
        session = self.get(session_id, who.owner)
        if session.conversation is None or not session.turns:
            await session.look(who).wait_for_end()
        assert session.conversation is not None
        return self._loader.compactor.describe(session.conversation)

    # Conversations.

    async def open(
        self,
        session: Session,
        who: Principal,
        message_id: str = "",
        *,
        agent: str = "",
        name: str = "",
        kind: SessionKind = "chat",
    ) -> tuple[Conversation, SessionRecord]:
        """Return the conversation, ready for a turn, and the session's record. A missing session is made.

        `message_id`: of the message that the turn answers. Raises `SessionRefused`.
        """
        record = await self._opening.find(session.id, session.owner)
        named = await self._opening.find_agent(agent, record, session.owner)
        acting = await self.askers.act(named, session.id, session.owner)
        wanted = record or self.unstored.get(session.id) or new_record(session.id, session.owner, "", name, kind=kind)
        choice = await self._opening.model_of(wanted.model, acting)
        if record is None:
            self._loaded.pop(session.id, None)  # the session was deleted meanwhile
            new = structs.replace(wanted, name=wanted.name or name)
            record = await self._opening.make(session.id, session.owner, acting, new)
        elif name and not record.name:
            record = structs.replace(record, name=shorten(name, MAX_NAME))
            await self._conversations.rename(session.id, record.name, owner=session.owner)
        self.unstored.forget(session.id)
        self.cut_off.discard(session.id)
        is_over = record.state == "idle"
        answered = None if not is_over and not schedule_of(message_id) else message_id
        return await self._load(session, record, acting, choice, who=who, answered=answered), record

    async def reopen(self, session: Session, who: Principal | None = None) -> Conversation | None:
        """Return the conversation of an existing session, ready for a turn; None when the session does not exist."""
        record = await self._opening.find(session.id, session.owner)
        if record is None:
            return None
        named = await self._opening.find_agent("", record, session.owner)
        acting = await self.askers.act(named, session.id, session.owner)
        return await self._load(session, record, acting, await self._opening.model_of(record.model, acting), who=who)

    async def _load(
        self,
        session: Session,
        record: SessionRecord,
        agent: Agent,
        choice: Choice,
        *,
        who: Principal | None,
        answered: str | None = None,
    ) -> Conversation:
        """Return the session's conversation with this agent and model: the loaded one, or a new one.

        `answered`: the id of the message that the turn answers; None: of the person's last one.
        """
        loaded = self._loaded.get(session.id)
        if loaded is not None and answered is None and len(loaded.conversation.messages) != record.length:
            loaded = None  # another process has added messages, and the last one decides what the agent may do
        asked = answered
        if loaded is not None:
            asked = _last_message(loaded.conversation.messages) if answered is None else answered
            agent = await self._loader.limit(agent, asked, session.owner)
        if loaded is None or (record.state == "idle" and open_calls(loaded.conversation.last)):  # it was cut off
            conversation = await self._loader.load(agent, choice, record, who or Principal(session.owner))
            asked = _last_message(conversation.messages) if answered is None else answered
            limited = await self._loader.limit(agent, asked, session.owner)
            if limited != conversation.agent:
                conversation = await self._loader.change_agent(conversation, limited, choice)
        elif loaded.conversation.agent != agent or loaded.choice is not choice:
            conversation = await self._loader.change_agent(loaded.conversation, agent, choice)
        else:
            conversation = loaded.conversation
        # The one that was used longest ago is unloaded, if there are too many.
        self._loaded[session.id] = LoadedConversation(conversation, choice)
        self._loaded.move_to_end(session.id)
        if who is not None and conversation.caller.who != who:
            conversation.caller = structs.replace(conversation.caller, who=who)
        return await self._loader.prepare(conversation)

    def _on_unloaded(self, session_id: str, _: LoadedConversation) -> None:
        if (session := self._sessions.get(session_id)) is not None:
            self.release(session)

    def forget_models(self) -> None:
        """Choose the model of every session anew with its next turn."""
        self._opening.forget_models()

    # The end.

    def hand_over_turns(self) -> None:
        """Let other nodes take over the turns of this node, each after the step that runs. This node stops."""
        self.hands_over = True
        for session in self._sessions.values():
            session.hand_over_turns()
        self.loop.stop_waiting()

    async def drain(self, seconds: float) -> None:
        """Begin no more turns, wait so many seconds for the running turns, then end those that are left.

        These are aborted or, if another process goes on with them, handed over. No task is left running.
        """
        self.is_open = False
        for session in self._sessions.values():
            for turn in session.turns:
                turn.may_begin.set()  # waiting turns see that `is_open` is False
        if len(self.tasks):
            await asyncio.wait(set(self.tasks), timeout=seconds)
        if self.hands_over or self.loop.hands_over:
            for session in self._sessions.values():
                session.stop_turns()
        left = set(self.tasks)
        for task in left:
            if not task.cancelling():
                task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=_TIDY_SECONDS)
            for task in stuck:
                _log.error("A turn did not end when it was aborted: %r", task)


def _last_message(messages: Sequence[Message]) -> str:
    """Return the id of the person's last message; empty if there is none."""
    return next((one.id for one in reversed(messages) if isinstance(one, UserMessage)), "")


def _ignore(_: SessionEvent, turn: str) -> None:
    """The listener of a client that has not connected to the session yet."""


def _running_in(session: Session) -> RunningTurn:
    """Return the turn that runs in this session, which must have one."""
    turn = session.turns[0]
    return RunningTurn(session.id, turn.id, turn.requested_at, len(session.turns) - 1)
