"""Tools, why one can be used, and the switches, as REST shows them (SPEC R8, R9)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.names import Disabled
from handspan.core.principals import OriginKind, ScopeKind
from handspan.core.tool import Annotations
from handspan.core.values import JsonObject
from handspan.wire.rest.fields import SessionId

DefinitionState: TypeAlias = Literal["agreed", "new", "changed", "changed_blocked"]


class ToolQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tools."""

    session: SessionId = ""
    """With the tools of this session; empty: with those of all sessions of the caller."""


class ShownOrigin(Struct, frozen=True):
    """Where a tool comes from."""

    kind: OriginKind
    name: str


class ShownScope(Struct, frozen=True):
    """Who sees a tool."""

    kind: ScopeKind
    id: str


class ShownTool(Struct, frozen=True):
    """A tool as it is now, switched off or not."""

    name: str
    description: str
    parameters: JsonObject
    enabled: bool
    source_type: str
    source: str
    origin: ShownOrigin
    scope: ShownScope
    permissions: tuple[str, ...]
    annotations: Annotations
    version: str
    timeout: float | None
    fingerprint: str
    agents: list[str]
    """The caller's agents that can call it (SPEC R4)."""
    disabled_by: str | None
    """The pattern that switches it off."""
    internal: bool
    """Hidden from agents until a skill that is on names it (SPEC C2)."""
    definition: DefinitionState
    """Whether a person agreed to it as it is. `changed_blocked`: it can't be called before that (SPEC T5)."""


class ToolList(Struct, frozen=True):
    """All tools that the caller's sessions could have."""

    tools: list[ShownTool]


class WhyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whom the question is about."""

    agent: Annotated[str, Meta(max_length=100)] = ""
    session: SessionId = ""


class ShownReason(Struct, frozen=True):
    """One line of the answer."""

    ok: bool
    text: str


class Why(Struct, frozen=True):
    """Whether an agent can use a tool, and every reason for it."""

    tool: str
    agent: str
    usable: bool
    reasons: list[ShownReason]


class Pattern(Struct, frozen=True, forbid_unknown_fields=True):
    """What a switch is about."""

    pattern: Disabled


class SwitchList(Struct, frozen=True):
    """What is off for everybody."""

    disabled: list[str]
    """Switched off by a person; `enable` takes one back."""
    by_settings: list[str]
    """Switched off in the settings, to be changed there."""


class Switched(Struct, frozen=True):
    """What a switch did."""

    pattern: str
    changed: bool
    """False: it was so before."""
    tools: list[str]
    """The tools that the pattern names now."""
