"""Agents and the selection of their tools in REST (SPEC A1)."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.agents import AgentLimits, Mode
from handspan.wire.rest.fields import SOMETHING, ToolName

_NAME_CHARS: Final = "!-~¡-¬®-ͷΑ-ΡΣ-ωЀ-ӿא-תؠ-يऄ-हก-ะぁ-ゖァ-ヺ一-鿿가-힣🌀-🗿😀-🙏🚀-🛅🤌-🤺🥇-🧿"
AgentName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^(?! )( *[{_NAME_CHARS}])+$",  # the long set once: to compile it takes two milliseconds
        max_length=100,
        description="1 to 100 characters of one line: letters, digits, punctuation, emoji.",
    ),
]
Glob = Annotated[str, Meta(pattern=SOMETHING, max_length=200)]
Rounds = Annotated[int, Meta(ge=0, le=10_000)]
Line = Annotated[str, Meta(max_length=1000)]
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


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent to create."""

    name: AgentName
    description: Line = ""
    instructions: str = ""
    model: Annotated[str, Meta(max_length=200)] = ""
    mode: Mode = "automatic"
    tools: tuple[Glob, ...] | None = None
    """Globs of the names of tools that it may use. Null: all; empty: none."""
    deny: tuple[Glob, ...] = ()
    skills: tuple[Glob, ...] = ()
    max_tool_iterations: Rounds | None = 20
    nodes: tuple[Glob, ...] | None = None
    """Nodes of the graph API's clients whose tools it may use. Null: all (SPEC H1)."""
    limits: AgentLimits = AgentLimits()


class AgentChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields to change. Other fields stay."""

    name: AgentName | UnsetType = UNSET
    description: Line | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    model: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    mode: Mode | UnsetType = UNSET
    tools: tuple[Glob, ...] | UnsetType | None = UNSET
    deny: tuple[Glob, ...] | UnsetType = UNSET
    skills: tuple[Glob, ...] | UnsetType = UNSET
    max_tool_iterations: Rounds | UnsetType | None = UNSET
    nodes: tuple[Glob, ...] | UnsetType | None = UNSET
    limits: AgentLimits | UnsetType = UNSET


class CloneName(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the copy."""

    name: AgentName


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


class AgentTools(Struct, frozen=True):
    """All available tools, selected or not."""

    agent: str
    tools: list[Checkbox]


class Ticks(Struct, frozen=True, forbid_unknown_fields=True):
    """The tools to select and to deselect."""

    on: tuple[ToolName, ...] = ()
    off: tuple[ToolName, ...] = ()
