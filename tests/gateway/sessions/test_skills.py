"""Skills in a conversation: what the toolbox is while one is on, and who may switch it on (SPEC A3)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.agent.loading import conversation_of
from handspan.agent.session import Session
from handspan.config.load import load_settings
from handspan.core.agents import Agent
from handspan.core.errors import ToolError
from handspan.core.messages import ResultsMessage, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.values import Json
from handspan.gateway.app import App
from handspan.models.choice import Choice
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, ScriptTurn, call
from tests.gateway.raw_clients import running
from tests.gateway.sessions.session_kit import open_session

pytestmark = pytest.mark.anyio

CLOCK = "---\nname: clock\ndescription: Tells the time.\nallowed-tools: [get_current_*]\n---\nTell the time in words.\n"

ALWAYS = ("read_artifact", "use_skill")
"""The tools that no skill takes away."""


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    config = tmp_path / "config"
    (config / "skills" / "clock").mkdir(parents=True)
    (config / "skills" / "clock" / "SKILL.md").write_text(CLOCK, encoding="utf-8")
    folders = {"workspace": str(tmp_path / "ws"), "state": str(tmp_path / "st")}
    settings = load_settings(None, {"HOME": str(tmp_path)}, folders)
    async with App(settings, config_folder=config) as app:
        yield app


async def opened(app: App, agent: Agent, turns: list[ScriptTurn]) -> tuple[Session, Scripted]:
    model = Scripted(turns)
    return await open_session(app, Choice(model, "for a test"), agent), model


def names(session: Session) -> set[str]:
    return {spec.name for spec in conversation_of(session).box.specs()}


async def say(app: App, session: Session, text: str) -> None:
    await session.say(OPERATOR, UserMessage((Text(text),)), lambda *_: None).wait_for_end()


async def test_a_skill_that_can_not_be_used_is_told_and_the_agent_stays_as_it_is(app: App) -> None:
    session, _ = await opened(app, Agent(skills=("nonsense",)), [])
    assert "nonsense" in conversation_of(session).notes[0]
    assert "read_file" in names(session)


async def test_a_skill_of_the_agents_settings_is_on_from_the_start(app: App) -> None:
    session, model = await opened(app, Agent(skills=("clock",)), ["hello"])
    assert names(session) == {"get_current_time", *ALWAYS}
    await say(app, session, "hi")
    assert "Tell the time in words." in model.requests[0].instructions
    assert model.requests[0].tools == ("get_current_time", *ALWAYS)


async def test_the_agents_deny_list_wins_over_a_skill(app: App) -> None:
    session, _ = await opened(app, Agent(skills=("clock",), deny=("get_*",)), [])
    assert names(session) == set(ALWAYS)


async def test_a_model_switches_a_skill_on_by_name_and_has_its_tools_from_the_next_round(app: App) -> None:
    session, model = await opened(app, Agent(), [call("use_skill", name="clock"), "done"])
    await say(app, session, "what time is it")
    assert "read_file" in model.requests[0].tools
    assert model.requests[1].tools == ("get_current_time", *ALWAYS)
    results = conversation_of(session).messages[2]
    assert isinstance(results, ResultsMessage) and "Tell the time in words." in results.results[0].envelope


async def test_what_the_model_switched_on_is_off_in_the_next_turn(tmp_path: Path) -> None:
    path: dict[str, Json] = {"path": "a.txt"}
    script: list[ScriptTurn] = [
        call("use_skill", name="summarise-file", arguments=path),
        [call("read_file", **path), call("write_file", **path, content="b")],
        "A summary.",
        call("write_file", **path, content="c"),
        "Written.",
    ]
    model = Scripted(script)
    async with running(tmp_path, model) as place, place.client() as chat:
        await chat.send("message", content="summarise it")
        frames = await chat.hears_until("done")
        refused = next(frame for frame in frames if frame["type"] == "tool_result" and frame["name"] == "write_file")
        assert "is not available now: 'summarise-file' (a skill that is on)" in refused["output"]
        await chat.send("message", content="now write it")
        await chat.hears_until("done")
    first, narrowed, _, second, _ = (set(request.tools) for request in model.requests)
    assert {"read_file", *ALWAYS} < narrowed and "write_file" not in narrowed
    assert second == first
    assert (tmp_path / "workspace" / "a.txt").read_text() == "c"


async def test_a_turn_that_goes_on_in_another_process_keeps_the_skill_of_its_model(app: App) -> None:
    script: list[ScriptTurn] = [call("use_skill", name="clock"), ModelError("network", "Gone."), "done", "again"]
    session, model = await opened(app, Agent(), script)
    message = UserMessage((Text("what time is it"),), id="m1")
    await session.say(OPERATOR, message, lambda *_: None).wait_for_end()
    another = await open_session(app, Choice(model, "for a test"), Agent())
    await another.say(OPERATOR, message, lambda *_: None).wait_for_end()
    await say(app, another, "thanks")
    tools = [request.tools for request in model.requests]
    assert tools[1] == tools[2] == ("get_current_time", *ALWAYS)
    assert tools[3] == tools[0]


async def test_a_person_switches_a_skill_on_and_it_stays_on(app: App) -> None:
    session, model = await opened(app, Agent(), ["one", "two"])
    await say(app, session, "hi")
    await app.loader.switch_on(session, "clock")
    await say(app, session, "again")
    assert "Tell the time in words." not in model.requests[0].instructions.split("clock")[0]
    assert model.requests[1].tools == ("get_current_time", *ALWAYS)


async def test_what_a_person_switched_on_stays_on_in_the_next_process_until_it_is_switched_off(app: App) -> None:
    async def load_again() -> Session:
        return await open_session(app, Choice(Scripted([]), "for a test"), Agent())

    session, _ = await opened(app, Agent(), [])
    await app.loader.switch_on(session, "clock")
    later = await load_again()
    assert names(later) == {"get_current_time", *ALWAYS}
    await app.loader.switch_off(later, "clock")
    assert "read_file" in names(later) and "read_file" in names(await load_again())
    with pytest.raises(ToolError, match=r"'clock' is not on in this session\. No skill is on\."):
        await app.loader.switch_off(later, "clock")


async def test_a_skill_of_the_agents_settings_can_be_switched_off_in_a_session(app: App) -> None:
    session, _ = await opened(app, Agent(skills=("clock",)), [])
    await app.loader.switch_off(session, "clock")
    choice = Choice(Scripted([]), "for a test")
    assert "read_file" in names(await open_session(app, choice, Agent(skills=("clock",))))


async def test_a_skill_of_the_workspace_stays_off_until_a_person_enables_it(app: App) -> None:
    folder = app.settings.workspace / ".handspan" / "skills" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(CLOCK.replace("clock", "mine"), encoding="utf-8")
    session, _ = await opened(app, Agent(), [call("use_skill", name="mine"), "no"])
    await say(app, session, "use mine")
    assert "read_file" in names(session)
    with pytest.raises(ToolError):
        await app.loader.switch_on(session, "mine")
    await app.skills.enable("mine", app.skills.find_any("mine").fingerprint)
    await app.loader.switch_on(session, "mine")
    assert names(session) == {"get_current_time", *ALWAYS}
