"""What the settings name and is not there: a start and the doctor say it."""

from pathlib import Path

import pytest

from handspan.config.load import load_settings
from handspan.core.values import Json, JsonObject
from handspan.gateway.app import App

pytestmark = pytest.mark.anyio


async def notes(folder: Path, **chosen: Json) -> list[str]:
    folders: JsonObject = {"workspace": str(folder / "ws"), "state": str(folder / "st")}
    async with App(load_settings(None, {"HOME": str(folder)}, {**folders, **chosen})) as app:
        return app.setting_notes


async def test_a_pattern_that_matches_nothing_is_named_with_what_may_be_meant(tmp_path: Path) -> None:
    found = await notes(
        tmp_path,
        tools={"disabled": ["exec_shel"], "timeouts": {"nothing_*": 1}, "allow_shadowing": ["raed_file"]},
        agents={"reader": {"tools": ["read_fil"], "deny": ["sapwn"]}},
    )
    assert [note.split(" matches")[0] for note in found] == [
        "tools.disabled: 'exec_shel'",
        "tools.timeouts: 'nothing_*'",
        "tools.allow_shadowing: 'raed_file'",
        "agents.reader.tools: 'read_fil'",
        "agents.reader.deny: 'sapwn'",
    ]
    assert "Did you mean 'exec_shell'" in found[0]


async def test_a_model_that_an_agent_names_and_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    (note,) = await notes(tmp_path, agents={"writer": {"model": "offlin"}, "reader": {"model": "openai:gpt-5"}})
    assert note.startswith("agents.writer.model: there is no model 'offlin'. Did you mean 'offline'?")


async def test_what_matches_or_may_come_later_is_no_matter(tmp_path: Path) -> None:
    tools: JsonObject = {"disabled": ["spawn", "web_*", "origin:mcp", "phone__camera"], "timeouts": {"*": 3}}
    agents: JsonObject = {"reader": {"tools": ["read_*", "use_skill", "phone__*"]}}
    assert await notes(tmp_path, tools=tools, agents=agents) == []
