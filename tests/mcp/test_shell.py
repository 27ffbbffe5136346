"""Tools of a program, offered to MCP clients of both eras (SPEC C3)."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import httpx2
import mcp_types as types
import pytest
import uvicorn

from handspan.core.errors import DefinitionError, ToolError
from handspan.core.values import Arguments, Json
from handspan.mcp import CompositeToolProvider, McpServerShell, ProvidedTool
from mcp import Client, StdioServerParameters
from tests.mcp.weather import PIXEL, Plain, Weather, make_shell
from tests.waiting import until

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "auto")
Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def serving(shell: McpServerShell) -> AsyncIterator[str]:
    config = uvicorn.Config(shell.asgi(), port=0, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def over_http(mode: str) -> AsyncIterator[Client]:
    async with serving(make_shell()) as url, Client(url, mode=mode) as client:
        yield client


@asynccontextmanager
async def over_stdio(mode: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "tests.mcp.weather"])
    async with Client(parameters, mode=mode) as client:
        yield client


def texts(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("connect", [over_http, over_stdio])
async def test_clients_of_both_eras_list_and_call_the_tools(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == ["weather__today", "weather__radar", "plain__shout", "plain__break", "plain__exit"]
        hints = listed["weather__today"].annotations
        assert (
            hints is not None and hints.read_only_hint and listed["weather__today"].input_schema["required"] == ["city"]
        )
        assert listed["plain__shout"].annotations is None  # it says nothing of its effects
        today = await client.call_tool("weather__today", {"city": "Rome"})
        assert today.structured_content == {"city": "Rome", "sky": "blue"} and not today.is_error
        shouted = await client.call_tool("plain__shout", {"text": "hi"})
        assert texts(shouted) == "HI"
        radar = await client.call_tool("weather__radar", {})
        image = radar.content[1]
        assert isinstance(image, types.ImageContent) and image.mime_type == "image/png" and image.data
        broken = await client.call_tool("plain__break", {})
        assert broken.is_error and texts(broken) == "it broke"
        left = await client.call_tool("plain__exit", {})
        assert left.is_error and texts(left) == "it left", "the server goes on"
        unknown = await client.call_tool("moon__today", {})
        assert unknown.is_error and "'moon'" in texts(unknown)


async def test_names_without_a_namespace_are_tried_in_order() -> None:
    composite = CompositeToolProvider([Weather(), Plain()])
    assert await composite.call_tool("shout", {"text": "a"}) == "A"
    with pytest.raises(ToolError, match="No provider has a tool 'whisper'"):
        await composite.call_tool("whisper", {})
    with pytest.raises(ToolError, match="no provider for the namespace 'moon'"):
        await composite.call_tool("moon__x__y", {})


@pytest.mark.parametrize("namespace", ["", "a__b", "plain"])
def test_a_namespace_is_unique_not_empty_and_without_the_separator(namespace: str) -> None:
    composite = CompositeToolProvider([Plain()])
    with pytest.raises(DefinitionError, match="namespace"):
        composite.add(Plain(namespace))


async def test_a_provider_without_a_namespace_stands_alone_and_keeps_its_names() -> None:
    shell = McpServerShell()
    shell.register_provider(Plain(""))
    with pytest.raises(DefinitionError, match="must be the only one"):
        shell.register_provider(Weather())
    other = McpServerShell()
    other.register_provider(Weather())
    with pytest.raises(DefinitionError, match="must be the only one"):
        other.register_provider(Plain(""))
    assert PIXEL


class Router:
    """A provider whose tool wants its argument in a header, too."""

    def namespace(self) -> str:
        return ""

    def list_tools(self) -> list[ProvidedTool]:
        region: Json = {"type": "string", "x-mcp-header": "Region"}
        return [ProvidedTool("route", "Route it.", {"type": "object", "properties": {"region": region}})]

    def call_tool(self, name: str, args: Arguments) -> Json:
        return args["region"]


async def test_a_header_that_repeats_an_argument_has_to_agree_with_it() -> None:
    shell = McpServerShell("router")
    shell.register_provider(Router())
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "route", "arguments": {"region": "eu"}, "_meta": meta}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "route",
    }
    async with serving(shell) as url, httpx2.AsyncClient(headers=headers, timeout=60) as http:
        for region, status in (("us", 400), ("eu", 200), ("us", 400)):
            assert (await http.post(url, json=call, headers={"mcp-param-region": region})).status_code == status
        async with Client(url) as client:
            await client.list_tools()
            assert texts(await client.call_tool("route", {"region": "eu"})) == "eu"
