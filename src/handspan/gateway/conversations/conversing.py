"""Sessions that are open in this process: made, loaded, talked to (SPEC A1, A2)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from msgspec import structs

from handspan.agent.limits import Limits, Turn
from handspan.agent.log import StoredLog
from handspan.agent.loop import Loop
from handspan.agent.session import Session
from handspan.agent.skill_file import Skill
from handspan.agent.skills import Skills, allowed_globs, instructions_with
from handspan.agent.use_skill import UseSkill
from handspan.core.agents import Agent
from handspan.core.context import Progress, no_progress
from handspan.core.errors import ToolError
from handspan.core.events import Ended, Event, Titled
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.principals import BUILTIN, OPERATOR, Principal
from handspan.core.records import SessionRecord, Total, UsageSum
from handspan.core.store import Store
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.gateway.conversations.titles import title_of
from handspan.models.choice import Choice
from handspan.registry.registry import Registry

Hear: TypeAlias = Callable[[Event | Titled], None]
"""Hears what happens in a turn, and the name that the session got of it. Never blocks."""

_NO_NAME_AFTER: Final = ("error", "aborted", "pending")
_log = logging.getLogger(__name__)
_UNKNOWN = -1
"""How much a session has lost when the store could not say what it has kept of it."""
LAST = "last"
"""In place of an id: the session that was active last."""


class Conversing:
    """Opens sessions and lets people talk to them."""

    def __init__(self, store: Store, engine: Engine, registry: Registry, skills: Skills) -> None:
        self._store = store
        self._registry = registry
        self._skills = skills
        self._loop = Loop(engine, store.ledger)
        self._open: WeakValueDictionary[str, Session] = WeakValueDictionary()
        registry.register(UseSkill(skills, self._skill_of_model), BUILTIN)

    async def find(self, session_id: str, who: Principal = OPERATOR) -> SessionRecord:
        """What is known of the session with this id, or of the last one; `ToolError` when there is none."""
        kept = self._store.conversations
        if session_id != LAST:
            return await kept.get(session_id, owner=who.owner)
        page = await kept.page(owner=who.owner, limit=1)
        if not page.sessions:
            raise ToolError("file_not_found", "There is no session yet to go on with: begin one.")
        return page.sessions[0]

    async def open(
        self, agent: Agent, choice: Choice, known: SessionRecord | None = None, who: Principal = OPERATOR
    ) -> Session:
        """A new session, or that one; what an earlier process left open in it is closed first."""
        kept = self._store.conversations
        if known is None:
            known = await kept.create(owner=who.owner, agent=agent.name)
        elif known.agent != agent.name:
            await kept.choose_agent(known.id, agent.name, owner=who.owner)
        messages = await kept.load(known.id, owner=who.owner)
        await self._skills.refresh()
        session = self._session(known.id, agent, choice, who, messages)
        session.removed = known.removed
        if known.state == "idle":  # what runs is another process's, what waits gets its results later
            await self._loop.close(session)
        return session

    async def say(self, session: Session, message: UserMessage, emit: Hear, *, gives_up: bool = False) -> Ended:
        """One turn: from what a person says to the end of the answer.

        `gives_up`: a turn that waited for a client over HTTP does not wait any more (http.md 4.8).
        """
        async with self._turn(session, emit) as turn:
            if gives_up:
                await turn.give_up()
            elif (waited_for := open_calls(session.last)) and (await turn.advance()).reason == "pending":
                raise ToolError("busy", waits_for(waited_for))
            await session.append(message)
            return await turn.advance()

    async def give_up(self, session: Session, emit: Hear, *, expired: bool = False) -> bool:
        """End a turn that waited for a client over HTTP; False when there was none. `ToolError` (`busy`).

        `expired`: only one none of whose calls is open any more (http.md 5.5).
        """
        async with self._turn(session, emit) as turn:
            waited = await self._loop.can_go_on(session) if expired else bool(open_calls(session.last))
            if waited:
                await turn.give_up()
            return waited

    async def go_on(self, session: Session, emit: Hear) -> Ended | None:
        """The rest of a turn that waited for outcomes, now that all are there; None when there is nothing to do yet."""
        async with self._turn(session, emit) as turn:
            return await turn.advance() if await self._loop.can_go_on(session) else None

    async def answer(self, session: Session, emit: Hear) -> Ended | None:
        """The rest of a turn that was cut off when its process ended; None when nothing is missing, or not yet."""
        async with self._turn(session, emit) as turn:
            is_cut_off = bool(session.messages) and type(session.last) is not AssistantMessage
            return await turn.advance() if is_cut_off or await self._loop.can_go_on(session) else None

    async def regenerate(self, session: Session, emit: Hear) -> Ended | None:
        """Another answer to the last message in place of the last one; None when nobody has said anything."""
        async with self._turn(session, emit) as turn:
            if waited_for := open_calls(session.last):
                raise ToolError("busy", waits_for(waited_for))
            said = [place for place, message in enumerate(session.messages, 1) if type(message) is UserMessage]
            if not said:
                return None
            await self._store.conversations.rewind(session.id, said[-1], owner=session.caller.who.owner)
            removed = session.removed + len(session.messages) - said[-1]
            self._hear(session, session.messages[: said[-1]], removed)
            return await turn.advance()

    async def change_agent(self, session: Session, agent: Agent, choice: Choice) -> Session:
        """The session as it goes on with another agent and its model; what was said stays."""
        who = session.caller.who
        await self._store.conversations.choose_agent(session.id, agent.name, owner=who.owner)
        await self._skills.refresh()
        changed = self._session(session.id, agent, choice, who, session.messages)
        changed.removed = session.removed
        if agent == session.agent:  # only the model is another: what a person switched on stays on
            self._act_with(changed, session.skills)
        return changed

    async def usage(self, session: Session) -> list[str]:
        """What the session used, a line for each model."""
        sums = await self._store.usage.sums("model", owner=session.caller.who.owner, session=session.id)
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
        """Somebody to make calls for in this session, in its turns or beside them."""
        box = self._registry.toolbox(agent, who, session_id, in_turn=in_turn, skill_tools=skill_tools)
        return Caller(who, agent, box, session_id, progress)

    def _session(
        self, session_id: str, agent: Agent, choice: Choice, who: Principal, messages: list[Message]
    ) -> Session:
        caller = self.caller(agent, who, session_id)
        log = StoredLog(self._store.conversations, who.owner, choice.price)
        limits = Limits(rounds=agent.max_tool_iterations or None)
        session = self._open[session_id] = Session(session_id, caller, choice.model, log, messages, limits)
        if agent.skills:
            on, session.notes = self._skills.chosen(agent.skills)
            self._act_with(session, on)
        return session

    async def switch_on(self, session: Session, name: str) -> None:
        """Let a skill be on in this session from the next round; `ToolError` when it can't be used."""
        await self._skills.refresh()
        self._act_with(session, (*session.skills, self._skills.find(name)))
        session.forget_projections()

    async def _skill_of_model(self, session_id: str, skill: Skill) -> None:
        session = self._open.get(session_id)
        if session is not None:  # the instructions reach the model as the call's result
            self._act_with(session, (*session.skills, skill))

    def _act_with(self, session: Session, skills: tuple[Skill, ...]) -> None:
        """SPEC A3: the toolbox is what the skills' globs match; the instructions are the agent's and theirs."""
        session.knows_skills = True
        session.skills = tuple({skill.name: skill for skill in skills}.values())
        words = instructions_with(session.agent, session.skills, self._skills.usable_lately())
        agent = structs.replace(session.agent, instructions=words)
        globs = allowed_globs(session.skills)
        session.caller = self.caller(agent, session.caller.who, session.id, skill_tools=globs)

    @asynccontextmanager
    async def _turn(self, session: Session, emit: Hear) -> AsyncIterator["_Turn"]:
        """A turn of this process: nobody else runs one in the session meanwhile."""
        owner = session.caller.who.owner
        known = await self._begin(session, owner)
        turn, title = _Turn(self._loop, session, emit), ""
        try:
            if not session.knows_skills:  # not when it is opened: reading them takes longer than all the rest
                await self._skills.refresh()
                self._act_with(session, session.skills)
            await self._catch_up(session, known)
            turn.waits = bool(open_calls(session.last))
            yield turn
            if not known.name and turn.ended is not None and turn.ended.reason not in _NO_NAME_AFTER:
                title = await self._name(session, owner)
        finally:
            try:
                if session.inbox and not open_calls(session.last):  # the turn broke off: what was said is kept
                    await self._loop.take_inbox(session)
            finally:
                try:
                    await self._end(session, owner, waiting=turn.waits)
                except ToolError:
                    session.removed = _UNKNOWN
                    raise
        if title:
            emit(Titled(title))

    async def _name(self, session: Session, owner: str) -> str:
        """The session's first name, made of what was said; empty when it has one, or gets none."""
        title = title_of(session.messages)
        try:
            if title and await self._store.conversations.give_name(session.id, title, owner=owner):
                return title
        except ToolError as error:  # the turn is kept all the same
            _log.warning("The session %s got no name: %s", session.id, error.message)
        return ""

    async def _begin(self, session: Session, owner: str) -> SessionRecord:
        """Whoever cancels this leaves no session behind that seems to run."""
        beginning = asyncio.ensure_future(self._store.conversations.begin_turn(session.id, owner=owner))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await asyncio.wait([beginning])
            if beginning.exception() is None:
                await self._end(session, owner, waiting=bool(open_calls(session.last)))
            raise

    async def _end(self, session: Session, owner: str, *, waiting: bool) -> None:
        """It is written when this is over, even if somebody cancels it: the next turn looks at it."""
        ending = asyncio.ensure_future(self._store.conversations.end_turn(session.id, owner=owner, waiting=waiting))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def _catch_up(self, session: Session, known: SessionRecord) -> None:
        """Hear what was said in the session elsewhere meanwhile; something may also have been taken out of it."""
        kept, length = self._store.conversations, len(session.messages)
        if known.removed != session.removed or known.length < length:  # the latter: the disk did not take it
            self._hear(session, await kept.load(session.id, owner=known.owner), known.removed)
        elif known.length > length:
            newer = await kept.load(session.id, owner=known.owner, after=length)
            self._hear(session, [*session.messages, *newer], known.removed)

    def _hear(self, session: Session, messages: list[Message], removed: int) -> None:
        session.messages = messages
        session.removed = removed
        session.turn = Turn(messages)
        session.forget_projections()


