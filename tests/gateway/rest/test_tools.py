"""Tools over REST: what is listed, for whom, why not, and the switches."""

import pytest

from handspan.core.principals import OPERATOR, Origin, ToolScope
from handspan.core.values import JsonObject
from tests.gateway.rest.served import STRANGER, Rest, RestClient, is_error, register_for, session_of

pytestmark = pytest.mark.anyio


async def listed(client: RestClient, query: str = "") -> dict[str, JsonObject]:
    return {one["name"]: one for one in (await client.get(f"/api/tools{query}")).json()["tools"]}


async def test_tools_of_somebody_else_are_not_listed(client: RestClient, rest: Rest) -> None:
    theirs, mine = await session_of(rest, STRANGER), await session_of(rest)
    register_for(rest, "their_tool", Origin("remote", theirs, "c1"), ToolScope("session", theirs))
    register_for(rest, "their_phone__tool", Origin("device", "their_phone", "c2"), ToolScope("owner", STRANGER))
    register_for(rest, "my_tool", Origin("remote", mine, "c3"), ToolScope("session", mine))
    register_for(rest, "phone__camera", Origin("device", "phone", "c4"), ToolScope("owner", OPERATOR.owner))
    register_for(rest, "of_nobody", Origin("remote", "unknown", "c5"), ToolScope("session", "unknown"))
    names = set(await listed(client))
    assert {"my_tool", "phone__camera", "read_file"} <= names
    assert not names & {"their_tool", "their_phone__tool", "of_nobody"}
    assert is_error(await client.get(f"/api/tools?session={theirs}"), 404, "not_found")
    assert set(await listed(client, f"?session={await session_of(rest)}")) == names - {"my_tool"}


async def test_a_tool_has_the_fields_that_old_clients_read_and_ours(client: RestClient, rest: Rest) -> None:
    mine = await session_of(rest)
    register_for(rest, "my_tool", Origin("remote", mine, "c3"), ToolScope("session", mine))
    tools = await listed(client)
    read = tools["read_file"]
    assert (read["source_type"], read["source"], read["enabled"]) == ("builtin", "builtin", True)
    assert isinstance(read["parameters"], dict) and "path" in read["parameters"]["properties"]  # type: ignore[operator] # an object
    assert (read["scope"], read["version"]) == ({"kind": "global", "id": ""}, "1.0.0")
    assert read["timeout"] == 10.0 and read["disabled_by"] is None and read["agents"] == ["General"]
    mine_shown = tools["my_tool"]
    assert (mine_shown["source_type"], mine_shown["source"]) == ("remote", mine)
    assert mine_shown["agents"] == ["General"]


async def test_a_tool_says_which_agents_can_call_it(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "Reader", "mode": "read_only"})
    await client.post("/api/agents", {"name": "Writer", "tools": ["write_*"]})
    tools = await listed(client)
    assert tools["read_file"]["agents"] == ["General", "Reader"]
    assert tools["write_file"]["agents"] == ["General", "Writer"]


async def test_a_disabled_tool_is_listed_and_nobody_can_call_it(client: RestClient, rest: Rest) -> None:
    switched = await client.post("/api/switches/disable", {"pattern": "read_*"})
    assert switched.json() == {"pattern": "read_*", "changed": True, "tools": ["read_artifact", "read_file"]}
    again = await client.post("/api/switches/disable", {"pattern": "read_*"})
    assert again.json()["changed"] is False
    read = (await listed(client))["read_file"]
    assert (read["enabled"], read["disabled_by"], read["agents"]) == (False, "read_*", [])
    called = await client.post("/api/tools/read_file/call", {"args": {"path": "x"}})
    assert called.json()["code"] == "tool_disabled"
    assert await rest.app.switches.off() == ["read_*"]
    assert (await client.get("/api/switches")).json() == {"disabled": ["read_*"], "by_settings": []}
    back = await client.post("/api/switches/enable", {"pattern": "read_*"})
    assert back.json()["changed"] is True and await rest.app.switches.off() == []
    assert (await listed(client))["read_file"]["enabled"] is True
    assert (await client.post("/api/switches/enable", {"pattern": "read_*"})).json()["changed"] is False


async def test_a_whole_origin_is_switched_off(client: RestClient) -> None:
    await client.post("/api/switches/disable", {"pattern": "origin:builtin"})
    assert not any(tool["enabled"] for tool in (await listed(client)).values())


@pytest.mark.parametrize("pattern", ["", " ", "origin:nowhere", "origin:"])
async def test_a_pattern_that_names_nothing_possible_is_refused(client: RestClient, pattern: str) -> None:
    assert is_error(await client.post("/api/switches/disable", {"pattern": pattern}), 422, "invalid_request")


async def test_why_gives_every_reason(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "Careful", "deny": ["exec_*"], "mode": "read_only"})
    answer = (await client.get("/api/tools/exec_shell/why?agent=Careful")).json()
    assert (answer["tool"], answer["agent"], answer["usable"]) == ("exec_shell", "Careful", False)
    assert [reason["ok"] for reason in answer["reasons"]] == [True, True, False, True, False]
    assert (await client.get("/api/tools/read_file/why")).json()["usable"] is True


async def test_why_for_a_tool_or_an_agent_that_is_not_there(client: RestClient, rest: Rest) -> None:
    nothing = (await client.get("/api/tools/read_fil/why")).json()
    assert nothing["usable"] is False and "Did you mean 'read_file'" in nothing["reasons"][0]["text"]
    assert is_error(await client.get("/api/tools/read_file/why?agent=Nobody"), 404, "not_found")
    theirs = await session_of(rest, STRANGER)
    assert is_error(await client.get(f"/api/tools/read_file/why?session={theirs}"), 404, "not_found")


async def test_the_losses_name_every_api_and_what_its_requests_can_not_say(client: RestClient) -> None:
    assert is_error(await client.get("/api/tools/nothing/losses"), 404, "not_found")
    told = (await client.get("/api/tools/read_file/losses")).json()
    assert told["tool"] == "read_file"
    assert {one["api"] for one in told["apis"]} >= {"openai", "anthropic", "gemini"}
    assert all(set(one) == {"api", "losses", "refused"} and one["refused"] == "" for one in told["apis"])
