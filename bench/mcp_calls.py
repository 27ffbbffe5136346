"""MCP on both sides: our door against the SDK's own server, our source against the bare client, and 20 slow servers.

Servers and clients over HTTP are processes of their own (`mcp_processes.py`), and take turns. `mcp_server_call` is the
time that a client waits; the client's own work is more than half of that. `mcp_server_cpu` is the CPU time of the
server alone. Both servers run on uvloop and uvicorn, and keep connections open. Ours also checks a token, asks its
policy and writes a journal; the SDK's server stores nothing. A tool that only reads, as this one says on both sides,
costs one commit a call. `mcp_server_call_unmarked` is a tool that says nothing: its start is stored before it runs, so
it costs two. `mcp_server_call_ram` is the first figure without the disk.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import httpx2
from mcp.client.stdio import StdioServerParameters
from tests.memory_ledger import MemoryLedger

from bench.figures import Figure
from handspan.config.tool_settings import McpServer, UrlPolicy
from handspan.core.agents import Agent
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.results import Success
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.net.guard import NetGuard
from handspan.registry.registry import Registry
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.servers import McpServers
from handspan.store.artifacts import FolderArtifacts
from handspan.testing.gateway import running_gateway
from mcp import Client

ROUNDS = 40
CALLS = 25
SERVERS = 20
PROGRAM = Path(__file__).parents[1] / "tests" / "sources" / "mcp" / "server.py"
SLOW_PROGRAM = Path(__file__).with_name("slow_server.py")
RAM = "/dev/shm"
ERAS = {"": "auto", "_older": "legacy"}
"""The end of a figure's name, and how the client finds the era."""


async def measure(folder: Path) -> Iterable[Figure]:
    """Every figure of MCP."""
    return [*await server_calls(), await client_call(folder / "client"), *await start_20(folder / "start")]


# Our door.


class Party:
    """One server with one client, both in processes of their own."""

    def __init__(self, server: asyncio.subprocess.Process, client: asyncio.subprocess.Process) -> None:
        self._server = server
        self._client = client
        self.wall = self.cpu = float("inf")

    async def run(self) -> None:
        """Make the calls, and keep the best times for one of them, in seconds."""
        assert self._client.stdin and self._client.stdout
        before = _cpu(self._server.pid)
        self._client.stdin.write(f"{CALLS}\n".encode())
        wall = float(await self._client.stdout.readline())
        self.wall = min(self.wall, wall / CALLS)
        self.cpu = min(self.cpu, (_cpu(self._server.pid) - before) / CALLS)


async def server_calls() -> list[Figure]:
    """`mcp_server_call` and `mcp_server_cpu` in both eras."""
    figures = []
    for end, mode in ERAS.items():
        async with (
            _party("ours", mode) as ours,
            _party("ours_unmarked", mode) as unmarked,
            _party("ours", mode, RAM) as ram,
            _party("sdk", mode) as sdk,
        ):
            for _ in range(ROUNDS):
                for party in (ours, unmarked, ram, sdk):
                    await party.run()
        figures += [
            Figure(f"mcp_server_call{end}", ours.wall / sdk.wall, "x the SDK's own server", target=0.5, line=1),
            Figure(f"mcp_server_call_unmarked{end}", unmarked.wall / sdk.wall, "x the SDK's own server"),
            Figure(f"mcp_server_call_ram{end}", ram.wall / sdk.wall, "x the SDK's own server"),
            Figure(f"mcp_server_cpu{end}", ours.cpu / sdk.cpu, "x the SDK's own server"),
            Figure(f"mcp_server_ms{end}", ours.wall * 1e3, "ms a call, client and all"),
        ]
    return figures


@contextlib.asynccontextmanager
async def _party(kind: str, mode: str, folder: str = "") -> AsyncIterator[Party]:
    async with _process(kind, *([folder] if folder else [])) as server:
        assert server.stdout
        url, token = (await server.stdout.readline()).decode().split()
        async with _process("client", url, token, mode) as client:
            assert client.stdout
            await client.stdout.readline()
            yield Party(server, client)


@contextlib.asynccontextmanager
async def _process(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.mcp_processes", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()


def _cpu(pid: int) -> float:
    """The CPU time that this process took so far, in seconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


# Our source.


async def client_call(folder: Path) -> Figure:
    """`mcp_client_call`: one tool of a server over standard input and output, through our engine and source.

    Nothing is stored: the disk would be most of each call.
    """
    arguments = {"text": "hi"}
    server = McpServer(command=sys.executable, args=("-I", "-S", str(PROGRAM)), internal_only=False)
    bare = StdioServerParameters(command=server.command, args=list(server.args))
    registry = Registry()
    engine = Engine(FolderArtifacts(folder / "artifacts"), folder / "workspace", ledger=MemoryLedger())
    async with _servers(folder, registry, {"bad": server}), Client(bare, mode="legacy", cache=None) as client:
        agent = Agent("bench")
        caller = Caller(OPERATOR, agent, registry.toolbox(agent, OPERATOR))

        async def call_ours() -> None:
            result = await engine.call(ToolCall("bad__echo", arguments, new_call_id()), caller)
            assert isinstance(result, Success) and result.value == "hi"

        async def call_bare() -> None:
            await client.call_tool("echo", arguments)

        best = {"ours": float("inf"), "bare": float("inf")}
        for _ in range(ROUNDS):
            for name, case in (("ours", call_ours), ("bare", call_bare)):
                began = time.perf_counter()
                for _ in range(CALLS):
                    await case()
                best[name] = min(best[name], time.perf_counter() - began)
    return Figure("mcp_client_call", best["ours"] / best["bare"], "x the bare SDK client", target=1.2, line=1.2)


@contextlib.asynccontextmanager
async def _servers(folder: Path, registry: Registry, servers: dict[str, McpServer]) -> AsyncIterator[None]:
    guard = NetGuard(UrlPolicy())
    logins = McpLogins(folder / "logins", guard, "http://127.0.0.1")
    mcp = McpServers(servers, registry, guard, str, folder=folder / "workspace", logins=logins)
    (folder / "workspace").mkdir(parents=True)
    await mcp.open()
    try:
        await mcp.settle(60)
        yield
    finally:
        await mcp.close()


# Twenty servers.


async def start_20(folder: Path) -> list[Figure]:
    """`mcp_start_20`: seconds until all are ready; and the slowest answer of `/health` meanwhile."""
    server = McpServer(command=sys.executable, args=("-I", "-S", str(SLOW_PROGRAM)), internal_only=False)
    slowest = 0.0
    async with running_gateway(folder) as gateway, httpx2.AsyncClient() as http:
        await http.get(f"{gateway.url}/health")
        began = time.perf_counter()
        mcp = gateway.gateway.parts.app.mcp
        for number in range(SERVERS):
            await mcp.put(f"slow{number}", server)
        while any(one.state.status != "ready" for one in mcp):
            asked = time.perf_counter()
            await http.get(f"{gateway.url}/health")
            slowest = max(slowest, time.perf_counter() - asked)
            await asyncio.sleep(0.01)
        seconds = time.perf_counter() - began
    return [
        Figure("mcp_start_20_s", seconds, "s, 20 servers that sleep 1 s", target=1.5),
        Figure("mcp_start_health_ms", slowest * 1e3, "ms, slowest /health meanwhile", target=50),
    ]
