"""Tools: the list, the agents that can call each, the reasons why, and the switches (SPEC R1, R4, R8, R9)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, get_args

from handspan.core.agents import Agent
from handspan.core.bus import SwitchesChanged
from handspan.core.errors import ToolError
from handspan.core.principals import Origin, ToolScope
from handspan.core.questions import QuestionKind
from handspan.core.records import CallFilter
from handspan.core.results import Failure
from handspan.core.tool import ToolSpec
from handspan.core.values import strip_invisible
from handspan.engine.caller import Caller
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.live import ALL_OWNERS
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.models.model import QuarantinedTool
from handspan.models.schema.lowering import Target, estimate_tokens, lower
from handspan.registry.entry import Entry
from handspan.registry.registry import is_named_by
from handspan.registry.selection import Reason
from handspan.registry.toolbox import Toolbox
from handspan.wire.rest import tools as wire

family: Final = Family("tools")

_Boxes: TypeAlias = list[tuple[Agent, Toolbox]]


@family.get("/api/tools", "tools", also_refuses=(404,))
async def tools(request: RestRequest, query: wire.ToolQuery) -> wire.ToolList:
    """Every tool that the caller's sessions can have, switched off or not."""
    await request.app.refresh_tools()
    seen = await visible_entries(request, query.session)
    agents = [one.agent for one in await request.app.agents.all(owner=request.owner)]
    agents = [agent for agent in agents if not request.who.agents or agent.name in request.who.agents]
    boxes = [(agent, request.app.registry.toolbox(agent, request.who)) for agent in agents]
    seen.sort(key=lambda entry: (entry.spec.name, entry.scope.kind, entry.scope.id))
    scopes = {ToolScope("owner", request.owner), *(entry.scope for entry in seen)}
    refused = request.app.registry.rights.refusals(scopes)
    return wire.ToolList([_render_tool(request, entry, boxes, refused) for entry in seen])


@family.get("/api/tools/cost", "tools", also_refuses=(404,))
async def cost(request: RestRequest, query: wire.CostQuery) -> wire.ToolCosts:
    """About how many tokens the tools of an agent take in each request to its model."""
    agent = await find_agent(request, query.agent)
    await request.app.refresh_tools()
    box = request.app.registry.toolbox(agent, request.who)
    shown = {spec.name for spec in box.specs_for_model({})}
    specs = box.specs()
    tokens = await asyncio.to_thread(lambda: [estimate_tokens(spec) for spec in specs])  # many take a second
    tools = [wire.ToolCost(spec.name, count, spec.name in shown) for spec, count in zip(specs, tokens, strict=True)]
    return wire.ToolCosts(agent.name, sum(tool.tokens for tool in tools if tool.shown), sum(tokens), tools)


@family.get("/api/tools/{name}/why")
async def why(request: RestRequest, name: str, query: wire.WhyQuery) -> wire.Why:
    """Why this agent can use this tool, or can't."""
    if query.session:
        await request.find_session(query.session)
    agent = await find_agent(request, query.agent)
    app = request.app
    await app.refresh_tools()
    box = app.registry.toolbox(agent, request.who, query.session)
    reasons = app.explain(box, name, for_operator=may(request.who, ADMIN))
    reasons += await _consent_reasons(request, name, Caller(request.who, agent, box, query.session))
    reasons += await _device_reasons(request, name, box)
    shown = [wire.ReasonView(reason.ok, reason.text) for reason in reasons]
    return wire.Why(name, agent.name, all(reason.ok for reason in reasons), shown)


@family.get("/api/tools/{name}/losses")
async def losses(request: RestRequest, name: str, query: wire.ToolQuery) -> wire.ToolLosses:
    """What each API of models loses of this tool's schema."""
    await request.app.refresh_tools()
    found = [entry.spec for entry in await visible_entries(request, query.session) if entry.spec.name == name]
    if not found:
        raise not_found_refusal("tool", name)
    apis = await asyncio.to_thread(lambda: [_render_losses(found[0], api) for api in get_args(Target)])
    return wire.ToolLosses(name, apis)


@family.get("/api/switches")
async def switches(request: RestRequest) -> wire.SwitchList:
    """The tools that are switched off for all owners."""
    app = request.app
    return wire.SwitchList(list(await app.switches.off()), list(app.settings.tools.disabled))


@family.post("/api/switches/disable", "admin")
async def disable(request: RestRequest, body: wire.Pattern) -> wire.Switched:
    """Switch tools off for all owners: by name, glob, `origin:KIND` or `origin:KIND(NAME)` (SPEC R9)."""
    app = request.app
    changed = await app.switches.switch_off(body.pattern)
    app.registry.disable(body.pattern)
    return _publish_switch(request, body.pattern, changed=changed)


@family.post("/api/switches/enable", "admin")
async def enable(request: RestRequest, body: wire.Pattern) -> wire.Switched:
    """Undo a `disable` of exactly this pattern. Tools that the settings switch off stay off."""
    app = request.app
    changed = await app.switches.switch_on(body.pattern)
    if body.pattern not in app.settings.tools.disabled:
        changed = app.registry.enable(body.pattern) or changed
    return _publish_switch(request, body.pattern, changed=changed)


