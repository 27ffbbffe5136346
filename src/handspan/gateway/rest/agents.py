"""Agents: listed, created, changed, cloned, deleted; and the selection of their tools (SPEC A1)."""

from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from msgspec import UNSET, structs

from handspan.agent.agents import KnownAgent, selects, tick_tool, untick_tool
from handspan.core.agents import GENERAL, Agent, mode_asks, mode_refuses
from handspan.core.errors import ConfigError
from handspan.core.tool import SEARCH_TOOLS
from handspan.gateway.entry.auth import check_agent
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.registry.entry import Entry
from handspan.registry.selection import why_unusable
from handspan.wire.rest.agents import (
    AgentChange,
    AgentList,
    AgentTools,
    AgentView,
    Checkbox,
    CloneName,
    DeletedAgent,
    KeptWhere,
    NewAgent,
    Ticks,
)

_IDLE_SEARCH: Final = "it is there when the agent has more tools than a model is sent (setting tools.shown)"
_ASKS_NONE: Final = "this agent may ask no other one (its setting may_ask)"
family: Final = Family("agents")


@family.get("/api/agents")
async def agents(request: RestRequest) -> AgentList:
    """The caller's agents, the built-in one first."""
    known = await request.app.agents.all(owner=request.owner)
    return AgentList([_render_agent(request, one) for one in known], request.app.settings.default_agent)


@family.post("/api/agents", status=201, also_refuses=(409,), size="large")
async def create_agent(request: RestRequest, body: NewAgent) -> AgentView:
    """Create an agent. Its name has to be free."""
    await _check_name_is_free(request, body.name)
    given = structs.asdict(body) | {"max_tool_iterations": body.max_tool_iterations or None}
    await request.app.agents.create(Agent(**given), owner=request.owner)
    return await _publish_changed(request, body.name)


@family.get("/api/agents/{name}")
async def agent(request: RestRequest, name: str) -> AgentView:
    """One agent."""
    return _render_agent(request, await _find_known(request, name))


@family.patch("/api/agents/{name}", also_refuses=(409,), size="large")
async def edit_agent(request: RestRequest, name: str, body: AgentChange) -> AgentView:
    """Change the fields that the body names. With a new name, its sessions follow."""
    await _find_known(request, name)
    given = {field: value for field, value in structs.asdict(body).items() if value is not UNSET}
    if given.get("max_tool_iterations") == 0:
        given["max_tool_iterations"] = None
    if given.get("name", name) != name:
        if name == GENERAL.name:
            raise Refusal(409, "settings", f"The agent {name!r} is built-in and keeps its name: clone it instead.")
        await _check_name_is_free(request, given["name"])
    change = partial(structs.replace, **given)
    changed = await request.app.agents.edit(name, change, owner=request.owner)
    return await _publish_changed(request, changed.name)


@family.delete("/api/agents/{name}", also_refuses=(409,))
async def delete_agent(request: RestRequest, name: str) -> DeletedAgent:
    """Remove an agent. Its sessions continue with the built-in agent."""
    await _find_known(request, name)
    if name == GENERAL.name:
        raise Refusal(409, "settings", f"The agent {name!r} is built-in and can't be removed.")
    moved = await request.app.agents.delete(name, owner=request.owner)
    request.publish("agents", name=name, change="deleted")
    return DeletedAgent(deleted=True, name=name, sessions_moved=moved)


@family.post("/api/agents/{name}/clone", status=201, also_refuses=(409,))
async def clone_agent(request: RestRequest, name: str, body: CloneName) -> AgentView:
    """Copy an agent under another name."""
    await _find_known(request, name)
    await _check_name_is_free(request, body.name)
    await request.app.agents.clone(name, body.name, owner=request.owner)
    return await _publish_changed(request, body.name)


@family.get("/api/agents/{name}/tools")
async def selection(request: RestRequest, name: str) -> AgentTools:
    """Every tool that is available now, selected or not."""
    return _selection(request, (await _find_known(request, name)).agent)


