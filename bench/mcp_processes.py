"""The processes of `mcp_calls.py`: our gateway, the SDK's own server with the same tool, and the official client.

Each prints a line when it is ready, and ends with its standard input.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import uvicorn
import uvloop
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from bench.bare import add
from handspan import tool
from handspan.core.principals import OPERATOR
from handspan.core.tool import NO_CLAIMS, READ_ONLY, Annotations
from handspan.testing.gateway import running_gateway
from mcp import Client

NUMBER = {"type": "integer"}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
_Context = ServerRequestContext[Any, Any]


class SdkServer(uvicorn.Server):
    """uvicorn that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.is_ready.set()


async def serve_ours(annotations: Annotations, parent: str | None = None) -> None:
    """Serve `add` with these annotations at the MCP door of a gateway, whose state is in this folder."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        async with running_gateway(Path(folder)) as gateway:
            gateway.gateway.parts.app.registry.register(tool(annotations=annotations)(add))
            token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools",), "bench")
            await _until_closed(f"{gateway.url}/mcp {token}")


async def serve_sdk() -> None:
    """Serve `add` with the low-level server of the SDK, under uvicorn."""

    async def list_tools(ctx: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True)
        listed = types.Tool(name="add", description="Add.", input_schema=SCHEMA, annotations=hints)
        return types.ListToolsResult(tools=[listed])

    async def call_tool(ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = str(await add(**(params.arguments or {})))
        return types.CallToolResult(content=[types.TextContent(text=text)])

    app = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
    server = SdkServer(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
    serving = asyncio.create_task(server.serve())
    await server.is_ready.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    await _until_closed(f"http://127.0.0.1:{port}/mcp none")
    server.should_exit = True
    await serving


async def call(url: str, token: str, mode: str) -> None:
    """Call `add` as often as each line of standard input says, and print the seconds."""
    async with connected(url, token, mode) as client:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            began = time.perf_counter()
            for _ in range(int(line)):
                result = await client.call_tool("add", {"a": 2, "b": 3})
            seconds = time.perf_counter() - began
            assert isinstance(result.content[0], types.TextContent) and result.content[0].text == "5"
            print(seconds, flush=True)


@contextlib.asynccontextmanager
async def connected(url: str, token: str, mode: str) -> AsyncIterator[Client]:
    """The official client, connected to this address."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client,
    ):
        yield client


async def _until_closed(word: str) -> None:
    print(word, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ours", *parent]:
            uvloop.run(serve_ours(READ_ONLY, *parent))
        case ["ours_unmarked"]:
            uvloop.run(serve_ours(NO_CLAIMS))
        case ["sdk"]:
            uvloop.run(serve_sdk())
        case ["client", url, token, mode]:
            uvloop.run(call(url, token, mode))