class _Turn:
    """A turn that this process runs."""

    def __init__(self, loop: Loop, session: Session, emit: Hear) -> None:
        self._loop = loop
        self._session = session
        self._emit = emit
        self.waits = bool(open_calls(session.last))
        """Whether the session waits for the outcome of calls when this is over."""
        self.ended: Ended | None = None

    async def give_up(self) -> None:
        """Wait no more for a client over HTTP."""
        await self._loop.give_up(self._session)
        self.waits = False

    async def advance(self) -> Ended:
        """Do what is missing, until the turn ends or waits."""
        self.waits, self.ended = False, None
        ended = self.ended = await self._loop.advance(self._session, self._emit)
        self.waits = ended.reason == "pending"
        return ended


def open_calls(last: Message | None) -> list[str]:
    """The names of the calls that have no results yet, where this is the last message."""
    return [call.name for call in last.calls] if isinstance(last, AssistantMessage) else []


def waits_for(calls: list[str]) -> str:
    """Why nothing can be said now."""
    return f"The session waits for the outcome of {', '.join(calls)}: say it again later."


def usage_lines(sums: Sequence[UsageSum]) -> list[str]:
    """What was used, a line for each sum."""
    return [
        f"{one.of}: {one.replies} {'reply' if one.replies == 1 else 'replies'}, {_told(one.input)} tokens in, "
        f"{_told(one.output)} out, cost {_told(one.cost, '.4f', ' USD')}"
        for one in sums
    ] or ["nothing yet"]


def _told(total: Total, form: str = ".0f", unit: str = "") -> str:
    """The sum in words: what is not known is never counted as 0 (SPEC M6)."""
    if total.known is None:
        return "unknown"
    return f"{'at least ' if total.unknown else ''}{total.known:{form}}{unit}"
