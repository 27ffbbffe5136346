"""The state of the gateway: `/health`, `/ready`, `/ping`, `/api/status`, sources of tools, and nodes (SPEC K)."""

import asyncio
import logging
from typing import Final

from msgspec import structs

from handspan.config.settings import Settings
from handspan.core.channels import ChannelState
from handspan.core.sources import SourceState
from handspan.core.version import VERSION
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.paths import Health, Pong, Ready
from handspan.gateway.rest.models import choose_model
from handspan.gateway.rest.route import Family, RestRequest
from handspan.tools.memory import MemoryFolders
from handspan.wire.rest.status import ListedNode, MemoryStatus, NodeList, SourceList, Status

family: Final = Family("status")
_log = logging.getLogger(__name__)
_DEFAULT_TEMPERATURE: Final = 1.0
"""The default of model APIs."""


@family.get("/health", "open")
async def health(request: RestRequest) -> Health:
    """Whether the gateway answers."""
    return Health()


@family.get("/ready", "open", also_refuses=(503,))
async def ready(request: RestRequest) -> Ready:
    """Whether the gateway can do work: it begins new work, and its store takes writes."""
    nodes = request.parts.nodes
    nodes.note_probe()
    if nodes.is_draining or not request.rest.running_calls.is_open:
        raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
    if nodes.is_cut_off:
        raise Refusal(503, "cut_off", "This node has no connection to the other nodes: ask another one.", 5)
    if problem := await request.store.check_writes():
        _log.warning("Not ready: %s", problem)  # a client without a token does not learn the details
        raise Refusal(503, "store_failed", "The store takes no writes: `handspan doctor` says why.", 5)
    return Ready()


@family.get("/ping", "open")
async def ping(request: RestRequest) -> Pong:
    """Whether the gateway answers, in a shorter form."""
    return Pong()


@family.get("/api/status")
async def status(request: RestRequest) -> Status:
    """The model in use, and what this gateway has."""
    app = request.app
    chosen = await choose_model(request, "")
    agent = (await app.agents.find(owner=request.owner)).agent
    _, port = request.asgi.scope.get("server") or ("", None)
    return Status(
        provider=chosen.provider,
        model=chosen.model,
        temperature=_temperature(app.settings),
        paired=True,
        gateway_port=port or app.settings.gateway.port,
        memory=MemoryStatus("markdown", await asyncio.to_thread(_paragraphs, request)),
        version=VERSION,
        why=chosen.why,
        sandbox=(await app.sandbox.ready()).active,
        tools=len(app.registry.toolbox(agent, request.who).specs()),
        agent=agent.name,
        sources={source.name: _visible_state(request, source.state) for source in app.all_sources},
        channels=channel_states(request),
    )


def channel_states(request: RestRequest) -> dict[str, ChannelState]:
    """Return the state of each channel. Only `admin` tokens see why one does not work."""
    states = {queue.name: queue.state for queue in request.app.messages}
    if may(request.who, ADMIN):
        return states
    return {name: structs.replace(state, reason="") for name, state in states.items()}


@family.get("/api/sources")
async def sources(request: RestRequest) -> SourceList:
    """The sources of tools, and which of them can't be used."""
    return await _list_sources(request)


@family.post("/api/sources/reload", "admin")
async def reload_sources(request: RestRequest) -> SourceList:
    """Read all files of the tools folder again. Files that change are read without this, within a second."""
    await request.app.refresh_tools(is_forced=True)
    return await _list_sources(request)


@family.get("/api/nodes", "admin", tag="nodes")
async def nodes(request: RestRequest) -> NodeList:
    """All nodes: who is there, since when, with which version and load. None where the gateway is alone."""
    every = request.parts.nodes
    listed = [
        ListedNode(
            one.id,
            one.name,
            one.address,
            one.version,
            role=one.role,
            started=moment(one.started),
            lag=one.lag,
            draining=one.is_draining,
            load=one.load,
            here=one.id == every.own,
        )
        for one in await every.nodes()
    ]
    return NodeList(listed)


async def _list_sources(request: RestRequest) -> SourceList:
    app = request.app
    await app.refresh_tools()
    return SourceList({source.name: _visible_state(request, source.state) for source in app.all_sources})


def _visible_state(request: RestRequest, state: SourceState) -> SourceState:
    return state if may(request.who, ADMIN) else state.without_details()


def _temperature(settings: Settings) -> float:
    found = settings.models.get(settings.model or next(iter(settings.models), ""))
    given = found.options.get("temperature") if found else None
    return float(given) if isinstance(given, (int, float)) else _DEFAULT_TEMPERATURE


def _paragraphs(request: RestRequest) -> int:
    """Return how many paragraphs the owner's memory has."""
    content = MemoryFolders(request.app.settings.state / "memory").read(request.owner) or ""
    return sum(1 for part in content.split("\n\n") if part.strip())
