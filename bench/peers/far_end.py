"""The other process of a remote call: it has the tool. `python -m bench.peers.far_end PEER [PORT]`.

It prints one line when it is there: a server its port, which is any free one; a client, which is told the port, its
name at the server. It ends when its standard input does, so it never outlives the process that started it.
"""

import asyncio
import logging
import os
import sys
import threading
import warnings
from typing import Any

import uvicorn

WHO = str(os.getpid())
"""What the tool answers: the caller sees that it was this process, and can pin it to a core."""


async def say(text: str) -> str:
    """Say something."""
    return WHO


def mcp_stdio() -> None:
    """The MCP SDK on standard input and output; it ends by itself when the input does."""
    _mcp_server().run("stdio")


def mcp_http() -> None:
    """The MCP SDK's streamable HTTP, as it comes: a session, answers as events."""
    _end_with_input()
    _serve(_mcp_server().streamable_http_app())


def mcp_plain_http() -> None:
    """The low-level server of the MCP SDK, as it comes: the floor of `mcp_server.py`."""
    import mcp_types as types  # noqa: PLC0415 - only one peer is installed
    from mcp.server import Server  # noqa: PLC0415 - the same

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="say", description="Say.", input_schema=schema)])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = await say(**(params.arguments or {}))
        return types.CallToolResult(content=[types.TextContent(text=text)])

    _end_with_input()
    _serve(Server("bench", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app())


def fastmcp_http() -> None:
    """FastMCP's streamable HTTP, as it comes."""
    from fastmcp import FastMCP  # noqa: PLC0415 - only one peer is installed

    _end_with_input()
    server = FastMCP("bench")
    server.tool(say)
    _serve(server.http_app())


def socketio() -> None:
    """A client of Socket.IO whose acknowledgement is the answer."""
    import socketio as peer  # type: ignore[import-not-found]  # noqa: PLC0415 - only one peer is installed

    async def answer(request: dict[str, Any]) -> str:
        return await say(**request["args"])

    async def stay() -> None:
        client = peer.AsyncClient()
        client.on("say", answer)
        await client.connect(f"http://127.0.0.1:{sys.argv[2]}", transports=["websocket"])
        print(client.get_sid(), flush=True)
        await client.wait()

    _end_with_input()
    run(stay())


def _mcp_server() -> Any:
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - only one peer is installed

    server = MCPServer("bench")
    server.tool()(say)
    return server


class _Announced(uvicorn.Server):
    """uvicorn, which prints its port as soon as it listens."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def _serve(app: Any) -> None:
    _Announced(uvicorn.Config(app, port=0, log_level="critical", access_log=False)).run()


def _end_with_input() -> None:
    def wait() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def run(main: Any) -> None:
    """Run it on the loop that uvicorn would choose: uvloop where the peer's environment has it."""
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main)


def quiet() -> None:
    """No peer pays for what it would log."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)


PEERS = {
    "socketio": socketio,
    "mcp_stdio": mcp_stdio,
    "mcp_http": mcp_http,
    "mcp_plain_http": mcp_plain_http,
    "fastmcp_http": fastmcp_http,
}


if __name__ == "__main__":
    quiet()
    PEERS[sys.argv[1]]()
