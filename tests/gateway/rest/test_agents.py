"""Agents over REST."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.rest.served import Rest, RestClient, is_error, serving, settings

pytestmark = pytest.mark.anyio


async def test_somebody_elses_agent_is_one_that_never_was(client: RestClient) -> None:
    await client.stranger("POST", "/api/agents", {"name": "Theirs"})
    asked: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("PATCH", "", {"mode": "read_only"}),
        ("DELETE", "", None),
        ("POST", "/clone", {"name": "Copy"}),
        ("GET", "/tools", None),
        ("PATCH", "/tools", {"on": ["read_file"]}),
    ]
    for method, path, body in asked:
        theirs = await client.ask(method, f"/api/agents/Theirs{path}", body)
        assert is_error(theirs, 404, "not_found")
    names = [one["name"] for one in (await client.get("/api/agents")).json()["agents"]]
    assert names == ["General"]


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": " a"},
        {"name": "a\nb"},
        {"name": "a" * 101},
        {"name": "a", "mode": "wild"},
        {"name": "a", "tools": [""]},
        {"name": "a", "tools": "read_file"},
        {"name": "a", "max_tool_iterations": -1},
        {"name": "a", "max_tool_iterations": 1.5},
    ],
)
async def test_an_agent_that_can_not_be_is_not_made(client: RestClient, body: Any) -> None:
    assert is_error(await client.post("/api/agents", body), 422, "invalid_request")


async def test_a_taken_name_is_refused(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "A"})
    await client.post("/api/agents", {"name": "B"})
    for answer in (
        await client.post("/api/agents", {"name": "A"}),
        await client.post("/api/agents", {"name": "General"}),
        await client.post("/api/agents/A/clone", {"name": "B"}),
        await client.ask("PATCH", "/api/agents/A", {"name": "B"}),
    ):
        assert is_error(answer, 409, "taken")


async def test_an_agent_is_made_changed_cloned_and_deleted(client: RestClient) -> None:
    made = await client.post("/api/agents", {"name": "A b/ü", "tools": ["read_*"], "max_tool_iterations": 0})
    assert made.status_code == 201 and made.json()["tool_count"] == 2
    assert made.json()["max_tool_iterations"] is None and made.json()["kept"] == "store"
    place = "/api/agents/A%20b%2F%C3%BC"
    changed = (await client.ask("PATCH", place, {"tools": None, "instructions": "Be kind."})).json()
    assert changed["tools"] is None and changed["instructions"] == "Be kind." and changed["mode"] == "automatic"
    limited = (await client.ask("PATCH", place, {"max_tool_iterations": 7.0})).json()
    assert limited["max_tool_iterations"] == 7
    assert (await client.ask("PATCH", place, {"max_tool_iterations": 0})).json()["max_tool_iterations"] is None
    copy = await client.post(f"{place}/clone", {"name": "Copy"})
    assert copy.status_code == 201 and copy.json()["instructions"] == "Be kind."
    session = (await client.post("/api/sessions", {"persona": "Copy"})).json()["session_id"]
    renamed = await client.ask("PATCH", "/api/agents/Copy", {"name": "Renamed"})
    assert renamed.json()["name"] == "Renamed"
    assert (await client.get(f"/api/sessions/{session}")).json()["persona"] == "Renamed"
    gone = await client.ask("DELETE", "/api/agents/Renamed")
    assert gone.json() == {"deleted": True, "name": "Renamed", "sessions_moved": 1}
    assert is_error(await client.get("/api/agents/Renamed"), 404, "not_found")


async def test_the_built_in_agent_stays(client: RestClient) -> None:
    assert is_error(await client.ask("DELETE", "/api/agents/General"), 409, "settings")
    assert is_error(await client.ask("PATCH", "/api/agents/General", {"name": "Mine"}), 409, "settings")
    changed = await client.ask("PATCH", "/api/agents/General", {"description": "Mine."})
    assert changed.json()["description"] == "Mine." and changed.json()["kept"] == "built_in"


async def test_an_agent_of_the_settings_is_changed_there(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path, agents={"Fixed": {"mode": "read_only"}}))) as client:
        assert (await client.get("/api/agents/Fixed")).json()["kept"] == "settings"
        for answer in (
            await client.ask("PATCH", "/api/agents/Fixed", {"mode": "automatic"}),
            await client.ask("DELETE", "/api/agents/Fixed"),
            await client.ask("PATCH", "/api/agents/Fixed/tools", {"off": ["read_file"]}),
        ):
            assert is_error(answer, 409, "settings")
        assert (await client.post("/api/agents/Fixed/clone", {"name": "Free"})).json()["kept"] == "store"


async def test_ticks_at_the_same_time_are_all_kept(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "A"})
    names = ("exec_shell", "spawn", "read_file", "write_file")
    asked = (client.ask("PATCH", "/api/agents/A/tools", {"off": [name]}) for name in names)
    edited = client.ask("PATCH", "/api/agents/A", {"instructions": "Be kind."})
    await asyncio.gather(*asked, edited)
    agent = (await client.get("/api/agents/A")).json()
    assert sorted(agent["deny"]) == sorted(names) and agent["instructions"] == "Be kind."


async def test_tools_that_no_agent_can_use_now_say_why_and_the_others_are_those_that_are_counted(
    client: RestClient,
) -> None:
    tools = (await client.get("/api/agents/General/tools")).json()["tools"]
    why = {one["name"]: one["unusable"] for one in tools if one["unusable"]}
    assert why["web_search"].startswith("no search API is set")
    assert why["search_tools"].startswith("it is there when the agent has more tools than a model is sent")
    assert len(tools) - len(why) == (await client.get("/api/agents/General")).json()["tool_count"]


async def test_tools_are_ticked_and_unticked(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "A", "mode": "ask_destructive"})

    async def ticked() -> dict[str, bool]:
        tools = (await client.get("/api/agents/A/tools")).json()["tools"]
        return {one["name"]: one["selected"] for one in tools}

    assert all((await ticked()).values())
    changed = await client.ask("PATCH", "/api/agents/A/tools", {"off": ["exec_shell", "spawn"]})
    shell = next(one for one in changed.json()["tools"] if one["name"] == "exec_shell")
    assert shell["selected"] is False and shell["asks"] is True and "parameters" not in shell
    assert [name for name, is_on in (await ticked()).items() if not is_on] == ["exec_shell", "spawn"]
    await client.ask("PATCH", "/api/agents/A/tools", {"on": ["spawn"]})
    assert [name for name, is_on in (await ticked()).items() if not is_on] == ["exec_shell"]
    both = await client.ask("PATCH", "/api/agents/A/tools", {"on": ["spawn"], "off": ["spawn"]})
    assert is_error(both, 409, "conflict")
    await client.ask("PATCH", "/api/agents/A", {"deny": ["sp*"]})
    assert is_error(await client.ask("PATCH", "/api/agents/A/tools", {"on": ["spawn"]}), 409, "settings")
