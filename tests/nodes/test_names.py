"""Names that belong to a node's own tools are refused to clients of all nodes (SPEC R2, K2; ws.md 4.8, 7.2)."""

from pathlib import Path

import pytest

from handspan.config.tool_settings import McpServer
from handspan.core.context import ToolContext
from handspan.core.principals import Origin
from handspan.core.results import Success
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments, Json
from handspan.testing import FakeDevice, RunningGateway, offer
from tests.nodes.gateways import listed, nodes_here, tools_of
from tests.sources.mcp.serving import server
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

DOWN = McpServer(url="http://127.0.0.1:9/mcp")


class Pay:
    spec = ToolSpec("pay", "Pays.", {"type": "object", "properties": {}})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        return "bank"


async def value(node: RunningGateway, tool: str, **arguments: Json) -> Json:
    """What the call of a tool gives."""
    result = await node.call(tool, **arguments)
    assert isinstance(result, Success), result
    return result.value


async def test_a_server_of_one_nodes_settings_takes_its_prefix_from_a_device_of_another_node_also_while_it_is_down(
    tmp_path: Path,
) -> None:
    async with nodes_here(tmp_path, "all", "all") as nodes:
        here, there = nodes
        async with FakeDevice(there.url, there.token) as phone:
            first = await phone.connect(label="rug", capabilities=["resume", "unregister"])
            await phone.register(offer("echo"))
            await listed(nodes, "rug__echo", on=(0, 1))
            await here.gateway.parts.app.mcp.add("rug", DOWN)
            assert "rug__echo" not in await tools_of(here)
            assert await phone.closed(WAIT) == 1012
            again = await phone.connect(label="rug", capabilities=["resume"], resume=str(first["resume_token"]))
            assert (again["label"], again["resumed"]) == ("rug_2", True) and "'rug'" in str(again["notice"])
            await phone.register(offer("echo"))
            await listed(nodes, "rug_2__echo", on=(0, 1))
            assert not {"rug__echo"} & (await tools_of(here) | await tools_of(there))
        async with FakeDevice(there.url, there.token) as other:
            await other.connect(label="other", prefix=False)
            assert "the MCP server 'rug'" in str(await other.register(offer("rug__echo")))
            await here.gateway.parts.app.mcp.forget("rug")
            await until(lambda: there.gateway.parts.app.registry.rights.find_keeper("rug") is None)
            assert "rejected" not in await other.register(offer("rug__echo"))
            await listed(nodes, "rug__echo", on=(0, 1))


async def test_the_server_that_another_node_runs_gets_the_calls_and_no_device_gets_its_names(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all") as nodes:
        here, there = nodes
        await here.gateway.parts.app.mcp.add("rug", server())
        await listed(nodes, "rug__echo", on=(0, 1))
        async with FakeDevice(there.url, there.token) as thief:
            await thief.connect(label="thief", prefix=False)
            refused = await thief.register(offer("rug__echo"), offer("rug__more"), offer("fine"))
            assert refused["registered"] == 1 and str(refused).count("the MCP server 'rug'") == 2
            for node in nodes:
                assert await value(node, "rug__echo", text="hi") == "hi"


async def test_tools_of_another_nodes_device_are_refused_here_while_they_have_a_name_of_this_nodes_own(
    tmp_path: Path,
) -> None:
    """Nodes need not have the same plugins: what one node takes, another one may have itself."""
    async with nodes_here(tmp_path, "all", "all") as nodes:
        here, there = nodes
        registry = here.gateway.parts.app.registry
        async with FakeDevice(there.url, there.token) as phone:
            await phone.connect(label="phone", prefix=False)
            await phone.register(offer("pay"), offer("look"))
            await listed(nodes, "pay", "look", on=(0, 1))
            registry.register(Pay(), Origin("plugin", "bank"))
            assert await value(here, "pay") == "bank"
            await phone.register(offer("more"))
            await listed(nodes, "more", on=(0, 1))
            assert await value(here, "pay") == "bank"
            registry.reserve("test", {"look": Origin("plugin", "bank")})
            assert "look" not in await tools_of(here) and "look" in await tools_of(there)
            registry.reserve("test", {})
            assert "look" in await tools_of(here)
