"""Artifacts as rows: chunk by chunk, whole or not there at all, and never in the way of others."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from handspan.core.store import Store
from handspan.store.bodies import PIECE
from handspan.testing import FaultProxy
from tests.store.postgres.conftest import store_at
from tests.store.test_artifacts import pieces_of, refusal
from tests.stores import rows_in, run_sql
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

LARGE = os.urandom(2 * PIECE) + b"the end"


async def test_a_large_body_is_stored_in_chunks_and_read_across_their_borders(store: Store) -> None:
    ref = await store.artifacts.keep(LARGE, owner="ann")
    rows = await run_sql(store, "SELECT number, length(body) FROM artifact_chunks ORDER BY number")
    assert rows == [(0, PIECE), (1, PIECE), (2, 7)]
    for offset, limit in ((0, None), (PIECE - 3, 6), (PIECE, PIECE), (2 * PIECE - 1, 99), (5, 2 * PIECE)):
        end = None if limit is None else offset + limit
        assert await store.artifacts.read(ref.id, owner="ann", offset=offset, limit=limit) == LARGE[offset:end]


async def test_no_row_of_a_forgotten_session_is_left(store: Store) -> None:
    await store.artifacts.keep(LARGE, owner="ann", session="s")
    assert await store.artifacts.forget_session("s", owner="ann") == 1
    assert await run_sql(store, "SELECT (SELECT count(*) FROM artifacts) + (SELECT count(*) FROM artifact_chunks)") == [
        (0,)
    ]


async def test_no_file_is_left_in_the_state_folder(store: Store, state: Path) -> None:
    await store.artifacts.receive(pieces_of(LARGE), owner="ann")
    assert list((state / "artifacts").iterdir()) == []


async def test_other_writes_go_between_the_chunks(store: Store) -> None:
    """A large artifact is many short transactions: a message does not wait for all of them."""
    session = await store.conversations.create(owner="ann", name="Notes")
    keeping = asyncio.create_task(store.artifacts.keep(b"x" * PIECE * 40, owner="ann"))
    await _until_arriving(store)
    await store.conversations.rename(session.id, "New", owner="ann")
    is_first = not keeping.done()
    await soon(keeping)
    assert is_first


async def _until_arriving(store: Store) -> None:
    await until(lambda: run_sql(store, "SELECT 1 FROM artifacts WHERE state = 'arriving'"))


async def test_what_a_killed_process_left_is_not_found_and_goes_with_a_later_one(store: Store, state: Path) -> None:
    """A process that dies in the middle leaves a row that is arriving, with some chunks."""
    young, old = secrets.token_hex(16), secrets.token_hex(16)
    for artifact_id, age in ((young, 10), (old, 4000)):
        rows_in(
            state,
            "INSERT INTO artifacts VALUES"
            f" ('{artifact_id}', 'ann', 's', extract(epoch FROM now()) - {age}, 9, '', '', 'rows', 'arriving')",
        )
        rows_in(state, f"INSERT INTO artifact_chunks VALUES ('{artifact_id}', 0, 'half')")
        await refusal(store.artifacts, artifact_id)
    assert await store.artifacts.all(owner="ann") == []
    await store.artifacts.keep(b"x", owner="ann")
    assert await run_sql(store, "SELECT artifact FROM artifact_chunks WHERE body = 'half'") == [(young,)]


async def test_a_connection_that_breaks_on_the_way_is_said_and_leaves_nothing(
    broken_way: str, proxy: FaultProxy, state: Path
) -> None:
    async with store_at(broken_way, state, timeout=1.0) as store:

        async def cut_way() -> AsyncIterator[bytes]:
            yield LARGE
            proxy.refuse()
            proxy.cut()

        with pytest.raises(StoreError, match="can't be used"):
            await soon(store.artifacts.receive(cut_way(), owner="ann"))
        proxy.heal()
        assert await soon(store.artifacts.all(owner="ann")) == []
        ref = await soon(store.artifacts.keep(LARGE, owner="ann"))
        assert await store.artifacts.read(ref.id, owner="ann") == LARGE
        assert list((state / "artifacts").iterdir()) == []


async def test_a_session_that_is_deleted_while_its_artifact_arrives_leaves_nothing(store: Store) -> None:
    keeping = asyncio.create_task(store.artifacts.keep(b"x" * PIECE * 40, owner="ann", session="s"))
    await _until_arriving(store)
    await store.artifacts.forget_session("s", owner="ann")
    with pytest.raises(StoreError):
        await soon(keeping)
    assert await run_sql(store, "SELECT (SELECT count(*) FROM artifacts) + (SELECT count(*) FROM artifact_chunks)") == [
        (0,)
    ]


async def test_a_cancelled_caller_leaves_nothing_wherever_it_stands(store: Store) -> None:
    for steps in range(0, 60, 3):
        receiving = asyncio.create_task(store.artifacts.receive(pieces_of(LARGE), owner="ann"))
        for _ in range(steps):
            await asyncio.sleep(0)
        receiving.cancel()
        await soon(asyncio.gather(receiving, return_exceptions=True))
        left = len(await store.artifacts.all(owner="ann"))
        assert await run_sql(store, "SELECT count(DISTINCT artifact) FROM artifact_chunks") == [(left,)]
