"""Skills: all that were found, and those that are on in a session (SPEC A3)."""

import asyncio
from typing import Final

from handspan.agent.conversation import Conversation
from handspan.core.errors import ToolError
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, Visit
from handspan.registry.toolbox import Toolbox
from handspan.skills.skills import allowed_globs
from handspan.wire.rest.status import ActingQuery, SessionSkills, ShownSkill, SkillList, SkillSwitch, UsableTool

family: Final = Family("skills")


@family.get("/api/skills")
async def skills(visit: Visit) -> SkillList:
    """Every skill that was found, with the problems that keep it from being used."""
    known = visit.parts.app.skills
    await known.refresh()
    listing = await asyncio.to_thread(known.listing)
    return SkillList(
        [ShownSkill(one.name, one.description, one.version, one.enabled, one.where, one.problems) for one in listing]
    )


@family.get("/api/sessions/{session_id}/skills")
async def session_skills(visit: Visit, session_id: str, query: ActingQuery) -> SessionSkills:
    """The skills that are on in a session, and the tools that its agent may call now."""
    record = await visit.parts.store.conversations.find(session_id, owner=visit.owner)
    if record is not None:
        return _render(await _open(visit, session_id, query.agent))
    agent, app = await find_agent(visit, query.agent), visit.parts.app
    await app.skills.refresh()
    on, notes = app.skills.select(agent.skills)
    box = app.registry.toolbox(agent, visit.who, session_id, skill_tools=allowed_globs(on))
    return SessionSkills([skill.name for skill in on], _tools(box), list(notes))


@family.post("/api/sessions/{session_id}/skills", also_refuses=(409,))
async def switch_skill_on(visit: Visit, session_id: str, body: SkillSwitch) -> SessionSkills:
    """Switch a skill on in a session, from the next round until the session is loaded again."""
    conversation = await _open(visit, session_id, body.agent)
    session = visit.parts.sessions.get(session_id, visit.owner)
    try:
        await visit.parts.app.loader().switch_on(session, body.name)
    except ToolError as error:
        raise Refusal(404, "not_found", error.message) from None
    return _render(session.conversation or conversation)


async def _open(visit: Visit, session_id: str, agent: str) -> Conversation:
    session = visit.parts.sessions.get(session_id, visit.owner)
    conversation, _ = await visit.parts.sessions.open(session, visit.who, agent=agent)
    return conversation


def _render(conversation: Conversation) -> SessionSkills:
    names = [skill.name for skill in conversation.skills]
    return SessionSkills(names, _tools(conversation.caller.box), list(conversation.notes))


def _tools(box: Toolbox) -> list[UsableTool]:
    return [UsableTool(spec.name, spec.description) for spec in box.specs()]
