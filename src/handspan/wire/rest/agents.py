"""Agents and the selection of their tools in REST (SPEC A1)."""

import re
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.agents import AgentLimits, Mode
from handspan.core.budgets import BudgetLimits
from handspan.wire.rest.fields import SOMETHING, ToolName

KeptWhere: TypeAlias = Literal["settings", "built_in", "store"]


class AgentView(Struct, frozen=True):
    """An agent as it is stored."""

    name: str
    description: str
    instructions: str
    model: str
    then: tuple[str, ...] | None
    mode: Mode
    tools: tuple[str, ...] | None
    deny: tuple[str, ...]
    skills: tuple[str, ...]
    max_tool_iterations: int | None
    nodes: tuple[str, ...] | None
    limits: AgentLimits
    budget: BudgetLimits
    may_ask: tuple[str, ...]
    """The agents that it may ask; in a list, and as written: also globs."""
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


# What a client sends to make and change agents.

_NAME_CHARS: Final = "!-~¡-¬®-ͷΑ-ΡΣ-ωЀ-ӿא-תؠ-يऄ-हก-ะぁ-ゖァ-ヺ一-鿿가-힣🌀-🗿😀-🙏🚀-🛅🤌-🤺🥇-🧿"
_NAME_PATTERN: Final = f"^(?! )( *[{_NAME_CHARS}])+$"
_NAME_LENGTH: Final = 100
_NAME_RULE: Final = f"1 to {_NAME_LENGTH} characters of one line: letters, digits, punctuation, emoji."
AgentName: TypeAlias = Annotated[
    str, Meta(max_length=_NAME_LENGTH, description=_NAME_RULE, extra_json_schema={"pattern": _NAME_PATTERN})
]
"""`check_agent_name` checks the pattern: msgspec would compile it at once, which takes a command three milliseconds."""
Glob = Annotated[str, Meta(pattern=SOMETHING, max_length=200)]
Rounds = Annotated[int, Meta(ge=0, le=10_000)]
Line = Annotated[str, Meta(max_length=1000)]


def check_agent_name(name: str) -> None:
    """Raise `ValueError` if no agent may have this name."""
    if len(name) > _NAME_LENGTH or not re.match(_NAME_PATTERN, name):
        raise ValueError(f"{name[:60]!r} can't be an agent's name: use {_NAME_RULE}")


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent to create."""

    name: AgentName
    description: Line = ""
    instructions: str = ""
    model: Annotated[str, Meta(max_length=200)] = ""
    then: tuple[Glob, ...] | None = None
    """Models that answer while its model can't. Null: as the settings say; empty: none (SPEC L6)."""
    mode: Mode = "automatic"
    tools: tuple[Glob, ...] | None = None
    """Globs of the names of tools that it may use. Null: all; empty: none."""
    deny: tuple[Glob, ...] = ()
    skills: tuple[Glob, ...] = ()
    max_tool_iterations: Rounds | None = 20
    nodes: tuple[Glob, ...] | None = None
    """Nodes of the graph API's clients whose tools it may use. Null: all (SPEC H1)."""
    limits: AgentLimits = AgentLimits()

    def __post_init__(self) -> None:
        check_agent_name(self.name)


class AgentChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields to change. Other fields stay."""

    name: AgentName | UnsetType = UNSET
    description: Line | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    model: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    then: tuple[Glob, ...] | UnsetType | None = UNSET
    mode: Mode | UnsetType = UNSET
    tools: tuple[Glob, ...] | UnsetType | None = UNSET
    deny: tuple[Glob, ...] | UnsetType = UNSET
    skills: tuple[Glob, ...] | UnsetType = UNSET
    max_tool_iterations: Rounds | UnsetType | None = UNSET
    nodes: tuple[Glob, ...] | UnsetType | None = UNSET
    limits: AgentLimits | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.name is not UNSET:
            check_agent_name(self.name)


class CloneName(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the copy."""

    name: AgentName

    def __post_init__(self) -> None:
        check_agent_name(self.name)


class Ticks(Struct, frozen=True, forbid_unknown_fields=True):
    """The tools to select and to deselect."""

    on: tuple[ToolName, ...] = ()
    off: tuple[ToolName, ...] = ()