@family.patch("/api/agents/{name}/tools", also_refuses=(409,))
async def select(request: RestRequest, name: str, body: Ticks) -> AgentTools:
    """Select and deselect tools. The others stay as they are."""
    await _find_known(request, name)
    if both := set(body.on) & set(body.off):
        raise Refusal(409, "conflict", f"{min(both)!r} can't be both ticked and unticked. Name it once.")
    chosen = await request.app.agents.edit(name, partial(_apply_ticks, body), owner=request.owner)
    request.publish("agents", name=name, change="changed")
    return _selection(request, chosen)


def _apply_ticks(ticks: Ticks, agent: Agent) -> Agent:
    for tool in ticks.off:
        agent = untick_tool(agent, tool)
    for tool in ticks.on:
        agent = tick_tool(agent, tool)
    return agent


async def find_agent(request: RestRequest, name: str) -> Agent:
    """Return the caller's agent of this name, or the default one. Raises `Refusal` (404) when there is none."""
    agent = (await _find_known(request, name)).agent
    check_agent(request.who, agent.name)
    return agent


async def _find_known(request: RestRequest, name: str) -> KnownAgent:
    try:
        return await request.app.agents.find(name or None, owner=request.owner)
    except ConfigError as error:
        if not name:  # the settings name an agent that does not exist
            raise
        raise Refusal(404, "not_found", str(error)) from None


async def _check_name_is_free(request: RestRequest, name: str) -> None:
    taken = [one.agent.name for one in await request.app.agents.all(owner=request.owner)]
    if name in taken:
        raise Refusal(409, "taken", f"There is an agent {name!r} already: choose another name.")


async def _publish_changed(request: RestRequest, name: str) -> AgentView:
    request.publish("agents", name=name, change="changed")
    return _render_agent(request, await _find_known(request, name))


def _render_agent(request: RestRequest, known: KnownAgent) -> AgentView:
    given = structs.asdict(known.agent)
    del given["asker_modes"]  # no agent of a list works for another one
    del given["unattended"]
    kept: KeptWhere = (
        "settings" if known.is_of_settings else "built_in" if known.agent.name == GENERAL.name else "store"
    )
    count = len(request.app.registry.toolbox(known.agent, request.who).specs())
    return AgentView(**given, kept=kept, tool_count=count)


def _selection(request: RestRequest, chosen: Agent) -> AgentTools:
    registry = request.app.registry
    scopes = (("global", ""), ("owner", request.owner))
    seen = [entry for entry in registry if (entry.scope.kind, entry.scope.id) in scopes]
    seen.sort(key=lambda entry: entry.spec.name)
    listed = {spec.name for spec in registry.toolbox(chosen, request.who).specs()}
    return AgentTools(chosen.name, [_checkbox(request, chosen, entry, listed) for entry in seen])


def _checkbox(request: RestRequest, chosen: Agent, entry: Entry, listed: AbstractSet[str]) -> Checkbox:
    """Return one tool of the selection. `listed`: the tools that the agent has now."""
    spec = entry.spec
    is_idle_search = spec.name == SEARCH_TOOLS and selects(chosen, spec.name) and spec.name not in listed
    asks_none = entry.facts.answered_by == "agent" and not chosen.may_ask
    must_read = mode_refuses(chosen.mode, spec.annotations)
    return Checkbox(
        name=spec.name,
        origin=str(entry.origin),
        description=spec.description,
        permissions=spec.permissions,
        selected=selects(chosen, spec.name),
        asks=mode_asks(chosen.mode, spec.annotations),
        refused=must_read and entry.is_read_only is None,
        disabled_by=request.app.registry.find_disabling(entry),
        only_reads=must_read and entry.is_read_only is not None,
        unusable=why_unusable(entry) or (_IDLE_SEARCH if is_idle_search else _ASKS_NONE if asks_none else ""),
    )
