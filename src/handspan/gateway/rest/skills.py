"""Skills: all that were found, and those that are on in a session (SPEC A3)."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import structs

from handspan.core.errors import ToolError
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, RestRequest
from handspan.registry.toolbox import Toolbox
from handspan.skills.skills import ListedSkill, tools_of_skills
from handspan.wire.rest import skills as wire

family: Final = Family("skills")


@family.get("/api/skills")
async def skills(request: RestRequest) -> wire.SkillList:
    """Every skill that was found, with the problems that keep it from being used."""
    known = request.app.skills
    await known.refresh()
    listing = await asyncio.to_thread(known.listing)
    return wire.SkillList([_render_listed(one, is_operator=may(request.who, ADMIN)) for one in listing])


@family.get("/api/skills/{name}", right="admin")
async def skill_text(request: RestRequest, name: str) -> wire.SkillText:
    """The instructions of one skill, for a person to read before it is enabled."""
    known = request.app.skills
    await known.refresh()
    with _refuse_as(404, "not_found"):
        skill = await asyncio.to_thread(known.find_any, name)
    return wire.SkillText(skill.name, skill.instructions, skill.fingerprint, skill.allowed_tools)


@family.put("/api/skills/{name}", right="admin", also_refuses=(409,))
async def allow_skill(request: RestRequest, name: str, body: wire.SkillConsent) -> wire.SkillState:
    """Let a skill of the workspace be used as the person has read it, or take that back."""
    known = request.app.skills
    if not body.enabled:
        return wire.SkillState(name, enabled=False, changed=await known.disable(name))
    with _refuse_as(409, "not_enabled"):
        return wire.SkillState(name, enabled=True, changed=await known.enable(name, body.fingerprint))


@family.get("/api/sessions/{session_id}/skills")
async def session_skills(request: RestRequest, session_id: str, query: wire.ActingQuery) -> wire.SessionSkills:
    """The skills that are on in a session, and the tools that its agent may call now."""
    app, found = request.app, await request.find_session(session_id)
    agent = await find_agent(request, query.agent or found.agent)
    record = await request.store.conversations.find(session_id, owner=request.owner)
    if record is None:  # it has no message yet, and is not stored
        await app.skills.refresh()
        on, notes = app.skills.select(agent.skills)
    else:
        on, notes, _ = await app.loader.active_skills(record, agent)
    caller = app.loader.caller(agent, request.who, session_id, skill_tools=tools_of_skills(on))
    return wire.SessionSkills([skill.name for skill in on], _tools(caller.box), list(notes))


@family.post("/api/sessions/{session_id}/skills", also_refuses=(409,))
async def switch_skill(request: RestRequest, session_id: str, body: wire.SkillSwitch) -> wire.SessionSkills:
    """Switch a skill on or off in a session, from the next round on."""
    await request.find_session(session_id)
    session = request.sessions.get(session_id, request.owner)
    conversation, _ = await request.sessions.open(session, request.who, agent=body.agent)
    with _refuse_as(404, "not_found"):
        loader = request.app.loader
        await (loader.switch_on if body.on else loader.switch_off)(session, body.name)
    now = session.conversation or conversation
    names = [skill.name for skill in (*now.skills, *now.turn_skills)]
    return wire.SessionSkills(names, _tools(now.box), list(now.notes))


def _render_listed(one: ListedSkill, *, is_operator: bool) -> wire.SkillView:
    shown = msgspec.convert(one, wire.SkillView, from_attributes=True)
    return shown if is_operator else structs.replace(shown, path="", fingerprint="")


@contextlib.contextmanager
def _refuse_as(status: int, code: str) -> Iterator[None]:
    """Open a block in which a `ToolError` of skills refuses the request."""
    try:
        yield
    except ToolError as error:
        raise Refusal(status, code, error.message) from None


def _tools(box: Toolbox) -> list[wire.UsableTool]:
    return [wire.UsableTool(spec.name, spec.description) for spec in box.specs()]
