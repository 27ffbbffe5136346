"""Three nodes and one MCP server over stdio: the node that runs it is killed, frozen or stopped, again and again.

Callers at all nodes call its tool all the time. At the end every call has one result, none ran twice, and one node runs
the server. A node that stops takes no call with it; of one that was killed, the outcome of a call may be unknown. When
the node of a caller is killed, its calls go on, and their outcome is known.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
from msgspec import Struct

from handspan.core.values import Json
from handspan.testing import GatewayProcess
from tests.chaos.figures import Figure, none_of
from tests.nats_engine import NatsEngine
from tests.nodes.gateways import make_node
from tests.postgres_engine import PostgresEngine, run_sql_at
from tests.waiting import until

_NODES: Final = 3
_PATIENCE: Final = 120.0
_AGAIN: Final = 0.2
_PROGRAM: Final = Path(__file__).with_name("counting_server.py")
_HONEST: Final = frozenset(("unknown_outcome", "disconnected", "tool_not_available", "tool_not_found", "timeout"))


class Scale(Struct, frozen=True):
    """How much of it."""

    disturbances: int = 12
    callers: int = 3


SHORT: Final = Scale(3, 2)


class _Load:
    """The callers at all nodes."""

    def __init__(self, nodes: list[GatewayProcess]) -> None:
        self.nodes = nodes
        self.results: dict[str, Any] = {}
        self.failed: list[str] = []
        """Calls that failed while no node was lost."""
        self.unknown: list[str] = []
        """Calls whose outcome is unknown, though their server was there all the time."""
        self.is_calm = False
        self._is_over = asyncio.Event()

    async def call_all_the_time(self, number: int) -> None:
        """Call the tool at this node, one call after the other, until it is over."""
        node = self.nodes[number % len(self.nodes)]
        async with httpx2.AsyncClient(timeout=_PATIENCE, trust_env=False) as requests:
            count = 0
            while not self._is_over.is_set():
                count += 1
                parcel, was_calm = f"{number}-{count}", self.is_calm
                with contextlib.suppress(httpx2.TransportError):  # the node of the caller itself is gone
                    found = await _call(requests, node, parcel)
                    if found is not None:
                        self.results[parcel] = found
                        if was_calm and self.is_calm and found["status"] != "success":
                            self.failed.append(f"{parcel}: {found}")
                await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def at_work(self, callers: int) -> Any:
        """Everything works inside."""
        tasks = [asyncio.create_task(self.call_all_the_time(number)) for number in range(callers)]
        try:
            yield
        finally:
            self._is_over.set()
            await asyncio.gather(*tasks)


async def _call(requests: httpx2.AsyncClient, node: GatewayProcess, parcel: str) -> Any:
    """The result of a call; None when the node refused the request itself, as one that stops does."""
    headers = {"Authorization": f"Bearer {node.token}"}
    path = f"{node.url}/api/tools/counter__lift/call"
    answer = await requests.post(path, json={"args": {"parcel": parcel}}, headers=headers)
    return answer.json() if answer.status_code == 200 else None


async def mcp_servers(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise of an MCP server that one of several nodes runs."""
    engine = PostgresEngine()
    try:
        await asyncio.to_thread(engine.start)
        return await _disturbed(folder, scale, seed, engine.url)
    finally:
        engine.remove()


async def _disturbed(folder: Path, scale: Scale, seed: int, database: str) -> list[Figure]:
    chance, done, log = Random(f"{seed}/nodes_mcp"), Counter[str](), folder / "runs"
    args: list[Json] = ["-I", "-S", str(_PROGRAM), str(log)]
    servers: Json = {"counter": {"command": sys.executable, "args": args, "internal_only": False}}
    with NatsEngine() as nats:
        all_nodes = [
            make_node(folder, f"node{number}", database, nats.url, tools__mcp_servers=servers)
            for number in range(_NODES)
        ]
        async with contextlib.AsyncExitStack() as stack:
            for node in all_nodes:
                await stack.enter_async_context(node)
            await until(lambda: _all_ready(all_nodes))
            load = _Load(all_nodes)
            async with load.at_work(scale.callers * _NODES):
                for _ in range(scale.disturbances):
                    await asyncio.sleep(chance.random())
                    done[await _disturb(chance, load, database, nats)] += 1
                    await until(lambda: _all_ready(all_nodes))
            await until(lambda: not run_sql_at(database, "SELECT id FROM calls WHERE state <> 'done'"))
            return _figures(load, done, log, database)


