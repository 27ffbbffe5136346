"""A device that a stopping node sends to another one: calls wait for it, and its tools stay (SPEC K6, ws.md 4.5)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from handspan.gateway.clients import peers
from handspan.gateway.nodes.cluster import Cluster
from handspan.sources.nodes.messages import Probe, Probed, ProbedClient
from handspan.testing import FakeDevice, offer
from handspan.testing.gateway import RunningGateway
from tests.nodes.gateways import PATIENT, ask, device_at, listed, nodes_here, resume_token, tools_of
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ADD, SUB = offer("add", "Add two numbers.", timeout=60), offer("sub", "Subtract two numbers.", timeout=60)
ANSWER = 48


def knows(node: RunningGateway, name: str) -> bool:
    """Whether a tool of this name is in the registry of this node."""
    return any(entry.spec.name == name for entry in node.gateway.parts.app.registry)


@asynccontextmanager
async def never_without(nodes: Sequence[RunningGateway], name: str) -> AsyncIterator[None]:
    """Look at the registries of these nodes between all steps of the block: each has a tool of this name."""
    missing: list[int] = []

    async def look() -> None:
        while True:
            missing.extend(place for place, node in enumerate(nodes) if not knows(node, name))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
    assert missing == [], "the tool was gone for a moment on these nodes"


def begin_call(node: RunningGateway, tool: str) -> "asyncio.Task[Any]":
    """Call this tool at this node, by HTTP and without another try."""
    return asyncio.create_task(ask(node, "POST", f"/api/tools/{tool}/call", {"args": {}}))


async def has_open_calls(node: RunningGateway, count: int) -> bool:
    """Whether so many calls wait on all nodes."""
    return len((await ask(node, "GET", "/api/calls?status=open"))["calls"]) == count


async def answer_all(phone: FakeDevice, calls: Sequence["asyncio.Task[Any]"]) -> None:
    """Answer as many calls as there are, and see that each has this answer."""
    for _ in calls:
        await phone.answer(await phone.expect("tool_call_request", PATIENT), ANSWER)
    for call in calls:
        assert (await soon(call)).get("result") == ANSWER


async def test_calls_wait_for_a_device_that_moves_and_its_tools_stay_on_every_node(tmp_path: Path) -> None:
    async with (
        nodes_here(tmp_path, "all", "all", "all") as nodes,
        device_at(nodes[0], ADD) as phone,
        AsyncExitStack() as later,
    ):
        await listed(nodes, "phone__add")
        async with never_without(nodes, "phone__add"):
            stopping = asyncio.create_task(nodes[0].gateway.leave())
            assert await phone.closed(PATIENT) == 1012
            calls = [begin_call(node, "phone__add") for node in nodes]
            await until(lambda: has_open_calls(nodes[1], len(calls)))
            assert all(["phone__add" in await tools_of(node) for node in nodes])
            assert not stopping.done() and not any(call.done() for call in calls)
            back = device_at(nodes[2], ADD, resume=resume_token(phone), access=phone.token)
            moved = await later.enter_async_context(back)
            await answer_all(moved, calls)
            await soon(stopping)
            await answer_all(moved, [begin_call(node, "phone__add") for node in nodes])


async def test_tools_that_a_moved_device_does_not_offer_again_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_OFFER_SECONDS", 0.1)
    async with nodes_here(tmp_path, "all", "all") as nodes, device_at(nodes[0], ADD, SUB) as phone:
        await listed(nodes, "phone__add", "phone__sub", on=(0, 1))
        stopping = asyncio.create_task(nodes[0].gateway.leave())
        await phone.closed(PATIENT)
        async with device_at(nodes[1], ADD, resume=resume_token(phone), access=phone.token):
            await soon(stopping)
            for node in nodes:
                await until(lambda node=node: not knows(node, "phone__sub"))  # type: ignore[misc]
                assert knows(node, "phone__add")


async def test_tools_of_a_device_that_does_not_come_back_go_with_its_node(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all", drain=0.5) as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add", on=(0, 1))
        await nodes[0].close(0.1)
        await phone.closed(PATIENT)
        await until(lambda: not knows(nodes[1], "phone__add"))
        refused = await ask(nodes[1], "POST", "/api/tools/phone__add/call", {"args": {}})
        assert refused["code"] in ("tool_not_available", "tool_not_found")


async def test_a_device_that_leaves_while_its_node_stops_takes_its_tools_with_it(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all") as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add", on=(0, 1))
        await phone.leave(1000)
        await until(lambda: not any(knows(node, "phone__add") for node in nodes))


async def test_a_node_that_is_alone_waits_for_no_device(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", drain=3600.0) as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add", on=(0,))
        await soon(nodes[0].gateway.leave())
        assert await phone.closed(PATIENT) == 1012
        await until(lambda: not knows(nodes[0], "phone__add"))


def test_a_node_that_is_probed_says_which_clients_move() -> None:
    rows = SimpleNamespace(is_moving=lambda peer, epoch: peer == "p1")
    node = cast(Any, SimpleNamespace(client_rows=rows, _receiver=lambda peer, epoch: None))
    asked = Probe("node", (ProbedClient("p1", 1), ProbedClient("mcp-1", 1)))
    answer = Cluster._answer_probe(node, asked)
    assert msgspec.msgpack.decode(answer, type=Probed) == Probed((), ("mcp-1",), ("p1",))
