"""Several gateways as one: a call to a device of another node beside the same call on one node, and a takeover.

Real processes, PostgreSQL with `fsync`, one NATS server. Without these engines: nothing.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import httpx2
from tests.nats_engine import HOW_TO_INSTALL as HOW_TO_INSTALL_NATS
from tests.nats_engine import NatsEngine, find_server
from tests.nodes.gateways import make_node
from tests.postgres_engine import HOW_TO_INSTALL, PostgresEngine, find_programs

from bench.figures import Figure
from handspan.client import Client
from handspan.testing import GatewayProcess

_CALLS = 120
_AT_ONCE = 32
_SECONDS = 3.0
_ROUNDS = 3
_PATIENCE = 60.0


async def measure(folder: Path) -> Iterable[Figure]:
    """`node_call`, `node_throughput` and `takeover_s`."""
    if find_programs() is None or find_server() is None:
        print(f"nodes: not measured, {HOW_TO_INSTALL}; {HOW_TO_INSTALL_NATS}")
        return []
    engine = PostgresEngine("fsync=on", parent=Path(tempfile.gettempdir()))
    try:
        await asyncio.to_thread(engine.start)
        with NatsEngine() as nats:
            async with _open_nodes(engine, nats, folder) as nodes, _device(nodes[0]):
                await _until_listed(nodes[1], "bench__echo")
                return [*await _call_figures(nodes[0], nodes[1]), await _takeover_figure(engine, nodes)]
    finally:
        engine.remove()


@asynccontextmanager
async def _open_nodes(engine: PostgresEngine, nats: NatsEngine, folder: Path) -> AsyncIterator[list[GatewayProcess]]:
    connection = await asyncpg.connect(engine.url)
    await connection.execute("CREATE SCHEMA nodes")
    await connection.close()
    url = f"{engine.url}?search_path=nodes"
    nodes = [make_node(folder, f"bench{number}", url, nats.url) for number in range(2)]
    async with AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(node)
        yield nodes


@asynccontextmanager
async def _device(node: GatewayProcess) -> AsyncIterator[None]:
    client = Client(node.url, node.token, label="bench", role="device")

    @client.tool
    def echo(text: str) -> str:
        """Return the text."""
        return text

    running = asyncio.create_task(client.run())
    try:
        async with asyncio.timeout(_PATIENCE):
            await client.connected()
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _requests(node: GatewayProcess) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=node.url, headers={"Authorization": f"Bearer {node.token}"}, timeout=_PATIENCE)


async def _until_listed(node: GatewayProcess, name: str, *, is_there: bool = True) -> None:
    async with _requests(node) as requests, asyncio.timeout(_PATIENCE):
        while True:
            tools = (await requests.get("/api/tools")).json()["tools"]
            if any(tool["name"] == name for tool in tools) == is_there:
                return
            await asyncio.sleep(0.02)


async def _call(requests: httpx2.AsyncClient) -> None:
    answer = await requests.post("/api/tools/bench__echo/call", json={"args": {"text": "x" * 300}})
    assert answer.status_code == 200 and answer.json()["status"] == "success", answer.text


async def _call_figures(here: GatewayProcess, there: GatewayProcess) -> list[Figure]:
    """One call after the other, and many at once: on the node of the device, and on the other, by turns."""
    async with _requests(here) as near, _requests(there) as far:
        took: dict[str, list[float]] = {"near": [], "far": []}
        for _ in range(_CALLS):
            for name, requests in (("near", near), ("far", far)):
                began = time.perf_counter()
                await _call(requests)
                took[name].append(time.perf_counter() - began)
        near_ms, far_ms = (statistics.median(took[name]) * 1e3 for name in ("near", "far"))
        rates: dict[str, list[float]] = {"near": [], "far": []}
        for _ in range(_ROUNDS):
            for name, requests in (("near", near), ("far", far)):
                rates[name].append(await _rate(requests))
    one, other = statistics.median(rates["near"]), statistics.median(rates["far"])
    return [
        Figure(
            "node_call", far_ms / near_ms, f"x one node's ({far_ms:.1f} / {near_ms:.1f} ms, p50)", target=2.0, line=2.0
        ),
        Figure(
            "node_throughput", other / one, f"x one node's ({other:.0f} / {one:.0f} calls/s)", target=0.8, line=0.8,
            more_is_better=True,
        ),
    ]  # fmt: skip


async def _rate(requests: httpx2.AsyncClient) -> float:
    end, done = time.perf_counter() + _SECONDS, 0

    async def work() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await _call(requests)
            done += 1

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return done / _SECONDS


async def _takeover_figure(engine: PostgresEngine, nodes: list[GatewayProcess]) -> Figure:
    """From the `kill -9` of a node until its open turn is closed and the lists of the other one are clean."""
    connection = await asyncpg.connect(f"{engine.url}?search_path=nodes")
    await connection.execute(
        "INSERT INTO sessions (id, owner, agent, name, created, active, state, run)"
        " SELECT 'taken', 'operator', 'General', '', 0, 0, 'running', id FROM nodes WHERE name = 'bench0'"
    )
    began = time.perf_counter()
    await nodes[0].kill()
    async with asyncio.timeout(_PATIENCE):
        while await connection.fetchval("SELECT state FROM sessions WHERE id = 'taken'") != "idle":  # noqa: ASYNC110 - a row has no event
            await asyncio.sleep(0.02)
    await _until_listed(nodes[1], "bench__echo", is_there=False)
    took = time.perf_counter() - began
    await connection.close()
    return Figure("takeover_s", took, "s, with a lease of 3 s", target=4.0, line=4.0)
