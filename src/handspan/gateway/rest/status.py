"""Is it there, and what is it: `/health`, `/ping`, `/api/status`, models, skills."""

import asyncio
import os
from typing import Annotated, Final

from msgspec import Meta, Struct

from handspan.config.settings import Settings
from handspan.core.context import ToolContext, no_progress
from handspan.core.errors import ConfigError
from handspan.core.principals import Principal
from handspan.core.sources import SourceState
from handspan.core.version import VERSION
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.open_answers import Health, Pong
from handspan.gateway.rest.route import Family, Visit
from handspan.models.choice import choose
from handspan.models.projection import EncodedProjection
from handspan.tools.memory import MemoryRead

family: Final = Family("status")
_USUAL_TEMPERATURE: Final = 1.0
"""What model APIs use where nobody says anything."""


class MemoryStatus(Struct, frozen=True):
    """The owner's long-term memory."""

    backend: str
    count: int
    """Paragraphs."""


class Status(Struct, frozen=True):
    """What runs here."""

    provider: str
    model: str
    temperature: float
    paired: bool
    gateway_port: int
    memory: MemoryStatus
    version: str
    why: str
    """Why this model."""
    sandbox: bool
    """Whether commands run in one."""
    tools: int
    agent: str
    """The agent that is meant where none is named."""
    sources: dict[str, SourceState]
    """What supplies tools, by name. What exactly is wrong with one is shown to `admin` tokens."""


class WhichModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model, or an agent's."""

    model: Annotated[str, Meta(max_length=200)] = ""
    agent: Annotated[str, Meta(max_length=100)] = ""


class ChosenModel(Struct, frozen=True):
    """The model that answers."""

    model: str
    provider: str
    """The API that it speaks; its own name where it needs none."""
    why: str


class Models(Struct, frozen=True):
    """Models that the settings name."""

    models: list[str]
    default: ChosenModel


class ShownSkill(Struct, frozen=True):
    """A skill, usable or not (SPEC A3)."""

    name: str
    description: str
    version: str
    enabled: bool
    where: str
    problems: tuple[str, ...]
    triggers: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()


class SkillList(Struct, frozen=True):
    """All skills that were found."""

    skills: list[ShownSkill]


@family.get("/health", "open")
async def health(visit: Visit) -> Health:
    """Whether the gateway answers."""
    return Health()


@family.get("/ping", "open")
async def ping(visit: Visit) -> Pong:
    """Whether the gateway answers, in fewer words."""
    return Pong()


@family.get("/api/status")
async def status(visit: Visit) -> Status:
    """Which model is used, and what this gateway has."""
    app = visit.doors.app
    chosen = await _which(visit, "")
    agent = (await app.agents.find(owner=visit.owner)).agent
    _, port = visit.request.scope.get("server") or ("", None)
    return Status(
        provider=chosen.provider,
        model=chosen.model,
        temperature=_temperature(app.settings),
        paired=True,
        gateway_port=port or app.settings.gateway.port,
        memory=MemoryStatus("markdown", await asyncio.to_thread(_paragraphs, visit)),
        version=VERSION,
        why=chosen.why,
        sandbox=(await app.sandbox.ready()).active,
        tools=len(app.registry.toolbox(agent, visit.who).specs()),
        agent=agent.name,
        sources={source.name: _shown_state(visit, source.state) for source in app.sources},
    )


@family.get("/api/models")
async def models(visit: Visit) -> Models:
    """The models of the settings, and the one that is used where none is named."""
    return Models(list(visit.doors.app.settings.models), await _which(visit, ""))


@family.get("/api/models/which", also_refuses=(404,))
async def which_model(visit: Visit, query: WhichModel) -> ChosenModel:
    """Which model answers, and why."""
    if query.model:
        return await _which(visit, query.model)
    agents = visit.doors.app.agents
    known = {one.agent.name: one.agent for one in await agents.all(owner=visit.owner)}
    if query.agent and query.agent not in known:
        raise Refusal(404, "not_found", f"There is no agent {query.agent!r}. There are: {', '.join(sorted(known))}.")
    return await _which(visit, known[query.agent].model if query.agent else "")


@family.get("/api/skills")
async def skills(visit: Visit) -> SkillList:
    """Every skill that was found, with what keeps it from being used."""
    known = visit.doors.app.skills
    await known.refresh()
    listing = await asyncio.to_thread(known.listing)
    return SkillList(
        [ShownSkill(one.name, one.description, one.version, one.enabled, one.where, one.problems) for one in listing]
    )


async def _which(visit: Visit, named: str) -> ChosenModel:
    """Made to be looked at: it opens no connection, so there is nothing to close."""
    app, given = visit.doors.app, visit.doors.model_choice
    try:
        chosen = await given() if given and not named else choose(app.settings, app.guard, os.environ, named)
    except ConfigError as error:
        if not named:
            raise
        raise Refusal(404, "not_found", str(error)) from None
    model = chosen.model
    projection = model.projection()
    provider = projection.api if isinstance(projection, EncodedProjection) else model.name
    return ChosenModel(model.name, provider, chosen.why)


def _shown_state(visit: Visit, state: SourceState) -> SourceState:
    return state if may(visit.who, ADMIN) else state.without_details()


def _temperature(settings: Settings) -> float:
    found = settings.models.get(settings.model or next(iter(settings.models), ""))
    said = found.options.get("temperature") if found else None
    return float(said) if isinstance(said, (int, float)) else _USUAL_TEMPERATURE


def _paragraphs(visit: Visit) -> int:
    app = visit.doors.app
    who = Principal(visit.owner)
    ctx = ToolContext("", who, "", None, no_progress, visit.doors.artifacts, app.settings.workspace)
    content = MemoryRead(app.settings.state / "memory").run({}, ctx)["content"]
    assert isinstance(content, str)
    return sum(1 for part in content.split("\n\n") if part.strip())
