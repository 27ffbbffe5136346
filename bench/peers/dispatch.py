"""One call of `add` through a peer, against the floor: prints the ratio. Runs where only that peer is installed."""

import asyncio
import json
import sys
from typing import Any

from bench.bare import ARGUMENTS, add, bare_call
from bench.peers.slices import Slice, best_cpu

RAW = '{"a": 2, "b": 3}'


async def mcp() -> Any:
    """The MCP SDK's server object, without a client."""
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - only one peer is installed

    server = MCPServer("bench")
    server.tool()(add)

    async def call() -> str:
        return str((await server.call_tool("add", ARGUMENTS)).model_dump_json(by_alias=True, exclude_none=True))

    return call


async def fastmcp() -> Any:
    """FastMCP's client, in memory."""
    from fastmcp import Client, FastMCP  # noqa: PLC0415 - only one peer is installed

    server = FastMCP("bench")
    server.tool(add)
    client = Client(server)
    await client.__aenter__()

    async def call() -> str:
        return json.dumps((await client.call_tool("add", ARGUMENTS)).data)

    return call


async def pydantic_ai() -> Any:
    """Arguments validated and the toolset called: less than its agent does."""
    from pydantic_ai import FunctionToolset, RunContext  # noqa: PLC0415 - only one peer is installed
    from pydantic_ai.models.test import TestModel  # noqa: PLC0415
    from pydantic_ai.usage import RunUsage  # noqa: PLC0415

    toolset = FunctionToolset()
    toolset.add_function(add)
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    tool = (await toolset.get_tools(context))["add"]

    async def call() -> str:
        arguments = tool.args_validator.validate_json(RAW)
        return json.dumps(await toolset.call_tool("add", arguments, context, tool))

    return call


async def langchain() -> Any:
    """A structured tool."""
    from langchain_core.tools import StructuredTool  # noqa: PLC0415 - only one peer is installed

    tool = StructuredTool.from_function(coroutine=add, name="add", description="Add two numbers.")

    async def call() -> str:
        return json.dumps(await tool.ainvoke(ARGUMENTS))

    return call


async def openai_agents() -> Any:
    """The SDK's tool object."""
    from agents import function_tool  # noqa: PLC0415 - only one peer is installed
    from agents.tool_context import ToolContext  # noqa: PLC0415

    tool = function_tool(add)
    context = ToolContext(context=None, tool_name="add", tool_call_id="c1", tool_arguments=RAW)

    async def call() -> str:
        return json.dumps(await tool.on_invoke_tool(context, RAW))

    return call


PEERS = {
    "mcp": mcp,
    "fastmcp": fastmcp,
    "pydantic_ai": pydantic_ai,
    "langchain": langchain,
    "openai_agents": openai_agents,
}


async def main(peer: str) -> None:
    """Print what a call costs: as a ratio to the floor, and in microseconds."""
    slices = {"floor": Slice(bare_call, 10_000), "peer": Slice(await PEERS[peer](), 200)}
    took = await best_cpu(slices, turns=15)
    print(json.dumps({"ratio": took["peer"] / took["floor"], "us": took["peer"] * 1e6}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