def _publish_switch(request: RestRequest, pattern: str, *, changed: bool) -> wire.Switched:
    """Tell clients and other nodes of a change, and return the answer."""
    if changed:
        request.parts.live.publish(ALL_OWNERS, "tools", {"switched": pattern})
        request.parts.bus.publish(SwitchesChanged(""))
    registry = request.app.registry
    named = {entry.spec.name for entry in registry if entry.scope.kind == "global" and is_named_by(pattern, entry)}
    return wire.Switched(pattern, changed, sorted(named))


async def _consent_reasons(request: RestRequest, name: str, caller: Caller) -> list[Reason]:
    """Return what the person is asked before a call, or which rule answers in their place (SPEC P5)."""
    entry = caller.box.find(name)
    if entry is None:
        return []
    rules = {
        (rule.kind, rule.subject): rule.answer.decision == "allow"
        for rule in await request.store.rules.all(owner=request.owner)
        if (rule.tool, rule.fingerprint) == (name, entry.spec.fingerprint)
    }
    needed = request.app.engine.consents.find_needed(entry, caller)
    return [_consent_reason(name, kind, subject, rules.get((kind, subject))) for kind, subject in needed]


async def _device_reasons(request: RestRequest, name: str, box: Toolbox) -> list[Reason]:
    """Return a reason if the device refused its last call for ever. Only the device and the journal know that."""
    entry = box.find(name)
    if entry is None or entry.origin.kind != "device":
        return []
    calls, _ = await request.store.ledger.page(CallFilter(tool=name), owner=request.owner, limit=1)
    result = calls[0].result if calls else None
    if not isinstance(result, Failure) or result.code != "permission_denied_forever":
        return []
    text = f"The device {entry.origin.name!r} refused its last call for ever: {strip_invisible(result.message)}"
    return [Reason(ok=False, text=f"{text} If that has changed there, call it again.")]


def _consent_reason(name: str, kind: QuestionKind, subject: str, rule: bool | None) -> Reason:
    about = f"it needs the permission {subject!r}." if kind == "permission" else subject
    if rule is None:
        return Reason(ok=True, text=f"A person is asked first: {about}")
    how = f"`handspan rules forget {name}` takes the rule back."
    return Reason(
        rule, f'Your rule "always" permits it: {about}' if rule else f'Your rule "never" refuses it: {about} {how}'
    )


async def visible_entries(request: RestRequest, session: str) -> list[Entry]:
    """Return the tools that all owners share, those of the owner, and those of the owner's sessions.

    With `session`, only that session counts; raises `Refusal` when the owner has none with this id.
    """
    entries = list(request.app.registry)
    wanted = {session} if session else {entry.scope.id for entry in entries if entry.scope.kind == "session"}
    own = {one for one in wanted if await _is_own_session(request, one)}
    if session and not own:
        raise not_found_refusal("session", session)
    scopes = {("global", ""), ("owner", request.owner), *(("session", one) for one in own)}
    return [entry for entry in entries if (entry.scope.kind, entry.scope.id) in scopes]


async def _is_own_session(request: RestRequest, session: str) -> bool:
    """Whether the caller has a session with this id."""
    try:
        await request.find_session(session)
    except ToolError as error:
        if error.code == "file_not_found":
            return False
        raise
    return True


def _callers(request: RestRequest, boxes: _Boxes, entry: Entry) -> _Boxes:
    """Return the agents that can call the tool, each with its toolbox: for a session's tool, that of the session.

    An agent for whom a tool of the same name and a narrower scope hides this one can't call it.
    """
    name, registry = entry.spec.name, request.app.registry
    if entry.scope.kind == "session":
        boxes = [(agent, registry.toolbox(agent, request.who, entry.scope.id)) for agent, _ in boxes]
    return [(agent, box) for agent, box in boxes if box.find(name) is entry]


def _render_tool(
    request: RestRequest, entry: Entry, boxes: _Boxes, refused: Mapping[str, Sequence[Origin]]
) -> wire.ToolView:
    """Return the tool as the caller sees it. `refused`: the clients that wanted its name in vain."""
    spec, origin = entry.spec, entry.origin
    disabled_by = request.app.registry.find_disabling(entry)
    callers, is_of_session = _callers(request, boxes, entry), entry.scope.kind == "session"
    return wire.ToolView(
        name=spec.name,
        description=spec.description,
        parameters=spec.parameters,
        enabled=disabled_by is None,
        source_type=origin.kind,
        source=origin.name or origin.kind,
        origin=wire.OriginView(origin.kind, origin.name),
        scope=wire.ScopeView(entry.scope.kind, entry.scope.id),
        permissions=spec.permissions,
        annotations=spec.annotations,
        version=spec.version,
        timeout=entry.timeout,
        fingerprint=spec.fingerprint,
        agents=[agent.name for agent, _ in callers],
        shown_to=[agent.name for agent, box in callers if is_of_session or box.is_always_sent(spec.name)],
        disabled_by=disabled_by,
        internal=entry.internal,
        definition=_definition(entry),
        missing=entry.missing,
        refused_to=tuple(map(str, refused.get(spec.name, ()))),
    )


def _render_losses(spec: ToolSpec, api: Target) -> wire.ApiLosses:
    lowered = lower(spec, api)
    if isinstance(lowered, QuarantinedTool):
        return wire.ApiLosses(api, (), lowered.reason)
    return wire.ApiLosses(api, lowered.losses, "")


def _definition(entry: Entry) -> wire.DefinitionState:
    if entry.change is None:
        return "agreed"
    return "new" if entry.is_new else "changed_blocked" if entry.change.blocks else "changed"
