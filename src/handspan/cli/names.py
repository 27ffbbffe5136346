"""The names that a person may type, as the gateway knows them: shells and the chat complete them."""

from typing import TypeAlias

from handspan.cli.requests import Requests
from handspan.wire.rest.agents import AgentList
from handspan.wire.rest.artifacts import ArtifactList
from handspan.wire.rest.devices import DeviceList
from handspan.wire.rest.models import Models
from handspan.wire.rest.questions import QuestionList, RuleList
from handspan.wire.rest.schedules import ScheduleList
from handspan.wire.rest.sessions import SessionList
from handspan.wire.rest.skills import SkillList
from handspan.wire.rest.tools import ToolList

Words: TypeAlias = list[tuple[str, str]]
"""Names, each with a few words about it."""


async def list_names(requests: Requests, kind: str) -> Words:
    """Return the names of this kind; none of a kind that is not known."""
    match kind:
        case "tools":
            return [(one.name, one.description) for one in (await requests.get("/api/tools", ToolList)).tools]
        case "agents":
            return [(one.name, one.description) for one in (await requests.get("/api/agents", AgentList)).agents]
        case "sessions":
            listed = (await requests.get("/api/sessions", SessionList, limit="50")).sessions
            return [(one.session_id, one.name) for one in listed]
        case "models":
            return [(name, "") for name in (await requests.get("/api/models", Models)).models]
        case "skills":
            return [(one.name, one.description) for one in (await requests.get("/api/skills", SkillList)).skills]
        case "devices":
            return [(one.label, one.name) for one in (await requests.get("/api/devices", DeviceList)).devices]
        case "questions":
            return [(one.id, one.subject) for one in (await requests.get("/api/questions", QuestionList)).questions]
        case "rules":
            return [(one.tool, one.answer) for one in (await requests.get("/api/rules", RuleList)).rules]
        case "schedules":
            listed_schedules = (await requests.get("/api/schedules", ScheduleList)).schedules
            return [(one.id, one.name or one.text) for one in listed_schedules]
        case "artifacts":
            return [(one.id, one.name) for one in (await requests.get("/api/artifacts", ArtifactList)).artifacts]
        case _:
            return []
