"""The tools: what there is, who can call it, why somebody can't, and the switches (SPEC R1, R4, R8, R9)."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.config.settings import Disabled
from handspan.core.agents import Agent
from handspan.core.errors import ToolError
from handspan.core.principals import OriginKind, ScopeKind
from handspan.core.tool import Annotations
from handspan.core.values import JsonObject
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.live import EVERYBODY
from handspan.gateway.rest.agents import agent_called
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, Visit
from handspan.gateway.rest.shown import SessionId
from handspan.registry.entry import Entry
from handspan.registry.registry import is_named_by
from handspan.registry.toolbox import Toolbox

family: Final = Family("tools")

DefinitionState: TypeAlias = Literal["agreed", "new", "changed", "changed_blocked"]
_Boxes: TypeAlias = list[tuple[Agent, Toolbox]]


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


@family.get("/api/tools", also_refuses=(404,))
async def tools(visit: Visit, query: ToolQuery) -> ToolList:
    """Every tool that the caller's sessions could have, those that are switched off too."""
    seen = await _seen(visit, query.session)
    agents = [one.agent for one in await visit.doors.app.agents.all(owner=visit.owner)]
    boxes = [(agent, visit.doors.app.registry.toolbox(agent, visit.who)) for agent in agents]
    seen.sort(key=lambda entry: (entry.spec.name, entry.scope.kind, entry.scope.id))
    return ToolList([_shown(visit, entry, boxes) for entry in seen])


@family.get("/api/tools/{name}/why")
async def why(visit: Visit, name: str, query: WhyQuery) -> Why:
    """Why this agent can use this tool, or can't."""
    if query.session:
        await visit.doors.store.conversations.get(query.session, owner=visit.owner)
    agent = await agent_called(visit, query.agent)
    app = visit.doors.app
    box = app.registry.toolbox(agent, visit.who, query.session)
    reasons = app.explain(box, name, for_operator=may(visit.who, ADMIN))
    shown = [ShownReason(reason.ok, reason.text) for reason in reasons]
    return Why(name, agent.name, all(reason.ok for reason in reasons), shown)


@family.get("/api/switches")
async def switches(visit: Visit) -> SwitchList:
    """What is switched off for everybody."""
    app = visit.doors.app
    return SwitchList(list(await app.switches.off()), list(app.settings.tools.disabled))


@family.post("/api/switches/disable", "admin")
async def disable(visit: Visit, body: Pattern) -> Switched:
    """Switch a tool off for everybody: by name, glob, `origin:KIND` or `origin:KIND(NAME)` (SPEC R9)."""
    app = visit.doors.app
    changed = await app.switches.switch_off(body.pattern)
    app.registry.disable(body.pattern)
    return _switched(visit, body.pattern, changed)


@family.post("/api/switches/enable", "admin")
async def enable(visit: Visit, body: Pattern) -> Switched:
    """Take back a `disable` of exactly this pattern. What the settings switch off stays off."""
    app = visit.doors.app
    changed = await app.switches.switch_on(body.pattern)
    if body.pattern not in app.settings.tools.disabled:
        changed = app.registry.enable(body.pattern) or changed
    return _switched(visit, body.pattern, changed)


def _switched(visit: Visit, pattern: str, changed: bool) -> Switched:
    if changed:
        visit.doors.live.publish(EVERYBODY, "tools", {"switched": pattern})
    registry = visit.doors.app.registry
    named = {entry.spec.name for entry in registry if entry.scope.kind == "global" and is_named_by(pattern, entry)}
    return Switched(pattern, changed, sorted(named))


async def _seen(visit: Visit, session: str) -> list[Entry]:
    """What is everybody's, the owner's, or of a session that is the owner's: nothing of anybody else's."""
    entries = list(visit.doors.app.registry)
    wanted = {session} if session else {entry.scope.id for entry in entries if entry.scope.kind == "session"}
    own = {one for one in wanted if await _is_own(visit, one)}
    if session and not own:
        raise not_found("session", session)
    scopes = {("global", ""), ("owner", visit.owner), *(("session", one) for one in own)}
    return [entry for entry in entries if (entry.scope.kind, entry.scope.id) in scopes]


async def _is_own(visit: Visit, session: str) -> bool:
    try:
        await visit.doors.store.conversations.get(session, owner=visit.owner)
    except ToolError as error:
        if error.code == "file_not_found":
            return False
        raise
    return True


def _callers(visit: Visit, boxes: _Boxes, entry: Entry) -> list[str]:
    """The agents that can call it, in its session if it has one; a nearer tool of its name hides it."""
    name, registry = entry.spec.name, visit.doors.app.registry
    if entry.scope.kind == "session":
        boxes = [(agent, registry.toolbox(agent, visit.who, entry.scope.id)) for agent, _ in boxes]
    return [agent.name for agent, box in boxes if box.find(name) is entry]


def _shown(visit: Visit, entry: Entry, boxes: _Boxes) -> ShownTool:
    spec, origin = entry.spec, entry.origin
    disabled_by = visit.doors.app.registry.disabled_by(entry)
    return ShownTool(
        name=spec.name,
        description=spec.description,
        parameters=spec.parameters,
        enabled=disabled_by is None,
        source_type=origin.kind,
        source=origin.name or origin.kind,
        origin=ShownOrigin(origin.kind, origin.name),
        scope=ShownScope(entry.scope.kind, entry.scope.id),
        permissions=spec.permissions,
        annotations=spec.annotations,
        version=spec.version,
        timeout=entry.timeout,
        fingerprint=spec.fingerprint,
        agents=_callers(visit, boxes, entry),
        disabled_by=disabled_by,
        internal=entry.internal,
        definition=_definition(entry),
    )


def _definition(entry: Entry) -> DefinitionState:
    if entry.change is None:
        return "agreed"
    return "new" if entry.is_new else "changed_blocked" if entry.change.blocks else "changed"
