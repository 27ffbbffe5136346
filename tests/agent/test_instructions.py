"""The instructions of the built-in agent (SPEC A5)."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from handspan.agent.instructions import DefaultInstructions
from handspan.agent.loading import conversation_of
from handspan.config.load import load_settings
from handspan.core.agents import GENERAL, Agent
from handspan.core.messages import Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.values import Json
from handspan.gateway.app import App
from handspan.models.choice import Choice
from handspan.models.scripted import Scripted
from tests.gateway.sessions.session_kit import open_session

pytestmark = pytest.mark.anyio


def app_at(folder: Path, **more: Json) -> App:
    folders: dict[str, Json] = {"workspace": str(folder / "ws"), "state": str(folder / "st"), **more}
    return App(load_settings(None, {"HOME": str(folder)}, folders))


async def first_prompt(app: App, agent: Agent) -> str:
    model = Scripted(["hello"])
    session = await open_session(app, Choice(model, "for a test"), agent)
    await session.say(OPERATOR, UserMessage((Text("hi"),)), lambda *_: None).wait_for_end()
    return model.requests[0].instructions


@pytest.mark.outside
async def test_the_built_in_agent_knows_the_day_the_workspace_and_how_to_use_its_tools(tmp_path: Path) -> None:
    async with app_at(tmp_path) as app:
        before = date.today()
        text = await first_prompt(app, GENERAL)
        assert any(str(day) in text for day in (before, date.today()))
        assert str(tmp_path / "ws") in text
        is_active = (await app.sandbox.ready()).active
        assert ("run in a sandbox" in text) == is_active and ("without a sandbox" in text) != is_active
        for tool in ("get_current_time", "memory_write", "use_skill", "read_artifact"):
            assert tool in text
        assert text.index("helpful agent") < text.index("# Skills that you can switch on")


async def test_what_the_agent_can_not_use_is_not_told(tmp_path: Path) -> None:
    async with app_at(tmp_path) as app:
        text = await first_prompt(app, Agent(tools=("read_file",)))
        assert "workspace" in text
        assert not any(word in text for word in ("exec_shell", "memory_", "read_artifact", "get_current_time"))


@pytest.mark.parametrize("agent", [Agent(instructions="Be brief."), Agent("Other"), Agent("Other", instructions="X.")])
async def test_instructions_of_a_persons_own_replace_them(tmp_path: Path, agent: Agent) -> None:
    async with app_at(tmp_path) as app:
        text = await first_prompt(app, agent)
        assert "helpful agent" not in text and text.startswith(agent.instructions)


async def test_on_another_day_the_conversation_is_told_the_new_date(tmp_path: Path) -> None:
    async with app_at(tmp_path) as app:
        model = Scripted(["one", "two", "three"])
        session = await open_session(app, Choice(model, "for a test"), GENERAL)
        conversation = conversation_of(session)
        for yesterday in (False, True, False):
            if yesterday:
                conversation.own_instructions = "old"
                conversation.prepared_on = date.today() - timedelta(days=1)
            await session.say(OPERATOR, UserMessage((Text("hi"),)), lambda *_: None).wait_for_end()
        first, second, third = (request.instructions for request in model.requests)
        assert first == second == third


async def test_the_day_is_that_of_the_computers_time_zone(tmp_path: Path) -> None:
    async def shell() -> str:
        return "Nothing runs."

    async with app_at(tmp_path) as app:
        box = app.caller().box
        at = datetime(2026, 11, 17, 4, 5, tzinfo=UTC)
        text = await DefaultInstructions(Path("/w"), shell).write(GENERAL, box, at)
        assert "Tuesday, 2026-11-17, in the time zone UTC (UTC+0000)" in text
        assert "- Nothing runs." in text
