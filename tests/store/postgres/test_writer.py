"""Writes that share a commit: one that fails harms no other one, and a connection that breaks changes no order (A2)."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from tests.postgres_engine import run_sql_at, schema_url
from tests.store.postgres.conftest import store_at
from tests.store.things import user
from tests.stores import rows_in
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


async def test_a_turn_that_has_begun_is_not_begun_again_when_another_one_of_its_commit_fails(state: Path) -> None:
    url = schema_url(state)
    async with store_at(url, state, timeout=0.5) as store:
        ours, locked = [(await soon(store.conversations.create(owner="ann"))).id for _ in range(2)]
        rows_in(state, f"UPDATE sessions SET state = 'running' WHERE id = '{locked}'")  # it was handed over
        sql = f"DO $$ BEGIN PERFORM 1 FROM sessions WHERE id = '{locked}' FOR UPDATE; PERFORM pg_sleep(3); END $$"
        holding = asyncio.create_task(asyncio.to_thread(run_sql_at, url, sql))
        await until(lambda: rows_in(state, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        begun, failed = await soon(
            asyncio.gather(
                *(store.conversations.begin_turn(one, owner="ann") for one in (ours, locked)), return_exceptions=True
            )
        )
        assert isinstance(failed, StoreError)
        assert not isinstance(begun, BaseException) and begun.id == ours
        await soon(holding)


async def test_writes_keep_their_order_when_their_commit_fails_and_the_connection_breaks_then(state: Path) -> None:
    url = schema_url(state)
    async with store_at(url, state) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        rows_in(
            state,
            "CREATE FUNCTION break_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF nextval('breaks') = 1 THEN RAISE EXCEPTION 'x' USING ERRCODE = '57014'; END IF;"
            " IF currval('breaks') = 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
            " RETURN NEW; END $$",
        )
        rows_in(state, "CREATE SEQUENCE breaks")
        rows_in(
            state,
            "CREATE TRIGGER break_once BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION break_once()",
        )
        texts = ["one", "two", "three"]
        written = [
            store.conversations.append(session, user(text), owner="ann", after=place)
            for place, text in enumerate(texts)
        ]
        told = await soon(asyncio.gather(*written, return_exceptions=True))
        assert told == [None, None, None]
        loaded = await soon(store.conversations.load(session, owner="ann"))
        assert loaded == [user(text) for text in texts]
