"""Several nodes on one database: who lives, whose turn counts, where clients are (SPEC K3, K5)."""

import asyncio
import time
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs

from handspan.core.errors import StoreError, ToolError
from handspan.core.messages import AssistantMessage, Text, UserMessage
from handspan.core.nodes import AddedClient, ClientRecord, EntryCode, NodeBook, RequestClaim
from handspan.store.postgres.connections import Connector, PostgresConnection, StoreAddress
from handspan.store.postgres.node_leases import NodeLeases
from handspan.store.postgres.store import NodeName, PostgresStore, postgres_store
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import Row
from handspan.store.tables.turns import BeginTurn
from tests.postgres_engine import schema_url
from tests.stores import rows_in
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio
LEASE = 0.6


def node_at(state: Path, name: str, lease: float = LEASE) -> PostgresStore:
    """A store of one node of several."""
    address = StoreAddress(schema_url(state), connections=4, timeout=30.0)
    return postgres_store(address, state / name, node=NodeName(name), lease_seconds=lease)


def book_of(store: PostgresStore) -> NodeBook:
    """The nodes of a store that has them."""
    assert store.nodes is not None
    return store.nodes


def client(store: PostgresStore, peer: str, label: str = "phone", owner: str = "ann") -> ClientRecord:
    """A device that is connected to this node."""
    return ClientRecord(
        peer=peer,
        owner=owner,
        node=book_of(store).own,
        epoch=0,
        role="device",
        label=label,
        session="",
        prefix=True,
        capabilities=("deadline", "resume"),
        tools=b'[{"name":"add"}]',
    )


