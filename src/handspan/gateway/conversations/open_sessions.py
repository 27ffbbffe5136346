"""Sessions that are loaded: each with its agent, and the model of that; the ones used last are kept at hand."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec import structs

from handspan.agent.session import Session
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, NotYours, ToolError
from handspan.core.principals import Principal
from handspan.core.records import SessionRecord
from handspan.core.store import Conversations
from handspan.gateway.conversations.agents import Agents
from handspan.gateway.conversations.conversing import Conversing, open_calls
from handspan.gateway.conversations.titles import short
from handspan.gateway.conversations.turn_refusals import SessionRefused
from handspan.models.choice import Choice

ChooseModel: TypeAlias = Callable[[str], Awaitable[Choice]]
"""The model of this name, or the default for an empty one; `ConfigError` when it can't be had."""

_MOST_OPEN: Final = 64
_IS_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_MOST_NAME: Final = 120


class OpenSessions:
    """Finds, makes and loads sessions. What was not used for long is let go, and loaded again when it is needed."""

    def __init__(
        self,
        conversing: Conversing,
        conversations: Conversations,
        agents: Agents,
        choose_model: ChooseModel,
        most: int = _MOST_OPEN,
    ) -> None:
        self._conversing = conversing
        self._conversations = conversations
        self._agents = agents
        self._choose_model = choose_model
        self._most = most
        self._open: OrderedDict[str, tuple[Session, Choice]] = OrderedDict()
        self._models: dict[str, Choice] = {}
        self._choosing = asyncio.Lock()

    async def find(self, session_id: str, owner: str) -> SessionRecord | None:
        """What is kept of this session; None when it would begin now. `SessionRefused` when it can't be had."""
        if not _IS_ID.fullmatch(session_id):
            text = f"The session id {session_id[:60]!r} can't be used: take up to 128 of A-Z a-z 0-9 . _ - only."
            raise SessionRefused("SESSION_BIND_FAILED", text)
        try:
            return await self._conversations.find(session_id, owner=owner)
        except NotYours as error:
            raise SessionRefused("SESSION_OWNER_MISMATCH", error.message) from None
        except ToolError as error:
            raise SessionRefused("SESSION_BIND_FAILED", error.message) from None

    async def agent(self, named: str, known: SessionRecord | None, owner: str) -> Agent:
        """The agent that answers: the named one, the session's own, or the default."""
        wanted = named or (known.agent if known else "")
        try:
            return (await self._agents.find(wanted, owner=owner)).agent
        except ConfigError as error:
            hint = "" if named or not known else " The session was with that one: name another."
            raise SessionRefused("AGENT_INIT_FAILED", f"{error}{hint}") from None

    async def open(
        self, session_id: str, owner: str, who: Principal | None = None, *, agent: str = "", name: str = ""
    ) -> tuple[Session, SessionRecord]:
        """The session, ready for a turn; made if it is not there. `ConfigError` when its model can't be had."""
        known = await self.find(session_id, owner)
        acting = await self.agent(agent, known, owner)
        choice = await self._choice(acting.model)
        if known is None:
            self._open.pop(session_id, None)  # it was deleted meanwhile
            known = await self._make(session_id, owner, acting, name)
        elif name and not known.name:
            known = structs.replace(known, name=short(name, _MOST_NAME))
            await self._conversations.rename(session_id, known.name, owner=owner)
        return await self._loaded(known, acting, choice, owner, who), known

    async def reopen(self, session_id: str, owner: str, who: Principal | None = None) -> Session | None:
        """The same for a session that has to be there; None when it is not."""
        known = await self.find(session_id, owner)
        if known is None:
            return None
        acting = await self.agent("", known, owner)
        return await self._loaded(known, acting, await self._choice(acting.model), owner, who)

    async def _make(self, session_id: str, owner: str, agent: Agent, name: str) -> SessionRecord:
        made = short(name, _MOST_NAME)
        try:
            return await self._conversations.create(owner=owner, agent=agent.name, name=made, session=session_id)
        except NotYours as error:
            raise SessionRefused("SESSION_OWNER_MISMATCH", error.message) from None

    async def _loaded(
        self, known: SessionRecord, agent: Agent, choice: Choice, owner: str, who: Principal | None
    ) -> Session:
        session, with_choice = self._open.pop(known.id, (None, None))
        if session is None or (known.state == "idle" and open_calls(session.last)):  # the latter broke off
            session = await self._conversing.open(agent, choice, known, who or Principal(owner))
        elif session.agent != agent or with_choice is not choice:
            session = await self._conversing.change_agent(session, agent, choice)
        self._open[known.id] = (session, choice)
        if len(self._open) > self._most:
            self._open.popitem(last=False)
        if who is not None and session.caller.who != who:
            session.caller = structs.replace(session.caller, who=who)
        return session

    async def _choice(self, named: str) -> Choice:
        async with self._choosing:  # two at once would make two models of one name
            if named not in self._models:
                self._models[named] = await self._choose_model(named)
            return self._models[named]
