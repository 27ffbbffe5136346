"""What a turn needs before its conversation is loaded: the session's record, its agent and its model (SPEC A1, A2)."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.agent.agents import Agents
from handspan.agent.refusals import SessionRefused
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, NotYours, ToolError
from handspan.core.records import SessionRecord
from handspan.core.store import Conversations
from handspan.core.titles import shorten
from handspan.models.choice import Choice

ChooseModel: TypeAlias = Callable[[str], Awaitable[Choice]]
"""Returns the model of this name, or the default for an empty name. Raises `ConfigError` for an unusable model."""

MAX_NAME: Final = 120
"""The characters of a session's name. A longer name is cut."""
_ID: Final = r"[A-Za-z0-9._-]{1,128}"


class SessionOpening:
    """Finds what a session has, and makes what it lacks. Each method raises `SessionRefused`, with the reason."""

    def __init__(self, conversations: Conversations, agents: Agents, choose_model: ChooseModel) -> None:
        self._conversations = conversations
        self._agents = agents
        self._choose_model = choose_model
        self._models: dict[str, Choice] = {}
        """The models that sessions use, by the name that the agent gives; empty for the default."""
        self._choosing = asyncio.Lock()

    async def find(self, session_id: str, owner: str) -> SessionRecord | None:
        """Return the stored record of this session; None for a new session."""
        if not re.fullmatch(_ID, session_id):
            text = f"The session id {session_id[:60]!r} can't be used: take up to 128 of A-Z a-z 0-9 . _ - only."
            raise SessionRefused("SESSION_BIND_FAILED", text)
        try:
            return await self._conversations.find(session_id, owner=owner)
        except NotYours as error:
            raise SessionRefused("SESSION_OWNER_MISMATCH", error.message) from None
        except ToolError as error:
            raise SessionRefused("SESSION_BIND_FAILED", error.message) from None

    async def make(self, session_id: str, owner: str, agent: Agent, name: str) -> SessionRecord:
        """Store a new session, and return its record."""
        name = shorten(name, MAX_NAME)
        try:
            return await self._conversations.create(owner=owner, agent=agent.name, name=name, session=session_id)
        except NotYours as error:
            raise SessionRefused("SESSION_OWNER_MISMATCH", error.message) from None

    async def find_agent(self, named: str, record: SessionRecord | None, owner: str) -> Agent:
        """Return the agent that answers: the named one, the session's own, or the default."""
        wanted = named or (record.agent if record else "")
        try:
            return (await self._agents.find(wanted, owner=owner)).agent
        except ConfigError as error:
            hint = "" if named or not record else " The session was with that one: name another."
            raise SessionRefused("AGENT_INIT_FAILED", f"{error}{hint}") from None

    async def choose_model(self, named: str) -> Choice:
        """Return the model of this name, or the default for an empty name. Raises `ConfigError`, too."""
        async with self._choosing:  # two requests at once would make two models of one name
            if named not in self._models:
                self._models[named] = await self._choose_model(named)
            return self._models[named]

    def forget_models(self) -> None:
        """Choose the model of every session anew with its next turn."""
        self._models.clear()