async def _disturb(chance: Random, load: _Load, database: str, nats: NatsEngine) -> str:
    owner = _owner(load.nodes, database)
    match chance.randrange(5):
        case 0:
            await owner.kill()
            await asyncio.sleep(chance.random() * 5)
            await owner.start()
            return "killed"
        case 1:
            os.kill(owner.pid, signal.SIGSTOP)
            await asyncio.sleep(3 + chance.random() * 4)
            os.kill(owner.pid, signal.SIGCONT)
            return "frozen"
        case 2:
            nats.stop()
            await asyncio.sleep(chance.random() * 2)
            nats.start()
            return "nats killed"
        case 3:
            await _kill_caller(chance, load, database, owner)
            return "caller killed"
    load.is_calm = True
    await owner.terminate(_PATIENCE)
    load.is_calm = False
    await owner.start()
    return "stopped"


async def _kill_caller(chance: Random, load: _Load, database: str, owner: GatewayProcess) -> None:
    """Kill a node that does not run the server, and wait until another one has taken its calls over."""
    caller = chance.choice([node for node in load.nodes if node is not owner])
    ready_at = time.time()
    await asyncio.sleep(chance.random())
    await caller.kill()
    killed_at = time.time()
    open_calls = f"SELECT id FROM calls WHERE state <> 'done' AND at < {killed_at}"
    await until(lambda: not run_sql_at(database, open_calls))
    load.unknown += _unknown_outcomes(database, since=ready_at)
    await caller.start()


def _unknown_outcomes(database: str, *, since: float) -> list[str]:
    """Return what the calls say that began at this time or later.

    Earlier ones may have begun on a node that went on after a freeze, and did not know yet that it was counted as lost.
    """
    text = "convert_from(result, 'UTF8')"
    sql = f"SELECT id, {text} FROM calls WHERE at >= {since} AND {text} LIKE '%unknown_outcome%'"
    return [f"{call}: {said}" for call, said in run_sql_at(database, sql)]


def _owner(all_nodes: list[GatewayProcess], database: str) -> GatewayProcess:
    found = run_sql_at(database, "SELECT name FROM clients WHERE role = 'server'")
    return all_nodes[int(str(found[0][0]).removeprefix("node"))] if found else all_nodes[0]


async def _all_ready(all_nodes: list[GatewayProcess]) -> bool:
    """Whether every node says that the same node runs the server."""
    await asyncio.sleep(_AGAIN)
    seen: set[str] = set()
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as requests:
        for node in all_nodes:
            try:
                answer = await requests.get(f"{node.url}/api/mcp", headers={"Authorization": f"Bearer {node.token}"})
            except httpx2.TransportError:
                return False
            if answer.status_code != 200:
                return False
            seen |= {one["node"] if one["status"] == "ready" else "" for one in answer.json()["servers"]}
    return len(seen) == 1 and "" not in seen


def _figures(load: _Load, done: Counter[str], log: Path, database: str) -> list[Figure]:
    ran = Counter(log.read_text().splitlines())
    codes = Counter(result.get("code", result["status"]) for result in load.results.values())
    good = {parcel: result for parcel, result in load.results.items() if result["status"] == "success"}
    leases = run_sql_at(database, "SELECT name FROM clients WHERE role = 'server'")
    return [
        Figure("calls with a result", len(load.results), at_least=1),
        none_of("calls that ran twice", (f"{parcel} x {count}" for parcel, count in ran.items() if count > 1)),
        none_of("wrong results", (f"{parcel}: {one}" for parcel, one in good.items() if one["result"] != parcel)),
        none_of("results of calls that did not run", (parcel for parcel in good if parcel not in ran)),
        none_of("dishonest codes", (code for code in codes if code not in _HONEST | {"success"})),
        none_of("calls that failed while a node stopped", load.failed),
        none_of("unknown outcomes while the server was there", load.unknown),
        Figure("nodes that run the server", len(leases), at_most=1, at_least=1),
        *(Figure(f"results: {code}", count) for code, count in sorted(codes.items())),
        *(Figure(f"disturbances: {kind}", count) for kind, count in sorted(done.items())),
    ]
