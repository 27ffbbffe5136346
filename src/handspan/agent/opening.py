"""What a turn needs before its conversation is loaded: the session's record, its agent and its model (SPEC A1, A2)."""

import asyncio
import re
from typing import Final, Protocol

from msgspec import structs

from handspan.agent.agents import Agents
from handspan.agent.refusals import SessionRefused
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, NotYours, SessionDeleted, ToolError
from handspan.core.records import SessionEdit, SessionRecord
from handspan.core.store import Conversations
from handspan.core.titles import shorten
from handspan.models.choice import Choice


class ChooseModel(Protocol):
    """Chooses the model of an agent."""

    async def __call__(self, named: str, then: tuple[str, ...] | None = None, /) -> Choice:
        """Return the model of this name, or the default for an empty name. Raises `ConfigError` for an unusable model.

        `then`: the models that answer while that one can't; None: those that the settings give to it (SPEC L6).
        """
        ...


MAX_NAME: Final = 120
"""The characters of a session's name. A longer name is cut."""
_ID: Final = r"[A-Za-z0-9._-]{1,128}"


class SessionOpening:
    """Finds what a session has, and makes what it lacks. Each method raises `SessionRefused`, with the reason."""

    def __init__(self, conversations: Conversations, agents: Agents, choose_model: ChooseModel) -> None:
        self._conversations = conversations
        self._agents = agents
        self._choose_model = choose_model
        self._models: dict[tuple[str, tuple[str, ...] | None], Choice] = {}
        """The models that sessions use, by the names that the agent gives."""
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

    async def make(self, session_id: str, owner: str, agent: Agent, wanted: SessionRecord) -> SessionRecord:
        """Store a new session with what a person set of it before its first message, and return its record."""
        name = shorten(wanted.name, MAX_NAME)
        try:
            made = await self._conversations.create(
                owner=owner, agent=agent.name, name=name, session=session_id, kind=wanted.kind
            )
            flags = (wanted.pinned, wanted.archived, wanted.model)
            if flags == (made.pinned, made.archived, made.model):
                return made
            change = SessionEdit(pinned=wanted.pinned, archived=wanted.archived, model=wanted.model)
            await self._conversations.edit(session_id, change, owner=owner)
        except NotYours as error:
            raise SessionRefused("SESSION_OWNER_MISMATCH", error.message) from None
        except SessionDeleted as error:
            raise SessionRefused("SESSION_BIND_FAILED", error.message) from None
        return structs.replace(made, pinned=wanted.pinned, archived=wanted.archived, model=wanted.model)

    async def find_agent(self, named: str, record: SessionRecord | None, owner: str) -> Agent:
        """Return the agent that answers: the named one, the session's own, or the default."""
        wanted = named or (record.agent if record else "")
        try:
            return (await self._agents.find(wanted, owner=owner)).agent
        except ConfigError as error:
            hint = "" if named or not record else " The session was with that one: name another."
            raise SessionRefused("AGENT_INIT_FAILED", f"{error}{hint}") from None

    async def choose_model(self, named: str, then: tuple[str, ...] | None = None) -> Choice:
        """Return the model as the given function chooses it. Raises `ConfigError`, too."""
        async with self._choosing:  # two requests at once would make two models of one name
            if (named, then) not in self._models:
                self._models[named, then] = await self._choose_model(named, then)
            return self._models[named, then]

    async def model_of(self, session_model: str, agent: Agent) -> Choice:
        """Return the model that answers in a session: its own, alone, or that of its agent. Raises `ConfigError`."""
        if not session_model:
            return await self.choose_model(agent.model, agent.then)
        try:
            return await self.choose_model(session_model, ())
        except ConfigError as error:
            text = f"{error} This session was given that model alone: choose another one for it, or give it back to its"
            raise ConfigError(f"{text} agent (`/model auto` in a chat).") from None

    def forget_models(self) -> None:
        """Choose the model of every session anew with its next turn."""
        self._models.clear()
