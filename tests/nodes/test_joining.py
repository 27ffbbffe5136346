"""A node that the others count as lost while it starts: it joins again, and lives on (SPEC K3)."""

from pathlib import Path

import pytest

from handspan.config.settings import ClusterSettings
from handspan.gateway.nodes.cluster import Cluster
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.store import NodeName, postgres_store
from tests.nats_engine import NatsEngine, need_server
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, run_sql_at, schema_url
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_connected", [False, True], ids=["before its link", "before its doors"])
async def test_a_node_that_is_lost_before_it_takes_part_joins_again_each_time(
    tmp_path: Path, is_connected: bool
) -> None:
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    url = schema_url(tmp_path)
    with NatsEngine() as nats:
        cluster = Cluster(ClusterSettings(url=nats.url, name="one"), 30.0, 10)
        address = StoreAddress(url, connections=4, timeout=30.0)
        store = postgres_store(address, tmp_path, node=NodeName("one"), lease_seconds=0.6)
        assert store.nodes is not None
        book = store.nodes
        cluster.prepare(book, "http://127.0.0.1:1")
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
