"""What there is, over HTTP: the graph, the form of its state, exactly the tools that a run would have (graph.md 9)."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from handspan.core.principals import Origin
from tests.gateway.graph.pages import ECHO, Graph, Page, graph_gateway, tool
from tests.gateway.rest.served import TestTool

pytestmark = pytest.mark.anyio


async def nodes(page: Page, query: str = "") -> dict[str, dict[str, dict[str, Any]]]:
    """Tools by node and name."""
    data = (await page.ask("GET", f"/v1/graph/tools{query}")).data
    found = {node["node_name"]: {one["name"]: one for one in node["tools"]} for node in data["nodes"]}
    assert data["node_count"] == len(data["nodes"]) == len(found)
    assert data["tool_count"] == sum(node["tool_count"] for node in data["nodes"]) == sum(map(len, found.values()))
    return found


@pytest.mark.parametrize("path", ["/v1/graph", "/v1/graph/tools"])
async def test_an_agent_that_is_not_there_is_told(page: Page, path: str) -> None:
    for agent in ("Nobody", "%00", "x" * 500):
        refused = await page.ask("GET", f"{path}?agent={agent}")
        assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
        assert "There is no agent" in refused.error["message"]


async def test_the_graph_is_the_model_and_its_tools(page: Page) -> None:
    graph = (await page.ask("GET", "/v1/graph")).data
    assert [node["id"] for node in graph["nodes"]] == ["__start__", "MAIN", "TOOL", "__end__"]
    assert [(edge["source"], edge["target"]) for edge in graph["edges"]] == [
        ("__start__", "MAIN"),
        ("MAIN", "TOOL"),
        ("TOOL", "MAIN"),
        ("MAIN", "__end__"),
    ]
    assert len({edge["id"] for edge in graph["edges"]}) == 4
    info = graph["info"]
    assert (info["node_count"], info["edge_count"], info["agent"]) == (4, 4, "General")
    assert (info["checkpointer"], info["store"], info["is_realtime"]) == (True, True, False)
    assert {
        "checkpointer_type",
        "publisher",
        "interrupt_before",
        "interrupt_after",
        "context_type",
        "id_generator",
        "id_type",
        "state_type",
        "state_fields",
    } <= set(info)


async def test_the_schema_of_the_state_fits_a_state(page: Page) -> None:
    schema = (await page.ask("GET", "/v1/graph:StateSchema")).data
    assert set(schema["properties"]) == {"context", "context_summary", "execution_meta"}
    await page.set_up(ECHO)
    await page.say('hello\ncall get_current_time\ncall echo {"x": 1}', "t")
    state = (await page.ask("GET", "/v1/threads/t/state")).data["state"]
    jsonschema_rs.validator_for(schema).validate(state)
    assert not jsonschema_rs.is_valid(schema, {**state, "context": "nothing"})
    assert state["execution_meta"]["interrupt_data"]["open_calls"]


async def test_the_gateways_own_tools_are_at_the_node_of_tools(page: Page) -> None:
    found = await nodes(page)
    assert set(found) == {"TOOL"}
    clock = found["TOOL"]["get_current_time"]
    assert clock["source"] == "local"
    assert clock["description"]
    assert clock["parameters"]["type"] == "object"


async def test_a_clients_tools_are_at_its_nodes_under_their_own_names(there: Graph, page: Page) -> None:
    await page.set_up(tool("look", "eyes", description="Look"), tool("get_current_time"), tool("do it! 手", "hands"))
    found = await nodes(page)
    assert set(found) == {"TOOL", "eyes", "tools", "hands"}
    assert (found["eyes"]["look"]["source"], found["eyes"]["look"]["description"]) == ("remote", "Look")
    assert found["tools"]["get_current_time"]["source"] == "remote"
    assert found["TOOL"]["get_current_time"]["source"] == "local"
    assert set(found["hands"]) == {"do it! 手"}
    offered = json.loads((await page.say("{tools}")).words)
    assert len(offered) == sum(map(len, found.values()))
    stranger, other = await there.another("somebody else"), await there.another()
    assert set(await nodes(stranger)) == set(await nodes(other)) == {"TOOL"}


async def test_looking_disturbs_nothing_that_runs(there: Graph, page: Page) -> None:
    registry = there.gateway.gateway.parts.app.registry
    await page.set_up(ECHO)
    before = len(registry)
    assert "tools" in await nodes(page)
    assert len(registry) == before


async def test_tools_of_others_say_where_they_come_from(there: Graph, page: Page) -> None:
    async def work(*_: Any) -> None:
        raise AssertionError("nobody calls it")

    registry = there.gateway.gateway.parts.app.registry
    registry.register(TestTool("files__list", work), Origin("mcp", "files"))
    registry.register(TestTool("phone__camera", work), Origin("device", "phone", "c1"))
    registry.register(TestTool("my_plugin", work), Origin("plugin", "mine"))
    tools = (await nodes(page))["TOOL"]
    sources = [tools[name]["source"] for name in ("files__list", "phone__camera", "my_plugin")]
    assert sources == ["mcp", "remote", "local"]


async def test_only_what_the_agent_may_use_is_there(tmp_path: Path) -> None:
    agents = {
        "Narrow": {"tools": ["get_*", "look"], "nodes": ["eyes"]},
        "Reader": {"mode": "read_only"},
        "None": {"tools": []},
    }
    async with graph_gateway(tmp_path, agents=agents) as there:
        page = there.page
        await page.set_up(tool("look", "eyes"), tool("get_more", "hands"), tool("jump", "eyes"))
        narrow = await nodes(page, "?agent=Narrow")
        assert {node: set(tools) for node, tools in narrow.items()} == {"TOOL": {"get_current_time"}, "eyes": {"look"}}
        reader = await nodes(page, "?agent=Reader")
        assert "write_file" not in reader["TOOL"]
        assert "jump" not in reader.get("eyes", {})
        assert await nodes(page, "?agent=None") == {"TOOL": {}}
        assert (await page.ask("GET", "/v1/graph?agent=Narrow")).data["info"]["agent"] == "Narrow"
        there.gateway.gateway.parts.app.registry.disable("look")
        assert set(await nodes(page, "?agent=Narrow")) == {"TOOL"}
