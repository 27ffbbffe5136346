"""Agents and the checkboxes of their tools, as REST shows them (SPEC A1)."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.agents import Mode
from handspan.wire.rest.common import SOMETHING, ToolName

_CHARS: Final = "!-~¡-¬®-ͷΑ-ΡΣ-ωЀ-ӿא-תؠ-يऄ-हก-ะぁ-ゖァ-ヺ一-鿿가-힣🌀-🗿😀-🙏🚀-🛅🤌-🤺🥇-🧿"
AgentName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^[{_CHARS}]+( +[{_CHARS}]+)*$",
        max_length=100,
        description="1 to 100 characters of one line: letters, digits, punctuation, emoji.",
    ),
]
Glob = Annotated[str, Meta(pattern=SOMETHING, max_length=200)]
Rounds = Annotated[int, Meta(ge=0, le=10_000)]
Line = Annotated[str, Meta(max_length=1000)]
KeptWhere: TypeAlias = Literal["settings", "built_in", "store"]


class ShownAgent(Struct, frozen=True):
    """An agent as it is kept."""

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
    kept: KeptWhere
    """Where it is kept. Those of the settings are changed there."""
    tool_count: int
    """How many of the tools that are here now it can call."""


class AgentList(Struct, frozen=True):
    """All agents of the caller."""

    agents: list[ShownAgent]
    default: str


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent to make."""

    name: AgentName
    description: Line = ""
    instructions: str = ""
    model: Annotated[str, Meta(max_length=200)] = ""
    mode: Mode = "automatic"
    tools: tuple[Glob, ...] | None = None
    """Globs of names that it may use; null: all, empty: none."""
    deny: tuple[Glob, ...] = ()
    skills: tuple[Glob, ...] = ()
    max_tool_iterations: Rounds | None = 20
    nodes: tuple[Glob, ...] | None = None
    """Nodes of clients over HTTP whose tools it may use; null: all (SPEC H1)."""


class AgentChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What shall be different; what is not named stays."""

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


class CloneName(Struct, frozen=True, forbid_unknown_fields=True):
    """What the copy is called."""

    name: AgentName


class DeletedAgent(Struct, frozen=True):
    """What became of it."""

    deleted: bool
    name: str
    sessions_moved: int
    """Sessions that go on with the built-in agent."""


class Checkbox(Struct, frozen=True):
    """One tool as a person who chooses sees it: no parameters (SPEC A1)."""

    name: str
    description: str
    permissions: tuple[str, ...]
    selected: bool
    asks: bool
    """A person is asked before it runs."""
    refused: bool
    """The agent's mode never lets it run."""
    disabled_by: str | None


class ToolSelection(Struct, frozen=True):
    """All tools that are here now, ticked or not."""

    agent: str
    tools: list[Checkbox]


class Ticks(Struct, frozen=True, forbid_unknown_fields=True):
    """Which checkboxes change."""

    on: tuple[ToolName, ...] = ()
    off: tuple[ToolName, ...] = ()
