"""Three nodes, one PostgreSQL, one NATS server: each of them dies, freezes or stops, again and again, under load.

Devices can come back; callers ask again with the same key at another node. At the end every call has one result,
nothing ran twice, and all nodes list the same.
"""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
from msgspec import Struct

from handspan.client import Client
from handspan.testing import GatewayProcess
from tests.chaos.figures import Figure, none_of
from tests.nats_engine import NatsEngine
from tests.nodes.gateways import make_node
from tests.postgres_engine import PostgresEngine, run_sql_at
from tests.waiting import until

_NODES: Final = 3
_PATIENCE: Final = 120.0
_AGAIN: Final = 0.05


class Scale(Struct, frozen=True):
    """How much of it."""

    disturbances: int = 30
    devices: int = 6
    callers: int = 6


SHORT: Final = Scale(2, 2, 2)


class _Load:
    """The devices and callers of all nodes."""

    def __init__(self, nodes: list[GatewayProcess], scale: Scale, seed: int) -> None:
        self.nodes = nodes
        self.is_over = asyncio.Event()
        self.ran: Counter[str] = Counter()
        self.results: dict[str, Any] = {}
        self.codes: Counter[str] = Counter()
        self._chance = Random(f"{seed}/load")
        self.devices = [f"arm{number}" for number in range(scale.devices)]
        self._callers = scale.callers

    async def device(self, label: str, node: GatewayProcess) -> None:
        """Offer a tool at this node until it is over."""
        client = Client(node.url, node.token, label=label, concurrency=8)

        @client.tool
        async def lift(parcel: str) -> str:
            """Lift a parcel."""
            self.ran[parcel] += 1
            await asyncio.sleep(self._chance.random() * 0.2)
            return parcel

        running = asyncio.create_task(client.run())
        await self.is_over.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def caller(self, number: int) -> None:
        """Call one device after the other, each time at any node, until it is over."""
        async with httpx2.AsyncClient(timeout=30, trust_env=False) as requests:
            count = 0
            while not self.is_over.is_set():
                count += 1
                parcel = f"{number}-{count}"
                self.results[parcel] = None
                self.results[parcel] = await self._call(requests, parcel)

    async def _call(self, requests: httpx2.AsyncClient, parcel: str) -> Any:
        path = f"/api/tools/{self._chance.choice(self.devices)}__lift/call"
        async with asyncio.timeout(_PATIENCE):
            while True:
                node = self._chance.choice(self.nodes)
                headers = {"Authorization": f"Bearer {node.token}", "Idempotency-Key": parcel}
                with contextlib.suppress(httpx2.TransportError):
                    answer = await requests.post(node.url + path, json={"args": {"parcel": parcel}}, headers=headers)
                    if answer.status_code == 200:
                        found = answer.json()
                        self.codes[found.get("code", found["status"])] += 1
                        return found
                    if answer.status_code == 202:
                        location = f"{node.url}/api/calls/{answer.headers['location'].rpartition('/')[2]}?wait=2"
                        shown = (await requests.get(location, headers=headers)).json()
                        if shown.get("result") is not None:
                            self.codes[shown["status"]] += 1
                            return shown["result"]
                await asyncio.sleep(_AGAIN)

    @contextlib.asynccontextmanager
    async def at_work(self) -> Any:
        """Everything works inside."""
        devices = [self.device(label, self.nodes[at % len(self.nodes)]) for at, label in enumerate(self.devices)]
        tasks = [asyncio.create_task(work) for work in (*devices, *map(self.caller, range(self._callers)))]
        try:
            yield
        finally:
            self.is_over.set()
            await asyncio.gather(*tasks)


async def nodes(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise of many nodes while all of their parts fail by turns."""
    engine = PostgresEngine()
    try:
        await asyncio.to_thread(engine.start)
        return await _disturbed(folder, scale, seed, engine)
    finally:
        engine.remove()


async def _disturbed(folder: Path, scale: Scale, seed: int, engine: PostgresEngine) -> list[Figure]:
    database = engine.url
    chance = Random(f"{seed}/disturbances")
    done: Counter[str] = Counter()
    with NatsEngine() as nats:
        all_nodes = [make_node(folder, f"node{number}", database, nats.url) for number in range(_NODES)]
        async with contextlib.AsyncExitStack() as stack:
            for node in all_nodes:
                await stack.enter_async_context(node)
            load = _Load(all_nodes, scale, seed)
            async with load.at_work():
                await until(lambda: _all_list(load))
                for _ in range(scale.disturbances):
                    await asyncio.sleep(chance.random() * 2)
                    done[await _disturb(chance, all_nodes, nats, engine)] += 1
                await until(lambda: _all_list(load))  # every part is well again
            await until(lambda: not _open_calls(database))
            return _figures(load, done, database)


async def _disturb(chance: Random, all_nodes: list[GatewayProcess], nats: NatsEngine, engine: PostgresEngine) -> str:
    node = chance.choice(all_nodes)
    match chance.randrange(6):
        case 0:
            await node.kill()
            await asyncio.sleep(chance.random() * 5)
            await node.start()
            return "killed"
        case 1:
            os.kill(node.pid, signal.SIGSTOP)
            await asyncio.sleep(chance.random() * 6)  # shorter and longer than a lease
            os.kill(node.pid, signal.SIGCONT)
            return "frozen"
        case 2:
            await node.terminate(_PATIENCE)
            await node.start()
            return "stopped"
        case 3:
            nats.stop()
            await asyncio.sleep(chance.random() * 3)
            nats.start()
            return "nats killed"
        case 4:
            await asyncio.to_thread(engine.stop)
            await asyncio.sleep(chance.random() * 6)
            await asyncio.to_thread(engine.start)
            return "database stopped"
    nats.freeze()
    await asyncio.sleep(chance.random() * 5)
    nats.thaw()
    return "nats frozen"


async def _all_list(load: _Load) -> bool:
    """Whether every node lists the tools of all devices."""
    wanted = {f"{label}__lift" for label in load.devices}
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as requests:
        for node in load.nodes:
            try:
                answer = await requests.get(f"{node.url}/api/tools", headers={"Authorization": f"Bearer {node.token}"})
            except httpx2.TransportError:
                return False
            if answer.status_code != 200 or not wanted <= {tool["name"] for tool in answer.json()["tools"]}:
                return False
    return True


def _open_calls(database: str) -> list[tuple[Any, ...]]:
    return run_sql_at(database, "SELECT id, state FROM calls WHERE state <> 'done'")


def _figures(load: _Load, done: Counter[str], database: str) -> list[Figure]:
    wrong = [
        f"{parcel}: {result}"
        for parcel, result in load.results.items()
        if result is not None and result["status"] == "success" and result["result"] != parcel
    ]
    dead = run_sql_at(database, "SELECT node FROM clients WHERE node NOT IN (SELECT id FROM nodes)")
    return [
        Figure("calls with a result", sum(result is not None for result in load.results.values()), at_least=1),
        none_of("calls without a result", (parcel for parcel, result in load.results.items() if result is None)),
        none_of("calls that ran twice", (f"{parcel} x {count}" for parcel, count in load.ran.items() if count > 1)),
        none_of("wrong results", wrong),
        none_of("clients of dead nodes", map(str, dead)),
        *(Figure(f"results: {code}", count) for code, count in sorted(load.codes.items())),
        *(Figure(f"disturbances: {kind}", count) for kind, count in sorted(done.items())),
    ]
