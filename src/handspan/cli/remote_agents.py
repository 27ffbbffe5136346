"""The agents of a gateway that runs, as `handspan agents` shows and changes them (SPEC A1)."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from handspan.cli.agents_shown import Box, ListedAgent, ShownAgent
from handspan.cli.remote import Remote, RemoteRefused, segment
from handspan.core.agents import Agent
from handspan.core.values import JsonObject

_KEPT: Final = {"settings": "settings", "built_in": "built in", "store": "kept"}


class RemoteAgent(Agent, frozen=True, kw_only=True):
    """An agent as the gateway shows it."""

    kept: Literal["settings", "built_in", "store"]
    tool_count: int


class _Agents(Struct, frozen=True):
    agents: list[RemoteAgent]
    default: str


class _Box(Struct, frozen=True):
    name: str
    description: str
    permissions: tuple[str, ...]
    selected: bool
    asks: bool
    refused: bool
    disabled_by: str | None


class _Selection(Struct, frozen=True):
    tools: list[_Box]


class _Deleted(Struct, frozen=True):
    sessions_moved: int


class _Skill(Struct, frozen=True):
    name: str
    enabled: bool
    problems: tuple[str, ...]


class _Skills(Struct, frozen=True):
    skills: list[_Skill]


def agent_called(remote: Remote, name: str) -> RemoteAgent:
    """The agent of this name, or the default one; `RemoteRefused` when there is none."""
    return remote.get(f"/api/agents/{segment(name or remote.get('/api/agents', _Agents).default)}", RemoteAgent)


def skill_notes(remote: Remote, names: Sequence[str]) -> list[str]:
    """What keeps these skills from being used."""
    if not names:
        return []
    known = {skill.name: skill for skill in remote.get("/api/skills", _Skills).skills}
    missing = [f"There is no skill {name!r}." for name in names if name not in known]
    broken = [skill for name in names if (skill := known.get(name)) is not None and not skill.enabled]
    return [*missing, *(f"The skill {skill.name!r} can't be used: {' '.join(skill.problems)}" for skill in broken)]


class RemoteAgents:
    """Finds and changes agents over REST."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def all(self) -> list[ListedAgent]:
        """Every agent, the built-in one first."""
        agents = self._remote.get("/api/agents", _Agents).agents
        return [ListedAgent(_plain(agent), _KEPT[agent.kept], agent.tool_count) for agent in agents]

    async def show(self, name: str) -> ShownAgent:
        """One agent with its checkboxes."""
        agent = agent_called(self._remote, name)
        selection = self._remote.get(f"/api/agents/{segment(name)}/tools", _Selection)
        boxes = [
            Box(
                box.name,
                box.description,
                box.permissions,
                box.selected,
                is_off=box.disabled_by is not None,
                is_refused=box.refused,
                asks=box.asks,
            )
            for box in selection.tools
        ]
        return ShownAgent(_plain(agent), _KEPT[agent.kept], boxes)

    async def find(self, name: str) -> Agent:
        """One agent."""
        return _plain(agent_called(self._remote, name))

    async def create(self, agent: Agent) -> None:
        """Keep a new one."""
        self._remote.change("POST", "/api/agents", JsonObject, structs.asdict(agent))

    async def edit(self, name: str, agent: Agent) -> None:
        """Put this in its place."""
        self._remote.change("PATCH", f"/api/agents/{segment(name)}", JsonObject, structs.asdict(agent))

    async def clone(self, name: str, new_name: str) -> None:
        """The same once more."""
        self._remote.change("POST", f"/api/agents/{segment(name)}/clone", JsonObject, {"name": new_name})

    async def delete(self, name: str) -> int:
        """Remove it; how many sessions moved to the built-in one."""
        return self._remote.change("DELETE", f"/api/agents/{segment(name)}", _Deleted).sessions_moved

    async def problems(self, agent: Agent, skills: Sequence[str], *, with_model: bool) -> list[str]:
        """What of this agent can't be used now."""
        notes = skill_notes(self._remote, skills)
        if with_model:
            try:
                self._remote.get("/api/models/which", JsonObject, model=agent.model)
            except RemoteRefused as refused:
                notes.append(f"this model can't be asked now. {refused}")
        return notes


def _plain(agent: RemoteAgent) -> Agent:
    return Agent(**{name: getattr(agent, name) for name in Agent.__struct_fields__})
