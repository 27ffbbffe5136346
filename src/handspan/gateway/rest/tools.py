"""Tools: the list, the agents that can call each, the reasons why, and the switches (SPEC R1, R4, R8, R9)."""

from typing import Final, TypeAlias

from handspan.core.agents import Agent
from handspan.core.errors import ToolError
from handspan.core.questions import QuestionKind
from handspan.engine.caller import Caller
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.live import ALL_OWNERS
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, Visit
from handspan.registry.entry import Entry
from handspan.registry.registry import is_named_by
from handspan.registry.selection import Reason
from handspan.registry.toolbox import Toolbox
from handspan.wire.rest.tools import (
    DefinitionState,
    Pattern,
    ShownOrigin,
    ShownReason,
    ShownScope,
    ShownTool,
    Switched,
    SwitchList,
    ToolList,
    ToolQuery,
    Why,
    WhyQuery,
)

family: Final = Family("tools")

_Boxes: TypeAlias = list[tuple[Agent, Toolbox]]


@family.get("/api/tools", "tools", also_refuses=(404,))
async def tools(visit: Visit, query: ToolQuery) -> ToolList:
    """Every tool that the caller's sessions can have, switched off or not."""
    await visit.parts.app.refresh_tools()
    seen = await visible_entries(visit, query.session)
    agents = [one.agent for one in await visit.parts.app.agents.all(owner=visit.owner)]
    agents = [agent for agent in agents if not visit.who.agents or agent.name in visit.who.agents]
    boxes = [(agent, visit.parts.app.registry.toolbox(agent, visit.who)) for agent in agents]
    seen.sort(key=lambda entry: (entry.spec.name, entry.scope.kind, entry.scope.id))
    return ToolList([_render_tool(visit, entry, boxes) for entry in seen])


@family.get("/api/tools/{name}/why")
async def why(visit: Visit, name: str, query: WhyQuery) -> Why:
    """Why this agent can use this tool, or can't."""
    if query.session:
        await visit.parts.sessions.record(query.session, visit.owner)
    agent = await find_agent(visit, query.agent)
    app = visit.parts.app
    await app.refresh_tools()
    box = app.registry.toolbox(agent, visit.who, query.session)
    reasons = app.explain(box, name, for_operator=may(visit.who, ADMIN))
    reasons += await _consent_reasons(visit, name, Caller(visit.who, agent, box, query.session))
    shown = [ShownReason(reason.ok, reason.text) for reason in reasons]
    return Why(name, agent.name, all(reason.ok for reason in reasons), shown)


@family.get("/api/switches")
async def switches(visit: Visit) -> SwitchList:
    """The tools that are switched off for all owners."""
    app = visit.parts.app
    return SwitchList(list(await app.switches.off()), list(app.settings.tools.disabled))


@family.post("/api/switches/disable", "admin")
async def disable(visit: Visit, body: Pattern) -> Switched:
    """Switch tools off for all owners: by name, glob, `origin:KIND` or `origin:KIND(NAME)` (SPEC R9)."""
    app = visit.parts.app
    changed = await app.switches.switch_off(body.pattern)
    app.registry.disable(body.pattern)
    return _switch_answer(visit, body.pattern, changed)


@family.post("/api/switches/enable", "admin")
async def enable(visit: Visit, body: Pattern) -> Switched:
    """Undo a `disable` of exactly this pattern. Tools that the settings switch off stay off."""
    app = visit.parts.app
    changed = await app.switches.switch_on(body.pattern)
    if body.pattern not in app.settings.tools.disabled:
        changed = app.registry.enable(body.pattern) or changed
    return _switch_answer(visit, body.pattern, changed)


def _switch_answer(visit: Visit, pattern: str, changed: bool) -> Switched:
    if changed:
        visit.parts.live.publish(ALL_OWNERS, "tools", {"switched": pattern})
    registry = visit.parts.app.registry
    named = {entry.spec.name for entry in registry if entry.scope.kind == "global" and is_named_by(pattern, entry)}
    return Switched(pattern, changed, sorted(named))


async def _consent_reasons(visit: Visit, name: str, caller: Caller) -> list[Reason]:
    """What the person is asked before a call, or which rule answers in their place (SPEC P5)."""
    entry = caller.box.find(name)
    if entry is None:
        return []
    rules = {
        (rule.kind, rule.subject): rule.answer.decision == "allow"
        for rule in await visit.parts.store.rules.all(owner=visit.owner)
        if (rule.tool, rule.fingerprint) == (name, entry.spec.fingerprint)
    }
    needed = visit.parts.app.engine.consents_needed(entry, caller)
    return [_consent_reason(name, kind, subject, rules.get((kind, subject))) for kind, subject in needed]


def _consent_reason(name: str, kind: QuestionKind, subject: str, rule: bool | None) -> Reason:
    about = f"it needs the permission {subject!r}." if kind == "permission" else subject
    if rule is None:
        return Reason(True, f"A person is asked first: {about}")
    how = f"`handspan questions forget {name}` takes the rule back."
    return Reason(
        rule, f'Your rule "always" permits it: {about}' if rule else f'Your rule "never" refuses it: {about} {how}'
    )


async def visible_entries(visit: Visit, session: str) -> list[Entry]:
    """The tools that all owners share, those of the owner, and those of the owner's sessions."""
    entries = list(visit.parts.app.registry)
    wanted = {session} if session else {entry.scope.id for entry in entries if entry.scope.kind == "session"}
    own = {one for one in wanted if await _is_own(visit, one)}
    if session and not own:
        raise not_found("session", session)
    scopes = {("global", ""), ("owner", visit.owner), *(("session", one) for one in own)}
    return [entry for entry in entries if (entry.scope.kind, entry.scope.id) in scopes]


async def _is_own(visit: Visit, session: str) -> bool:
    try:
        await visit.parts.sessions.record(session, visit.owner)
    except ToolError as error:
        if error.code == "file_not_found":
            return False
        raise
    return True


def _callers(visit: Visit, boxes: _Boxes, entry: Entry) -> list[str]:
    """The agents that can call the tool, in its session if it has one. A tool of a narrower scope hides it."""
    name, registry = entry.spec.name, visit.parts.app.registry
    if entry.scope.kind == "session":
        boxes = [(agent, registry.toolbox(agent, visit.who, entry.scope.id)) for agent, _ in boxes]
    return [agent.name for agent, box in boxes if box.find(name) is entry]


def _render_tool(visit: Visit, entry: Entry, boxes: _Boxes) -> ShownTool:
    spec, origin = entry.spec, entry.origin
    disabled_by = visit.parts.app.registry.disabled_by(entry)
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
