"""All agents: those of the settings, which only the settings change, and those that people have stored (SPEC A1)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct, structs

from handspan.config.settings import AgentSettings, Settings
from handspan.core.agents import GENERAL, Agent
from handspan.core.children import ASK_AGENT
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches, matches_any
from handspan.core.principals import OPERATOR
from handspan.core.store import AgentBook

_OWNER: Final = OPERATOR.owner


class KnownAgent(Struct, frozen=True):
    """An agent, and where it comes from."""

    agent: Agent
    is_of_settings: bool
    """Whether the agent comes from the settings. `Agents` can't change such an agent."""


class Agents:
    """Finds and changes agents. An agent of the settings hides a stored one of the same name."""

    def __init__(self, settings: Settings, book: AgentBook) -> None:
        """`book` has the agents that people made."""
        self._settings = settings
        self._book = book

    def use(self, settings: Settings) -> None:
        """Find the agents of these settings from now on."""
        self._settings = settings

    def of_settings(self, name: str | None = None) -> Agent:
        """Return the settings' agent of this name, or their default agent. Raises `ConfigError` when there is none.

        The default may be a stored agent, which only `find` knows.
        """
        wanted = name or self._settings.default_agent
        if wanted not in self._settings.agents:
            raise _unknown(name, wanted, self._settings.agents)
        found = self._settings.agents[wanted]
        return Agent(wanted, **structs.asdict(found))

    async def all(self, *, owner: str = _OWNER) -> Sequence[KnownAgent]:
        """Return every agent sorted by name, the built-in agent first."""
        stored = {agent.name: agent for agent in await self._book.all(owner=owner)}
        names = {*stored, *self._settings.agents} - {GENERAL.name}
        return [self._find_known(name, stored) for name in (GENERAL.name, *sorted(names))]

    async def find(self, name: str | None = None, *, owner: str = _OWNER) -> KnownAgent:
        """Return the agent of this name, or the default agent. Raises `ConfigError` when there is none.

        Its `may_ask` has the names of agents that exist now, in place of globs.
        """
        known = await self._find(name, owner=owner)
        if not known.agent.may_ask:
            return known
        names = [one.agent.name for one in await self.all(owner=owner)]
        others = tuple(each for each in names if each != known.agent.name and matches_any(known.agent.may_ask, each))
        return structs.replace(known, agent=structs.replace(known.agent, may_ask=others))

    async def _find(self, name: str | None, *, owner: str) -> KnownAgent:
        """Return the agent as it was written."""
        wanted = name or self._settings.default_agent
        if self._is_of_settings(wanted):
            return KnownAgent(self.of_settings(wanted), is_of_settings=True)
        if (stored := await self._book.find(wanted, owner=owner)) is not None:
            return KnownAgent(stored, is_of_settings=False)
        raise _unknown(name, wanted, [one.agent.name for one in await self.all(owner=owner)])

    async def describe(self, names: tuple[str, ...], owner: str) -> str:
        """Return the lines in which a model reads of these agents, which it may ask (SPEC J5)."""
        known = [one.agent for one in await self.all(owner=owner) if one.agent.name in names]
        lines = [f"- {one.name}: {one.description}" if one.description else f"- {one.name}" for one in known]
        return "\n".join([f"Agents that you can give a task with {ASK_AGENT}:", *lines])

    async def create(self, agent: Agent, *, owner: str = _OWNER) -> None:
        """Store a new agent. Its name must be free."""
        self._refuse_settings(agent.name)
        await self._book.create(agent, owner=owner)

    async def clone(self, name: str, new_name: str, *, owner: str = _OWNER) -> Agent:
        """Store a copy of any agent, even of one of the settings, under another name. Return the copy."""
        copy = structs.replace((await self._find(name, owner=owner)).agent, name=new_name)
        await self.create(copy, owner=owner)
        return copy

    async def edit(self, name: str, change: Callable[[Agent], Agent], *, owner: str = _OWNER) -> Agent:
        """Replace the agent of this name by what `change` makes of it, and return the new agent.

        Two changes at the same time are made one after the other: none is lost.
        """
        await self.find(name, owner=owner)
        self._refuse_settings(name)

        def change_checked(agent: Agent) -> Agent:
            changed = change(agent)
            self._refuse_settings(changed.name)
            return changed

        return await self._book.edit(name, change_checked, owner=owner)

    async def delete(self, name: str, *, owner: str = _OWNER) -> int:
        """Remove the agent of this name. Return how many sessions moved to the built-in agent."""
        await self.find(name, owner=owner)
        self._refuse_settings(name)
        return await self._book.delete(name, owner=owner)

    def _find_known(self, name: str, stored: dict[str, Agent]) -> KnownAgent:
        if self._is_of_settings(name) or name not in stored:
            return KnownAgent(self.of_settings(name), self._is_of_settings(name))
        return KnownAgent(stored[name], is_of_settings=False)

    def _is_of_settings(self, name: str) -> bool:
        """Whether a person wrote this agent into the settings: they have an agent `General` by default."""
        found = self._settings.agents.get(name)
        return found is not None and (name != GENERAL.name or found != AgentSettings())

    def _refuse_settings(self, name: str) -> None:
        """Raise `ConfigError` for an agent of the settings."""
        if self._is_of_settings(name):
            raise ConfigError(f"The agent {name!r} is from the settings: change it there (agents.{name}), or clone it.")


def selects(agent: Agent, tool: str) -> bool:
    """Whether the agent may use this tool (SPEC R7)."""
    return (agent.tools is None or matches_any(agent.tools, tool)) and not matches_any(agent.deny, tool)


def tick_tool(agent: Agent, tool: str) -> Agent:
    """Return the agent with this tool. Raises `ConfigError` when a glob of its deny list names the tool."""
    deny = tuple(glob for glob in agent.deny if glob != tool)
    if denied_by := [glob for glob in deny if matches(glob, tool)]:
        raise ConfigError(
            f"{tool!r} stays off: the deny list of the agent {agent.name!r} names it by {denied_by[0]!r}."
            " Set the deny list without that (--deny)."
        )
    tools = agent.tools if agent.tools is None or matches_any(agent.tools, tool) else (*agent.tools, tool)
    return structs.replace(agent, tools=tools, deny=deny)


def untick_tool(agent: Agent, tool: str) -> Agent:
    """Return the agent without this tool."""
    tools = None if agent.tools is None else tuple(glob for glob in agent.tools if glob != tool)
    agent = structs.replace(agent, tools=tools)
    return structs.replace(agent, deny=(*agent.deny, tool)) if selects(agent, tool) else agent


def _unknown(name: str | None, wanted: str, known: Iterable[str]) -> ConfigError:
    quoted = wanted if len(wanted) <= 60 else f"{wanted[:59]}…"
    hint = f"{did_you_mean(wanted, known)} There are: {', '.join(sorted(known))}."
    if name:
        return ConfigError(f"There is no agent {quoted!r}.{hint}")
    return ConfigError(f"There is no agent {quoted!r}, which the settings name as default_agent.{hint}")
