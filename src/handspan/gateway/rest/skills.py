"""Skills: all that were found, and those that are on in a session (SPEC A3)."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from handspan.agent.conversation import Conversation
from handspan.core.errors import ToolError
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, RestRequest
from handspan.registry.toolbox import Toolbox
from handspan.skills.skills import ListedSkill, tools_of_skills
from handspan.wire.rest.skills import (
    ActingQuery,
    SessionSkills,
    SkillConsent,
    SkillList,
    SkillState,
    SkillSwitch,
    SkillText,
    SkillView,
    UsableTool,
)

family: Final = Family("skills")


@family.get("/api/skills")
async def skills(request: RestRequest) -> SkillList:
    """Every skill that was found, with the problems that keep it from being used."""
    known = request.parts.app.skills
    await known.refresh()
    listing = await asyncio.to_thread(known.listing)
    return SkillList([_render_listed(one, is_operator=may(request.who, ADMIN)) for one in listing])


@family.get("/api/skills/{name}", right="admin")
async def skill_text(request: RestRequest, name: str) -> SkillText:
    """The instructions of one skill, for a person to read before it is enabled."""
    known = request.parts.app.skills
    await known.refresh()
    with _refused_as(404, "not_found"):
        skill = await asyncio.to_thread(known.find_any, name)
    return SkillText(skill.name, skill.instructions, skill.fingerprint, skill.allowed_tools)


@family.put("/api/skills/{name}", right="admin", also_refuses=(409,))
async def allow_skill(request: RestRequest, name: str, body: SkillConsent) -> SkillState:
    """Let a skill of the workspace be used as the person has read it, or take that back."""
    known = request.parts.app.skills
    if not body.enabled:
        return SkillState(name, False, await known.disable(name))
    with _refused_as(409, "not_enabled"):
        return SkillState(name, True, await known.enable(name, body.fingerprint))


@family.get("/api/sessions/{session_id}/skills")
async def session_skills(request: RestRequest, session_id: str, query: ActingQuery) -> SessionSkills:
    """The skills that are on in a session, and the tools that its agent may call now."""
    app, found = request.parts.app, await request.parts.sessions.find_record(session_id, request.owner)
    agent = await find_agent(request, query.agent or found.agent)
    record = await request.parts.store.conversations.find(session_id, owner=request.owner)
    if record is None:  # it has no message yet, and is not stored
        await app.skills.refresh()
        on, notes = app.skills.select(agent.skills)
    else:
        on, notes, _ = await app.loader.active_skills(record, agent)
    caller = app.loader.caller(agent, request.who, session_id, skill_tools=tools_of_skills(on))
    return SessionSkills([skill.name for skill in on], _tools(caller.box), list(notes))


@family.post("/api/sessions/{session_id}/skills", also_refuses=(409,))
async def switch_skill(request: RestRequest, session_id: str, body: SkillSwitch) -> SessionSkills:
    """Switch a skill on or off in a session, from the next round on."""
    await request.parts.sessions.find_record(session_id, request.owner)
    conversation = await _open(request, session_id, body.agent)
    session = request.parts.sessions.get(session_id, request.owner)
    with _refused_as(404, "not_found"):
        loader = request.parts.app.loader
        await (loader.switch_on if body.on else loader.switch_off)(session, body.name)
    return _render(session.conversation or conversation)


def _render_listed(one: ListedSkill, *, is_operator: bool) -> SkillView:
    path, fingerprint = (one.path, one.fingerprint) if is_operator else ("", "")
    return SkillView(
        one.name,
        one.description,
        one.version,
        one.enabled,
        one.where,
        one.problems,
        path=path,
        fingerprint=fingerprint,
        allowed_tools=one.allowed_tools,
    )


@contextlib.contextmanager
def _refused_as(status: int, code: str) -> Iterator[None]:
    """Open a block in which a `ToolError` of skills refuses the request."""
    try:
        yield
    except ToolError as error:
        raise Refusal(status, code, error.message) from None


async def _open(request: RestRequest, session_id: str, agent: str) -> Conversation:
    session = request.parts.sessions.get(session_id, request.owner)
    conversation, _ = await request.parts.sessions.open(session, request.who, agent=agent)
    return conversation


def _render(conversation: Conversation) -> SessionSkills:
    names = [skill.name for skill in (*conversation.skills, *conversation.turn_skills)]
    return SessionSkills(names, _tools(conversation.box), list(conversation.notes))


def _tools(box: Toolbox) -> list[UsableTool]:
    return [UsableTool(spec.name, spec.description) for spec in box.specs()]