async def test_several_nodes_use_one_database_and_a_lone_gateway_does_not(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two"):
        assert [node.name for node in await book_of(one).nodes()] == ["one", "two"]
        address = StoreAddress(schema_url(state), connections=4, timeout=30.0)
        with pytest.raises(StoreError, match="Another gateway uses the database"):
            await soon(postgres_store(address, state, is_gateway=True).open())
    assert rows_in(state, "SELECT count(*) FROM nodes") == [(0,)]


async def test_a_node_without_a_sign_of_life_is_lost_with_its_clients_and_joins_again_under_a_new_id(
    state: Path,
) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        lost: list[str] = []
        before, may_live = book_of(one).own, False
        book_of(one).prepare("", lambda: may_live, lost.append)
        await book_of(one).add_client(client(one, "p1"))
        await until(lambda: _is_lost(book_of(two), before))
        assert await two.leases.is_alive(before) is False  # that declares it lost
        assert await book_of(two).client_nodes(["ann"]) == []
        assert await book_of(two).declare_lost(before) is False
        may_live = True
        await until(lambda: lost)
        assert lost == [before] and book_of(one).own != before
        assert {node.id for node in await book_of(two).nodes()} == {book_of(one).own, book_of(two).own}


async def _is_lost(book: NodeBook, node: str) -> bool:
    return node in await book.lost_nodes()


async def test_a_node_whose_own_lease_had_a_gap_judges_no_other(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        for store in (one, two):
            book_of(store).prepare("", lambda: False, lambda old: None)
        await until(lambda: _are_old(state))
        assert await book_of(two).lost_nodes() == []
        assert await two.leases.is_alive(book_of(one).own) is True


async def _are_old(state: Path) -> bool:
    return rows_in(state, f"SELECT 1 FROM leases WHERE seen > clock_timestamp() - interval '{LEASE} s'") == []


async def test_what_a_node_writes_for_a_turn_that_another_one_took_over_is_refused(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        session = (await one.conversations.create(owner="ann")).id
        await one.conversations.begin_turn(session, owner="ann")
        await one.conversations.append(session, UserMessage((Text("hello"),)), owner="ann", after=0)
        with pytest.raises(ToolError, match="is running"):
            await two.conversations.begin_turn(session, owner="ann")
        await book_of(two).declare_lost(book_of(one).own)
        recovery = await two.recover()
        assert recovery.closed == (session,)
        record = await two.conversations.begin_turn(session, owner="ann")
        assert (record.length, record.state) == (1, "running")
        answer = AssistantMessage((Text("from the old node"),))
        with pytest.raises(ToolError, match="taken over"):
            await one.conversations.append(session, answer, owner="ann", after=1)
        with pytest.raises(ToolError, match="taken over"):
            await one.conversations.rewind(session, 0, owner="ann")
        await one.conversations.end_turn(session, owner="ann")  # it ends nothing
        assert (await two.conversations.get(session, owner="ann")).state == "running"
        await two.conversations.append(session, AssistantMessage((Text("new"),)), owner="ann", after=1)
        await two.conversations.end_turn(session, owner="ann")
        assert (await two.conversations.get(session, owner="ann")).length == 2


class _EndsMeanwhile:
    """A connection at which the turn of another node ends after the first statement."""

    def __init__(self, inner: TableConnection, other: PostgresStore, session: str) -> None:
        self._inner = inner
        self._other = other
        self._session = session

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        row = await self._inner.fetch_one(sql, values)
        if sql.startswith("UPDATE"):
            await soon(self._other.conversations.end_turn(self._session, owner="ann"))
        return row


async def test_a_turn_that_ends_elsewhere_just_now_is_never_taken_for_one_that_has_begun_here(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        session = (await one.conversations.create(owner="ann")).id
        await one.conversations.begin_turn(session, owner="ann")
        begin = BeginTurn(session, "ann", book_of(two).own, time.time())
        raw = await Connector(StoreAddress(schema_url(state))).connect("test")
        try:
            async with raw.transaction(isolation="read_committed"):  # as where several works share a commit
                connection = cast(TableConnection, _EndsMeanwhile(PostgresConnection(raw), one, session))
                with pytest.raises(ToolError) as refused:
                    await begin(connection)
        finally:
            await raw.close()
        assert refused.value.code == "busy"
        await two.conversations.begin_turn(session, owner="ann")


async def test_of_two_devices_that_come_to_two_nodes_at_once_one_has_the_label(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        for number in range(10):
            came = (client(one, f"a{number}", f"phone{number}"), client(two, f"b{number}", f"phone{number}"))
            added = await asyncio.gather(book_of(one).add_client(came[0]), book_of(two).add_client(came[1]))
            assert sorted(bool(one.epoch) for one in added) == [False, True]


async def test_the_newest_connection_of_a_client_counts_and_two_devices_never_have_one_label(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        first = await book_of(one).add_client(client(one, "p1"))
        assert first.epoch and not first.replaced
        second = await book_of(two).add_client(client(two, "p1"))
        assert second.epoch > first.epoch and second.replaced == book_of(one).own
        await book_of(one).remove_client("p1", first.epoch)  # too late: a newer one is there
        await book_of(one).store_tools("p1", first.epoch, b"[]")
        assert (await book_of(two).add_client(client(two, "p2"))).epoch == 0
        assert (await book_of(one).add_client(client(one, "p2", owner="bob"))).epoch
        [before] = await book_of(one).client_nodes(["ann"])
        assert (before.peer, before.node, before.epoch) == ("p1", book_of(two).own, second.epoch)
        [record] = await book_of(one).clients(["p1", "nobody"])
        assert record.capabilities == ("deadline", "resume") and record.tools == b'[{"name":"add"}]'
        await book_of(two).store_tools("p1", second.epoch, b"[]")
        [changed] = await book_of(one).client_nodes(["ann"])
        assert changed.version == before.version + 1


async def test_codes_work_once_on_any_node_and_wrong_guesses_end_them(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        here, there = book_of(one).codes, book_of(two).codes
        made = EntryCode("hash", "code", "ann", ("chat",))
        await here.add(made, 60, 2, 16)
        assert await there.take("hash", "link") is None
        assert await there.take("hash", "code") == made
        assert await here.take("hash", "code") is None
        await here.add(made, 0, 2, 16)
        assert await there.take("hash", "code") is None  # too old
        await here.add(EntryCode("other", "code", "ann", ("chat",)), 60, 2, 16)
        await there.count_wrong("code")
        await here.count_wrong("code")
        assert await here.take("other", "code") is None
        for number in range(3):
            await here.add(EntryCode(f"h{number}", "code", "ann", ()), 60, 2, 2)
        found = [await there.take(f"h{number}", "code") for number in range(3)]
        assert [one is None for one in found] == [True, False, False]


async def test_all_nodes_have_the_same_secrets(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        both = await asyncio.gather(book_of(one).secret("bus"), book_of(two).secret("bus"))
        assert both[0] == both[1] and len(both[0]) == 32
        assert await book_of(one).secret("resume") != both[0]


async def test_a_request_with_a_key_is_answered_by_one_node_and_its_answer_outlives_that_node(state: Path) -> None:
    request = ("webhook", "ann", "k")
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        here, there = book_of(one), book_of(two)
        assert (await here.claim_request(*request, b"asked", 60)).is_own
        assert await there.claim_request(*request, b"other", 60) == RequestClaim(False, b"asked")
        assert (await there.claim_request("webhook", "bob", "k", b"asked", 60)).is_own
        await there.answer_request(*request, b"not mine")
        assert await there.claim_request(*request, b"asked", 0) == RequestClaim(False, b"asked")  # it still runs
        await here.answer_request(*request, b"answer")
        await there.declare_lost(here.own)
        assert await there.claim_request(*request, b"asked", 60) == RequestClaim(False, b"asked", b"answer")
        assert (await there.claim_request(*request, b"new", 0)).is_own  # its time is over
        await there.answer_request(*request, None)
        assert (await there.claim_request(*request, b"again", 60)).is_own


async def test_only_requests_that_were_answered_long_ago_are_swept(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        here, there = book_of(one), book_of(two)
        for key in ("runs", "answered", "new"):
            assert (await here.claim_request("webhook", "ann", key, b"asked", 60)).is_own
        for key in ("answered", "new"):
            await here.answer_request("webhook", "ann", key, b"answer")
        aged = "UPDATE asked_requests SET at = at - interval '2 hours' WHERE key <> 'new'"
        await two.database.execute(aged)
        assert isinstance(two.leases, NodeLeases)
        await two.leases.sweep()
        claims = [await there.claim_request("webhook", "ann", key, b"asked", 60) for key in ("runs", "answered", "new")]
        assert claims == [
            RequestClaim(False, b"asked"),
            RequestClaim(True, b"asked"),
            RequestClaim(False, b"asked", b"answer"),
        ]


async def test_a_lost_node_gives_up_the_requests_that_it_has_not_answered(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        assert (await book_of(one).claim_request("webhook", "ann", "k", b"asked", 60)).is_own
        await book_of(two).declare_lost(book_of(one).own)
        assert (await book_of(two).claim_request("webhook", "ann", "k", b"asked", 60)).is_own


async def test_a_lease_with_a_name_is_held_by_one_node_until_it_lets_go_or_is_lost(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        here, there = book_of(one), book_of(two)
        first = set(await asyncio.gather(*(book.hold("telegram") for book in (here, there) * 4)))
        assert len(first) == 1 and first < {here.own, there.own}
        holder, other = (here, there) if first == {here.own} else (there, here)
        assert await other.holders() == {"telegram": holder.own}
        await other.release("telegram")  # it is not its own
        assert await other.hold("telegram") == holder.own
        await holder.release("telegram")
        assert await other.hold("telegram") == other.own == await holder.hold("telegram")
        await holder.declare_lost(other.own)
        assert await holder.hold("telegram") == holder.own


async def test_all_nodes_go_by_the_clock_of_the_database(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr("handspan.store.postgres.node_leases.time.time", lambda: real() + 30)
    async with node_at(state, "ahead") as ahead:
        assert isinstance(ahead.leases, NodeLeases) and abs(ahead.leases.now() - real()) < 20


async def test_a_connection_that_is_entered_late_does_not_replace_one_that_began_later(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        newer = await book_of(two).add_client(client(two, "p1"))
        late = await book_of(one).add_client(structs.replace(client(one, "p1"), age=5.0))
        assert late == AddedClient(0, newer=newer.epoch)
        assert [row.node for row in await book_of(one).client_nodes(["ann"])] == [book_of(two).own]
        again = await book_of(two).add_client(
            structs.replace(client(two, "p1"), age=60.0)
        )  # its own row it may replace
        assert again.epoch > newer.epoch
        newest = await book_of(one).add_client(client(one, "p1"))
        assert newest.epoch > again.epoch and newest.replaced == book_of(two).own


async def test_rows_of_many_clients_are_written_in_one_statement_and_a_refused_one_harms_no_other(state: Path) -> None:
    async with node_at(state, "one") as one, node_at(state, "two") as two:
        here, count = book_of(one), 200
        await book_of(two).add_client(client(two, "taken", "phone7"))
        moved = await book_of(two).add_client(structs.replace(client(two, "p8", "phone8"), age=5.0))
        devices = [client(one, f"p{number}", f"phone{number}") for number in range(count)]
        before = one.database.commits
        added = await asyncio.gather(*map(here.add_client, devices))
        assert one.database.commits - before <= 3  # the statement, the refused one by itself, and a renewal
        assert [place for place, found in enumerate(added) if not found.epoch] == [7]
        assert added[8].replaced == book_of(two).own and added[8].epoch > moved.epoch
        assert {found.replaced for place, found in enumerate(added) if place != 8} == {""}
        before = one.database.commits
        changes = [here.store_tools(f"p{place}", found.epoch, b"[]") for place, found in enumerate(added)]
        await asyncio.gather(*changes, book_of(two).store_tools("p8", moved.epoch, b'["late"]'))
        removed = [here.remove_client(f"p{place}", found.epoch) for place, found in enumerate(added[:100])]
        await asyncio.gather(*removed, book_of(two).remove_client("p150", moved.epoch))
        assert one.database.commits - before <= 3
        rows = rows_in(state, "SELECT peer, convert_from(tools, 'UTF8'), version FROM clients WHERE peer <> 'taken'")
        assert {row[0] for row in rows} == {f"p{place}" for place in range(100, count)}
        assert {row[1:] for row in rows} == {("[]", 1)}


async def test_writes_for_one_client_happen_in_their_order_also_in_one_transaction(state: Path) -> None:
    async with node_at(state, "one") as one:
        book = book_of(one)
        first = (await book.add_client(client(one, "p1"))).epoch
        again, other, *_ = await asyncio.gather(
            book.add_client(client(one, "p1")),
            book.add_client(client(one, "p2", "tablet")),
            book.store_tools("p1", first, b"[]"),
            book.remove_client("p1", first),
        )
        assert again.epoch > first
        rows = {(row.peer, row.epoch) for row in await book.client_nodes(["ann"])}
        assert rows == {("p1", again.epoch), ("p2", other.epoch)}
        [record] = await book.clients(["p1"])
        assert record.tools == b'[{"name":"add"}]'
