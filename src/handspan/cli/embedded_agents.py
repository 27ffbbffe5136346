"""The agents of a house of this process, as `handspan agents` shows and changes them (SPEC A1)."""

from collections.abc import Sequence

from handspan.agent.agents import KnownAgent, selects
from handspan.cli.agents_shown import Box, ListedAgent, ShownAgent
from handspan.core.agents import GENERAL, Agent, mode_asks, mode_refuses
from handspan.core.errors import ConfigError
from handspan.gateway.app import App
from handspan.registry.entry import Entry


class EmbeddedAgents:
    """Finds and changes agents in the house itself."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def all(self) -> list[ListedAgent]:
        """Every agent, the built-in one first."""
        return [
            ListedAgent(known.agent, _kept_where(known), len(self._app.caller(known.agent).box.specs()))
            for known in await self._app.agents.all()
        ]

    async def show(self, name: str) -> ShownAgent:
        """One agent with its checkboxes."""
        known = await self._app.agents.find(name)
        entries = sorted(self._app.registry, key=lambda entry: entry.spec.name)
        return ShownAgent(known.agent, _kept_where(known), [self._box(known.agent, entry) for entry in entries])

    async def find(self, name: str) -> Agent:
        """One agent."""
        return await self._app.find_agent(name)

    async def create(self, agent: Agent) -> None:
        """Keep a new one."""
        await self._app.agents.create(agent)

    async def edit(self, name: str, agent: Agent) -> None:
        """Put this in its place."""
        await self._app.agents.edit(name, agent)

    async def clone(self, name: str, new_name: str) -> None:
        """The same once more."""
        await self._app.agents.clone(name, new_name)

    async def delete(self, name: str) -> int:
        """Remove it; how many sessions moved to the built-in one."""
        return await self._app.agents.delete(name)

    async def problems(self, agent: Agent, skills: Sequence[str], *, with_model: bool) -> list[str]:
        """What of this agent can't be used now."""
        await self._app.skills.refresh()
        notes = list(self._app.skills.chosen(tuple(skills))[1])
        if with_model:
            try:
                await self._app.choose_model(agent.model)
            except ConfigError as error:
                notes.append(f"this model can't be asked now. {error}")
        return notes

    def _box(self, agent: Agent, entry: Entry) -> Box:
        spec = entry.spec
        return Box(
            spec.name,
            spec.description,
            spec.permissions,
            selects(agent, spec.name),
            is_off=self._app.registry.disabled_by(entry) is not None,
            is_refused=mode_refuses(agent.mode, spec.annotations),
            asks=mode_asks(agent.mode, spec.annotations),
        )


def _kept_where(known: KnownAgent) -> str:
    if known.is_of_settings:
        return "settings"
    return "built in" if known.agent.name == GENERAL.name else "kept"
