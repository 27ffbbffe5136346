"""Tools in REST: the list, why an agent can use one, and the switches (SPEC R8, R9)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.names import Disabled
from handspan.core.principals import OriginKind, ScopeKind
from handspan.core.tool import Annotations
from handspan.core.values import JsonObject
from handspan.wire.rest.fields import SessionId

DefinitionState: TypeAlias = Literal["agreed", "new", "changed", "changed_blocked"]


class ToolQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tools to list."""

    session: SessionId = ""
    """Include the tools of this session. Empty: those of all sessions of the caller."""


class OriginView(Struct, frozen=True):
    """Where a tool comes from."""

    kind: OriginKind
    name: str


class ScopeView(Struct, frozen=True):
    """The callers that see a tool."""

    kind: ScopeKind
    id: str


class ToolView(Struct, frozen=True):
    """A tool, switched off or not."""

    name: str
    description: str
    parameters: JsonObject
    enabled: bool
    source_type: str
    source: str
    origin: OriginView
    scope: ScopeView
    permissions: tuple[str, ...]
    annotations: Annotations
    version: str
    timeout: float | None
    fingerprint: str
    agents: list[str]
    """The caller's agents that can call it (SPEC R4)."""
    shown_to: list[str]
    """Those of `agents` whose models are sent it with every request; the others find it by `search_tools` (SPEC R4)."""
    disabled_by: str | None
    """The pattern that switches it off."""
    internal: bool
    """Hidden from agents until an active skill names it (SPEC C2)."""
    definition: DefinitionState
    """Whether a person agreed to this definition. `changed_blocked`: it can't be called before that (SPEC T5)."""
    missing: str = ""
    """Why no agent is offered it: what is not set. Empty: nothing is missing."""
    refused_to: tuple[str, ...] = ()
    """The caller's connected clients that wanted this name and did not get it, such as `device(phone)` (SPEC R2)."""


class ToolList(Struct, frozen=True):
    """All tools that the caller's sessions can have."""

    tools: list[ToolView]


class CostQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent whose tools are counted."""

    agent: Annotated[str, Meta(max_length=100)] = ""


class ToolCost(Struct, frozen=True):
    """One tool of the agent."""

    name: str
    tokens: int
    """An estimate: a quarter of the bytes of its definition in OpenAI's form. 0: its schema fits no request."""
    shown: bool
    """Whether it is sent with every request."""


class ToolCosts(Struct, frozen=True):
    """How many tokens the tools of an agent take in each request, as an estimate (SPEC R4)."""

    agent: str
    tokens_shown: int
    """Of the tools that are sent with every request; the tools of a session come on top."""
    tokens_all: int
    """Of all tools that the agent may use."""
    tools: list[ToolCost]


class WhyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent and the session of the question."""

    agent: Annotated[str, Meta(max_length=100)] = ""
    session: SessionId = ""


class ReasonView(Struct, frozen=True):
    """One reason, for or against."""

    ok: bool
    text: str


class Why(Struct, frozen=True):
    """Whether an agent can use a tool, and every reason for it."""

    tool: str
    agent: str
    usable: bool
    reasons: list[ReasonView]


class ApiLosses(Struct, frozen=True):
    """What one API of models takes of a tool's schema."""

    api: str
    losses: tuple[str, ...]
    """Rules that its requests can't express. The model reads them in the description, and the engine enforces them."""
    refused: str
    """Why the tool is left out of its requests. Empty: it is sent."""


class ToolLosses(Struct, frozen=True):
    """What each API of models loses of a tool's schema (SPEC M3)."""

    tool: str
    apis: list[ApiLosses]


class Pattern(Struct, frozen=True, forbid_unknown_fields=True):
    """The tools of a switch: a name, a glob or an origin."""

    pattern: Disabled


class SwitchList(Struct, frozen=True):
    """The tools that are off for all owners."""

    disabled: list[str]
    """Switched off by a person. `enable` switches them on."""
    by_settings: list[str]
    """Switched off in the settings, and changed there."""


class Switched(Struct, frozen=True):
    """The effect of a switch."""

    pattern: str
    changed: bool
    """False: it was so before."""
    tools: list[str]
    """The tools that the pattern names now."""
