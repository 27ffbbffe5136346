"""MCP servers spread over the nodes: each server has its first node, and none waits long for it."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from handspan.core.nodes import NodeRecord
from handspan.gateway.nodes.server_share import NodeShare, first_node
from tests.nodes.two_nodes import InstantLoop

SERVERS = [f"server{number}" for number in range(30)]


def node(name: str, *, is_draining: bool = False) -> NodeRecord:
    """A node that lives."""
    return NodeRecord(f"id of {name}", name, "", "", "all", 0.0, 0.0, is_draining, {})


class Rows:
    """The rows that the nodes share: which nodes live, and which node runs each server."""

    def __init__(self) -> None:
        self.nodes: list[NodeRecord] = []
        self.owners: dict[str, str] = {}
        self.hosts: list[Host] = []

    def leave(self, name: str) -> None:
        """Let a node go, with the servers that it runs."""
        self.nodes = [one for one in self.nodes if one.name != name]
        self.hosts = [host for host in self.hosts if host.node != name]
        self.free(name)

    def free(self, name: str) -> None:
        """Remove the rows of a node, and let the others know."""
        self.owners = {server: owner for server, owner in self.owners.items() if owner != name}
        for host in self.hosts:
            for share in host.shares.values():
                share.changed_elsewhere.set()


class Host:
    """One node, as its shares see it. It fills the part of `SharedServers` that a claim needs."""

    def __init__(self, rows: Rows, name: str, *servers: str, settles_in: float = 0.0) -> None:
        self.ready = asyncio.Event()
        self.ready.set()
        self.node = name
        self.settles_in = settles_in
        self._rows = rows
        self._servers = servers or tuple(SERVERS)
        self.shares = {server: NodeShare(server, cast(Any, self)) for server in SERVERS}
        rows.nodes.append(node(name))
        rows.hosts.append(self)

    def link_of(self, server: str) -> Any:
        owner = self._rows.owners.get(server, self.node)
        return None if owner == self.node else SimpleNamespace(owner=owner)

    async def is_first(self, server: str) -> bool:
        await asyncio.sleep(0)
        return first_node(self._rows.nodes, server) == f"id of {self.node}"

    async def claim(self, server: str) -> Any:
        await asyncio.sleep(0)
        if server not in self._servers or self._rows.owners.setdefault(server, self.node) != self.node:
            return None
        for host in self._rows.hosts:
            host.shares[server].changed_elsewhere.set()
        return SimpleNamespace()

    async def release(self, _: Any) -> None:
        await asyncio.sleep(0)
        self._rows.free(self.node)

    async def claim_all(self) -> None:
        """Take part in all servers."""
        await asyncio.gather(*(share.claim() for share in self.shares.values()))


@pytest.fixture
def loop() -> Iterator[InstantLoop]:
    """A loop on which time passes at once."""
    loop = InstantLoop()
    with mock.patch("time.monotonic", loop.time):
        yield loop
    loop.close()


def took(loop: InstantLoop, work: Coroutine[Any, Any, None]) -> float:
    """Do this; return how long it took."""
    began = loop.now
    loop.run_until_complete(work)
    return loop.now - began


async def _all_at_work(*hosts: Host) -> None:
    await asyncio.gather(*(host.claim_all() for host in hosts))


def test_each_node_runs_a_part_of_the_servers_and_starts_them_at_once(loop: InstantLoop) -> None:
    rows = Rows()

    async def work() -> None:
        await _all_at_work(*(Host(rows, name) for name in ("one", "two", "three")))

    assert took(loop, work()) == 0
    counts = Counter(rows.owners.values())
    assert (
        counts.keys() == {"one", "two", "three"} and sum(counts.values()) == len(SERVERS) and min(counts.values()) > 4
    )


def test_a_lone_node_runs_all_servers_and_one_that_joins_moves_none(loop: InstantLoop) -> None:
    rows = Rows()

    async def work() -> None:
        await Host(rows, "one").claim_all()
        await Host(rows, "two").claim_all()

    assert took(loop, work()) == 0
    assert set(rows.owners.values()) == {"one"}


def test_a_node_that_starts_leaves_servers_to_those_that_come_with_it(loop: InstantLoop) -> None:
    rows = Rows()

    async def come_later() -> None:
        await asyncio.sleep(0.8)
        await Host(rows, "two", settles_in=1.0).claim_all()

    async def work() -> None:
        await asyncio.gather(Host(rows, "one", settles_in=1.0).claim_all(), come_later())

    assert took(loop, work()) <= 1.8
    assert Counter(rows.owners.values()).keys() == {"one", "two"}


def test_the_servers_of_a_node_that_is_gone_spread_over_the_others(loop: InstantLoop) -> None:
    rows = Rows()

    async def work() -> None:
        one = Host(rows, "one")
        await one.claim_all()
        others = [Host(rows, name) for name in ("two", "three")]
        rows.leave("one")
        await _all_at_work(*others)

    loop.run_until_complete(work())
    assert Counter(rows.owners.values()).keys() == {"two", "three"}


def test_a_server_waits_only_a_moment_for_a_first_node_that_does_not_have_it(loop: InstantLoop) -> None:
    rows = Rows()

    async def work() -> None:
        Host(rows, "without", "nothing")
        await Host(rows, "with").claim_all()

    assert took(loop, work()) <= 1
    assert set(rows.owners.values()) == {"with"}


def test_a_server_that_can_not_be_started_at_its_first_node_goes_to_another_one(loop: InstantLoop) -> None:
    rows = Rows()

    async def work() -> None:
        hosts = [Host(rows, name) for name in ("one", "two")]
        await _all_at_work(*hosts)
        failing = next(host for host in hosts if host.node == rows.owners[SERVERS[0]])
        other = next(host for host in hosts if host is not failing)
        await failing.shares[SERVERS[0]].release()
        await asyncio.gather(failing.shares[SERVERS[0]].claim(), other.shares[SERVERS[0]].claim())
        assert rows.owners[SERVERS[0]] == other.node

    loop.run_until_complete(work())


def test_a_node_that_stops_is_no_first_node() -> None:
    living = [node("one"), node("two")]
    moved = {first_node([node("one", is_draining=True), node("two")], server) for server in SERVERS}
    assert moved == {"id of two"} and {first_node(living, server) for server in SERVERS} == {"id of one", "id of two"}
    assert first_node([], "server") == ""
