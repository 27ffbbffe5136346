"""Three gateways as one: real processes, one PostgreSQL, one NATS server, all on loopback."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import httpx2
import msgspec
import pytest
from msgspec import Struct

from handspan.config.kinds import NodeRole
from handspan.core.values import Json, JsonObject
from handspan.models.model import Model
from handspan.testing import FakeDevice, GatewayProcess
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.process import SPOKEN
from handspan.testing.spoken import Spoken
from tests.nats_engine import NatsEngine, need_server
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, run_sql_at, schema_url
from tests.waiting import WAIT, until

LEASE: Final = 3.0
LONG_LEASE: Final = 30.0
"""For tests in which no node dies: on a busy machine, a node may be silent for longer than the short one."""
PATIENT: Final = WAIT
"""Seconds that a frame may take: a node may have to die first."""


class Reachable(Protocol):
    """A node, in a process of its own or in this one."""

    @property
    def url(self) -> str: ...
    @property
    def token(self) -> str: ...


class ThreeNodes(Struct, frozen=True):
    """The nodes, and what they stand on."""

    nodes: tuple[GatewayProcess, ...]
    nats: NatsEngine
    database: str

    def __getitem__(self, place: int) -> GatewayProcess:
        return self.nodes[place]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a statement finds in the database."""
        return run_sql_at(self.database, sql)


@asynccontextmanager
async def nodes_here(
    folder: Path,
    *roles: NodeRole,
    drain: float = 10.0,
    cluster: JsonObject | None = None,
    model: Model | None = None,
    **settings: Any,
) -> AsyncIterator[Sequence[RunningGateway]]:
    """Nodes of these roles, in this process: nothing of them can die alone, and they start faster.

    `cluster`: more settings of this section. `model`: of all nodes; without it, `Spoken`.
    """
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    with NatsEngine() as nats:
        store: Json = {"url": schema_url(folder / "state"), "timeout": 30}
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(
                    running_gateway(
                        folder / f"node{number}",
                        model=Spoken() if model is None else model,
                        store=store,
                        cluster={
                            "url": nats.url,
                            "name": f"node{number}",
                            "role": role,
                            "drain": drain,
                            **(cluster or {}),
                        },
                        **settings,
                    )
                )
                for number, role in enumerate(roles)
            ]


def make_node(folder: Path, name: str, database: str, nats: str, **settings: Json) -> GatewayProcess:
    """A node that is not started yet. `settings`: more of them, with `__` in place of dots."""
    given: dict[str, Json] = {
        "store.url": database,
        "store.timeout": 30,
        "cluster.url": nats,
        "cluster.name": name,
        "cluster.lease": LEASE,
        **{key.replace("__", "."): value for key, value in settings.items()},
    }
    options = [
        word for key, value in given.items() for word in ("--set", f"{key}={msgspec.json.encode(value).decode()}")
    ]
    return GatewayProcess(folder / name, *options, model=SPOKEN)


@asynccontextmanager
async def open_nodes(folder: Path, count: int = 3, **settings: Json) -> AsyncIterator[ThreeNodes]:
    """Nodes that are up."""
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    database = schema_url(folder / "state")
    with NatsEngine() as nats:
        nodes = [make_node(folder, f"node{number}", database, nats.url, **settings) for number in range(count)]
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(stack.enter_async_context(node) for node in nodes))
            yield ThreeNodes(tuple(nodes), nats, database)


async def ask(node: Reachable, method: str, path: str, body: JsonObject | None = None, **more: Any) -> Any:
    """What a REST request answers."""
    async with httpx2.AsyncClient(timeout=WAIT) as client:
        token = more.pop("token", node.token)
        headers = ({"Authorization": f"Bearer {token}"} if token else {}) | more.pop("extra_headers", {})
        response = await client.request(method, node.url + path, json=body, headers=headers, **more)
        return response.json()


async def tools_of(node: Reachable, token: str = "") -> set[str]:
    """The names of the tools that a node lists, for the operator or the owner of this token."""
    return {tool["name"] for tool in (await ask(node, "GET", "/api/tools", token=token or node.token))["tools"]}


async def listed(nodes: "ThreeNodes | Sequence[Reachable]", *names: str, on: tuple[int, ...] = (0, 1, 2)) -> None:
    """Wait until these tools are listed on these nodes."""
    for place in on:
        await until(lambda place=place: _lists(nodes[place], names))  # type: ignore[misc] # mypy wants no default


async def _lists(node: Reachable, names: tuple[str, ...]) -> bool:
    return set(names) <= await tools_of(node)


class Chat:
    """A person at a node."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device

    async def say(self, text: str, **more: Json) -> None:
        """Say something."""
        await self.device.send({"type": "message", "content": text, **more})

    async def answer(self) -> str:
        """The whole answer, when the turn is over."""
        done = await self.device.expect("done", PATIENT)
        return str(done["full_response"])

    async def event(self, kind: str) -> JsonObject:
        """The next event of this kind, for a chat with the capability `events`."""
        while True:
            event = (await self.device.expect("event", PATIENT))["event"]
            if isinstance(event, dict) and event["type"] == kind:
                return event


@asynccontextmanager
async def chat_at(node: Reachable, session: str | None = None, **more: Any) -> AsyncIterator[Chat]:
    """A chat that is connected."""
    async with FakeDevice(node.url, node.token) as device:
        await device.connect(role="chat", session_id=session, **more)
        yield Chat(device)


@asynccontextmanager
async def device_at(
    node: Reachable,
    *tools: Json,
    label: str = "phone",
    capabilities: tuple[str, ...] = ("resume",),
    access: str = "",
    **more: Any,
) -> AsyncIterator[FakeDevice]:
    """A device with these tools. `access`: the token that it came with the first time."""
    made = {} if access else await ask(node, "POST", "/api/tokens", {"scopes": ["device"], "label": label})
    async with FakeDevice(node.url, access or made["token"]) as device:
        await device.connect(role="device", label=label, capabilities=list(capabilities), **more)
        if tools:
            await device.register(*tools)
        yield device


def resume_token(device: FakeDevice) -> str:
    """The token with which the device comes back as itself."""
    return str(next(frame for frame in device.heard if frame["type"] == "connected")["resume_token"])
