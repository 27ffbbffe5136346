"""Writes that share a commit: one that fails harms no other one, and a connection that breaks changes no order (A2)."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.agents import Agent
from handspan.core.errors import StoreError
from handspan.core.results import succeed
from handspan.store.tables.database import TableConnection
from handspan.store.tables.store import TableStore
from tests.postgres_engine import PostgresEngine, run_sql_at, schema_url
from tests.store.postgres.conftest import store_at
from tests.store.things import call, finished, started, user
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
        sleeping = f"SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%{locked}%'"
        await until(lambda: rows_in(state, sleeping))
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


async def test_a_write_that_others_overtake_again_and_again_is_tried_until_it_succeeds(state: Path) -> None:
    url = schema_url(state)
    async with store_at(url, state) as store:
        session = await soon(store.conversations.create(owner="ann"))
        overtaken = 0

        async def rename(connection: TableConnection) -> int:
            nonlocal overtaken
            await connection.fetch_one("SELECT name FROM sessions")  # what it sees from now on is this moment
            if overtaken < 20:
                overtaken += 1
                await asyncio.to_thread(run_sql_at, url, f"UPDATE sessions SET name = 'other {overtaken}'")
            return await connection.execute("UPDATE sessions SET name = 'ours'")

        assert isinstance(store, TableStore)
        assert await soon(store.database.write(rename)) == 1
        assert overtaken == 20
        assert (await soon(store.conversations.get(session.id, owner="ann"))).name == "ours"


async def test_a_database_that_takes_no_writes_is_said_in_time_and_heals(engine: PostgresEngine, state: Path) -> None:
    async with store_at(engine.url, state, timeout=1.0) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        record = await started(store.ledger, call())
        run_sql_at(engine.url, "ALTER SYSTEM SET default_transaction_read_only = on")
        run_sql_at(engine.url, "SELECT pg_reload_conf()")
        await until(lambda: run_sql_at(engine.url, "SHOW default_transaction_read_only") == [("on",)])
        with pytest.raises(StoreError, match="it takes no writes") as refused:
            await soon(store.conversations.append(session, user(), owner="ann"))
        assert "look whether" not in refused.value.message
        with pytest.raises(StoreError, match="it takes no writes"):
            await soon(store.agents.create(Agent("Bob"), owner="ann"))
        with pytest.raises(StoreError, match="it takes no writes"):
            await finished(store.ledger, record, succeed("later"))
        assert "it takes no writes" in await soon(store.check_writes())
        run_sql_at(engine.url, "ALTER SYSTEM RESET default_transaction_read_only")
        run_sql_at(engine.url, "SELECT pg_reload_conf()")
        stored = store.ledger.unwritten(record.id)
        assert stored is not None and await soon(stored)
        await soon(store.conversations.append(session, user(), owner="ann"))
