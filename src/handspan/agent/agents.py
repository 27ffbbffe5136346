"""The agents that there are: those of the settings, which are changed there, and those that people keep (SPEC A1)."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, structs

from handspan.config.settings import AgentSettings, Settings
from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches, matches_any
from handspan.core.principals import OPERATOR
from handspan.core.store import AgentBook

_OWNER: Final = OPERATOR.owner


class KnownAgent(Struct, frozen=True):
    """An agent, and whether it is one of the settings: those are read-only here."""

    agent: Agent
    is_of_settings: bool


class Agents:
    """Finds agents wherever they are. One of the settings hides a kept one of its name."""

    def __init__(self, settings: Settings, book: AgentBook | None = None) -> None:
        """Without a book there are only those of the settings, and the built-in one."""
        self._settings = settings
        self._book = book

    def of_settings(self, name: str | None = None) -> Agent:
        """The agent that the settings have under this name, or their default; `ConfigError` when there is none.

        The default may be a kept one, which only `find` knows.
        """
        wanted = name or self._settings.default_agent
        if wanted not in self._settings.agents:
            raise _unknown(name, wanted, self._settings.agents)
        found = self._settings.agents[wanted]
        return Agent(wanted, **structs.asdict(found))

    async def all(self, *, owner: str = _OWNER) -> Sequence[KnownAgent]:
        """Every agent by name, the built-in one first."""
        kept = {} if self._book is None else {agent.name: agent for agent in await self._book.all(owner=owner)}
        names = {*kept, *self._settings.agents} - {GENERAL.name}
        return [self._known(name, kept) for name in (GENERAL.name, *sorted(names))]

    async def find(self, name: str | None = None, *, owner: str = _OWNER) -> KnownAgent:
        """The agent of this name, or the default one; `ConfigError` when there is none."""
        wanted = name or self._settings.default_agent
        if self._is_of_settings(wanted):
            return KnownAgent(self.of_settings(wanted), True)
        if self._book is None and wanted == GENERAL.name:
            return KnownAgent(self.of_settings(wanted), False)
        if self._book is not None and (kept := await self._book.find(wanted, owner=owner)) is not None:
            return KnownAgent(kept, False)
        raise _unknown(name, wanted, [one.agent.name for one in await self.all(owner=owner)])

    async def create(self, agent: Agent, *, owner: str = _OWNER) -> None:
        """Keep a new agent; its name has to be free."""
        self._refuse_settings(agent.name)
        await self._kept().create(agent, owner=owner)

    async def clone(self, name: str, new_name: str, *, owner: str = _OWNER) -> Agent:
        """The same agent once more, under another name; one of the settings can be cloned too."""
        copy = structs.replace((await self.find(name, owner=owner)).agent, name=new_name)
        await self.create(copy, owner=owner)
        return copy

    async def edit(self, name: str, agent: Agent, *, owner: str = _OWNER) -> None:
        """Put this in its place."""
        await self.find(name, owner=owner)
        self._refuse_settings(name)
        self._refuse_settings(agent.name)
        await self._kept().edit(name, agent, owner=owner)

    async def delete(self, name: str, *, owner: str = _OWNER) -> int:
        """Remove it; how many sessions moved to the built-in one."""
        await self.find(name, owner=owner)
        self._refuse_settings(name)
        return await self._kept().delete(name, owner=owner)

    def _known(self, name: str, kept: dict[str, Agent]) -> KnownAgent:
        if self._is_of_settings(name) or name not in kept:
            return KnownAgent(self.of_settings(name), self._is_of_settings(name))
        return KnownAgent(kept[name], False)

    def _is_of_settings(self, name: str) -> bool:
        """Whether a person wrote it there: `General` is among them even where nobody did."""
        found = self._settings.agents.get(name)
        return found is not None and (name != GENERAL.name or found != AgentSettings())

    def _refuse_settings(self, name: str) -> None:
        if self._is_of_settings(name):
            raise ConfigError(f"The agent {name!r} is from the settings: change it there (agents.{name}), or clone it.")

    def _kept(self) -> AgentBook:
        if self._book is None:
            raise ConfigError("Agents need a store: open App with durable=True.")
        return self._book


def selects(agent: Agent, tool: str) -> bool:
    """Whether the tool of this name is ticked (SPEC R7)."""
    return (agent.tools is None or matches_any(agent.tools, tool)) and not matches_any(agent.deny, tool)


def tick_tool(agent: Agent, tool: str) -> Agent:
    """The agent with this tool; `ConfigError` when a glob of its deny list is in the way."""
    deny = tuple(glob for glob in agent.deny if glob != tool)
    if in_the_way := [glob for glob in deny if matches(glob, tool)]:
        raise ConfigError(
            f"{tool!r} stays off: the deny list of the agent {agent.name!r} names it by {in_the_way[0]!r}."
            " Set the deny list without that (--deny)."
        )
    tools = agent.tools if agent.tools is None or matches_any(agent.tools, tool) else (*agent.tools, tool)
    return structs.replace(agent, tools=tools, deny=deny)


def untick_tool(agent: Agent, tool: str) -> Agent:
    """The agent without this tool."""
    tools = None if agent.tools is None else tuple(glob for glob in agent.tools if glob != tool)
    agent = structs.replace(agent, tools=tools)
    return structs.replace(agent, deny=(*agent.deny, tool)) if selects(agent, tool) else agent


def _unknown(name: str | None, wanted: str, known: Iterable[str]) -> ConfigError:
    shown = wanted if len(wanted) <= 60 else f"{wanted[:59]}…"
    there_are = f"{did_you_mean(wanted, known)} There are: {', '.join(sorted(known))}."
    if name:
        return ConfigError(f"There is no agent {shown!r}.{there_are}")
    return ConfigError(f"There is no agent {shown!r}, which the settings name as default_agent.{there_are}")
