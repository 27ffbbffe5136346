"""A node that the others count as lost while it starts, or that is cut off: it joins again, and lives on (SPEC K3)."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from handspan.config.settings import Settings
from handspan.config.store_settings import ClusterSettings
from handspan.core.errors import ConfigError
from handspan.gateway.nodes.cluster import Cluster
from handspan.gateway.parts import GatewayParts
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.store import NodeName, postgres_store
from handspan.testing.gateway import RunningGateway
from tests.nats_engine import NatsEngine, need_server
from tests.nodes.gateways import PATIENT, chat_at, nodes_here
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, run_sql_at, schema_url
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio


def _no_parts() -> GatewayParts:
    raise AssertionError("a node that does not take part yet asks for nothing of its gateway")


@pytest.mark.parametrize("is_connected", [False, True], ids=["before its link", "before its doors"])
async def test_a_node_that_is_lost_before_it_takes_part_joins_again_each_time(
    tmp_path: Path, is_connected: bool
) -> None:
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    url = schema_url(tmp_path)
    with NatsEngine() as nats:
        address = StoreAddress(url, connections=4, timeout=30.0)
        store = postgres_store(address, tmp_path, node=NodeName("one"), lease_seconds=0.6)
        assert store.nodes is not None
        book = store.nodes
        settings = Settings(tmp_path, tmp_path, cluster=ClusterSettings(url=nats.url, name="one"))
        cluster = Cluster(settings, store, _no_parts)
        cluster.prepare("http://127.0.0.1:1")
        async with store:
            if is_connected:
                await cluster.connect()
            for _ in range(2):  # something long, such as the import of a plugin, kept it from its signs of life
                before = book.own
                run_sql_at(url, f"DELETE FROM leases WHERE id = '{before}'")
                await until(lambda: run_sql_at(url, "SELECT id FROM nodes"))
                assert run_sql_at(url, "SELECT id FROM nodes") == [(book.own,)] and book.own != before
            if not is_connected:
                await cluster.connect()
            await until(lambda: cluster.link._node == book.own)
            await cluster.close()


async def cut_off(node: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the connection to NATS from a node, and let it find none."""
    assert isinstance(node.gateway.parts.nodes, Cluster)
    link = node.gateway.parts.nodes.link

    async def fail(name: str) -> None:
        raise ConfigError("no connection to NATS")

    monkeypatch.setattr(link, "_connect", fail)
    await link._client.close()
    await until(lambda: not link.is_up)


async def status_of(node: RunningGateway) -> int:
    """The status of `/ready`."""
    async with httpx2.AsyncClient(timeout=WAIT) as client:
        return (await client.get(f"{node.url}/ready")).status_code


async def is_refused(node: RunningGateway) -> bool:
    """Whether a node takes no new clients."""
    try:
        async with chat_at(node):
            return False
    except InvalidStatus as refused:
        return refused.response.status_code == 503


async def test_a_node_that_is_cut_off_is_not_ready_takes_no_clients_and_sends_its_own_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes_here(tmp_path, "all", "all", cluster={"away": 3.5}) as (here, there), chat_at(here) as chat:
        await cut_off(here, monkeypatch)
        await until(lambda: is_refused(here))
        assert await status_of(here) == 503 and await status_of(there) == 200
        assert await chat.device.closed(PATIENT) == 1012
        monkeypatch.undo()
        await until(lambda: _is(status_of(here), 200))
        async with chat_at(here) as again:
            await again.say("hello")
            assert "hello" in await again.answer()


async def test_clients_stay_where_no_node_has_a_connection_to_nats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        nodes_here(tmp_path, "all", "all", cluster={"away": 2.5, "lease": 1.0}) as nodes,
        AsyncExitStack() as stack,
    ):
        chats = [await stack.enter_async_context(chat_at(node)) for node in nodes]
        looks: list[int] = []
        await asyncio.gather(*(cut_off(node, monkeypatch) for node in nodes))
        for place, node in enumerate(nodes):
            book = node.gateway.parts.store.nodes
            assert book is not None

            async def read(place: int = place, find: Any = book.nodes) -> Any:
                looks.append(place)
                return await find()

            monkeypatch.setattr(book, "nodes", read)
        await until(lambda: min(looks.count(0), looks.count(1)) >= 6)  # each has looked for others with a connection
        await until(lambda: _all_ready(nodes))
        for node, chat in zip(nodes, chats, strict=True):
            assert not await is_refused(node)
            await chat.say("hello")
            assert "hello" in await chat.answer()


async def _is(asked: Awaitable[int], wanted: int) -> bool:
    return await asked == wanted


async def _all_ready(nodes: Sequence[RunningGateway]) -> bool:
    return [await status_of(node) for node in nodes] == [200, 200]
