"""Agents and the selection of their tools in REST (SPEC A1)."""

from typing import Literal, TypeAlias

from msgspec import Struct

from handspan.core.agents import AgentLimits, Mode

KeptWhere: TypeAlias = Literal["settings", "built_in", "store"]


class AgentView(Struct, frozen=True):
    """An agent as it is stored."""

    name: str
    description: str
    instructions: str
    model: str
    mode: Mode
    tools: tuple[str, ...] | None
    deny: tuple[str, ...]
    skills: tuple[str, ...]
    max_tool_iterations: int | None
    nodes: tuple[str, ...] | None
    limits: AgentLimits
    kept: KeptWhere
    """Where it is stored. An agent of the settings is changed there."""
    tool_count: int
    """How many of the available tools it can call."""


class AgentList(Struct, frozen=True):
    """All agents of the caller."""

    agents: list[AgentView]
    default: str


class DeletedAgent(Struct, frozen=True):
    """The answer to the removal of an agent."""

    deleted: bool
    name: str
    sessions_moved: int
    """Sessions that go on with the built-in agent."""


class Checkbox(Struct, frozen=True):
    """One tool in the selection of an agent, without its parameters (SPEC A1)."""

    name: str
    origin: str
    """As `device(phone)`."""
    description: str
    permissions: tuple[str, ...]
    selected: bool
    asks: bool
    """A person is asked before the tool runs."""
    refused: bool
    """The agent's mode never lets it run."""
    disabled_by: str | None
    only_reads: bool = False
    """The agent's mode lets only those calls of it run that read."""
    unusable: str = ""
    """Why no agent can use it now, selected or not: it is hidden, or something is missing. Empty: agents can."""


class AgentTools(Struct, frozen=True):
    """All available tools, selected or not."""

    agent: str
    tools: list[Checkbox]
