"""What a ledger in a file can do: a tool that only reads begins at once, and a result needs no event loop."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.results import Failure, succeed
from handspan.core.store import Store
from tests.store.things import READS, call, finished, started
from tests.stores import commits_of, open_store, rows_in
from tests.waiting import soon

DONE = succeed("done")


@pytest.mark.anyio
async def test_the_start_of_a_call_that_only_reads_needs_no_wait(store: Store, state: Path) -> None:
    record = call(tool=READS)
    assert store.ledger.start(record) is None
    assert await finished(store.ledger, record, DONE)
    assert rows_in(state, "SELECT state, run FROM calls") == [("done", None)]


@pytest.mark.anyio
async def test_a_call_that_only_reads_is_found_at_once(store: Store) -> None:
    found, listed = call(tool=READS), call(tool=READS)
    store.ledger.start(found)
    assert (await soon(store.ledger.get(found.id, owner="ann"))).state == "started"
    store.ledger.start(listed)
    assert len(await soon(store.ledger.open_calls(owner="ann"))) == 2


@pytest.mark.anyio
async def test_a_call_that_only_reads_and_ends_at_once_is_one_commit(store: Store, state: Path) -> None:
    await soon(store.ledger.open_calls(owner="ann"))
    before = commits_of(store)
    record = await started(store.ledger, call(tool=READS))
    assert await finished(store.ledger, record, DONE)
    assert commits_of(store) - before == 1
    assert rows_in(state, "SELECT state FROM calls") == [("done",)]


def test_a_result_that_comes_when_the_loop_is_gone_is_kept(state: Path) -> None:
    store = open_store(state)
    record = call()

    async def leave() -> None:
        await store.open()
        await started(store.ledger, record)

    with pytest.raises(RuntimeError, match="no running event loop"):
        store.ledger.finish(record, DONE)
    asyncio.run(leave())
    store.ledger.finish(record, Failure("cancelled", "taken down"))
    asyncio.run(store.close())
    assert rows_in(state, "SELECT state FROM calls") == [("done",)]
