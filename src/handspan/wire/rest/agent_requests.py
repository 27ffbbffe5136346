"""What a client sends to make and change agents (SPEC A1)."""

import re
from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.agents import AgentLimits, Mode
from handspan.wire.rest.fields import SOMETHING, ToolName

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
