"""A database that is slow, full, restarts, refuses, hangs or is cut off in a commit (SPEC K3, A2).

What was acknowledged is there; everything else got an error that says so; the loop goes on; the store heals by itself.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from handspan.core.calls import ToolFacts
from handspan.core.errors import StoreError
from handspan.core.messages import Message
from handspan.core.principals import Origin
from handspan.core.results import Failure, Success, succeed
from handspan.core.store import Store
from handspan.testing import FaultProxy
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.postgres_engine import PostgresEngine, run_sql_at, schema_url
from tests.store.postgres.conftest import store_at
from tests.store.things import Clock, call, finished, started, user
from tests.stores import open_store, refusing_writes, rows_in
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

_STOPS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
GOODBYE = b"E" + (len(_STOPS) + 4).to_bytes(4) + _STOPS


@pytest.fixture(autouse=True)
async def _without_futures_of_asyncpg() -> AsyncIterator[None]:
    """A server that goes while asyncpg asks for TLS leaves a future that no caller reads, if it was given up."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def handle(one: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if str(context.get("exception")) != "unexpected connection_lost() call":
            (before or type(one).default_exception_handler)(one, context)

    loop.set_exception_handler(handle)
    yield
    loop.set_exception_handler(before)


class Talker:
    """Appends to a session until it is told to end. It knows what was acknowledged and what may be stored."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session
        self.acknowledged = 0
        self.errors: list[str] = []
        self.is_over = False

    async def talk(self) -> None:
        while not self.is_over:
            try:
                await self._store.conversations.append(self._session, user(), owner="ann")
                self.acknowledged += 1
            except StoreError as error:
                self.errors.append(error.message)
            await asyncio.sleep(0)

    async def check(self) -> None:
        stored = len(await soon(self._store.conversations.load(self._session, owner="ann")))
        assert self.acknowledged <= stored <= self.acknowledged + len(self.errors)


async def begin(store: Store, count: int = 4) -> tuple[list[Talker], list[asyncio.Task[None]]]:
    talkers = [Talker(store, (await soon(store.conversations.create(owner="ann"))).id) for _ in range(count)]
    return talkers, [asyncio.create_task(talker.talk()) for talker in talkers]


async def end(talkers: list[Talker], tasks: list[asyncio.Task[None]]) -> None:
    for talker in talkers:
        talker.is_over = True
    await soon(asyncio.gather(*tasks))
    for talker in talkers:
        await talker.check()


async def go_on(talkers: list[Talker]) -> None:
    """Wait until each has more acknowledged than now."""
    before = [talker.acknowledged for talker in talkers]
    await until(lambda: all(talker.acknowledged > count for talker, count in zip(talkers, before, strict=True)))


async def test_nothing_acknowledged_is_lost_when_the_connection_is_cut_at_any_moment(
    proxy: FaultProxy, broken_way: str, state: Path
) -> None:
    async with store_at(broken_way, state) as store:
        talkers, tasks = await begin(store)
        for _ in range(5):
            await go_on(talkers)
            proxy.cut()
        await go_on(talkers)
        await end(talkers, tasks)
        assert await soon(store.check_writes()) == ""
    told = [error for talker in talkers for error in talker.errors]
    assert all("look whether this was stored" in error for error in told), told


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restart_of_the_server_loses_nothing_and_heals_by_itself(
    engine: PostgresEngine, state: Path, how: signal.Signals
) -> None:
    async with store_at(engine.url, state, timeout=20.0) as store:
        talkers, tasks = await begin(store)
        record = await started(store.ledger, call())
        await go_on(talkers)
        await asyncio.to_thread(engine.stop, how)
        finishing = asyncio.ensure_future(finished(store.ledger, record, succeed("kept")))
        await asyncio.to_thread(engine.start)
        await go_on(talkers)
        assert await soon(finishing)
        assert (await soon(store.ledger.get(record.id, owner="ann"))).result == succeed("kept")
        await end(talkers, tasks)
        assert await soon(store.leases.is_alive(store.leases.own))


async def test_a_connection_on_which_a_server_that_stops_has_said_goodbye_is_replaced(
    proxy: FaultProxy, broken_way: str, state: Path
) -> None:
    async with store_at(broken_way, state) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        for number in (1, 2):
            await soon(store.conversations.append(session, user(), owner="ann"))
            assert len(await soon(store.conversations.load(session, owner="ann"))) == number
            for link in proxy.links:  # the end of the connection comes later
                link._flows["down"].writer.write(GOODBYE)
            for _ in range(10):  # it is in the buffer of the socket: let the loop read it
                await asyncio.sleep(0)


async def test_a_turn_that_was_cut_off_in_the_commit_of_its_begin_does_not_keep_its_session_busy(
    proxy: FaultProxy, broken_way: str, state: Path
) -> None:
    async with store_at(broken_way, state, timeout=20.0) as store:
        talk = store.conversations
        session = (await soon(talk.create(owner="ann"))).id
        await soon(talk.begin_turn(session, owner="ann"))  # from now on, the statement is one message
        await soon(talk.end_turn(session, owner="ann"))
        proxy.half_open("down")
        beginning = asyncio.ensure_future(talk.begin_turn(session, owner="ann"))
        await until(lambda: rows_in(state, "SELECT 1 FROM sessions WHERE state = 'running'"))
        proxy.cut()
        proxy.heal()
        with pytest.raises(StoreError, match="look whether this was stored"):
            await soon(beginning)
        assert (await soon(talk.begin_turn(session, owner="ann"))).id == session


async def test_a_server_that_can_not_be_reached_is_said_and_blocks_nothing(
    proxy: FaultProxy, broken_way: str, state: Path
) -> None:
    async with store_at(broken_way, state, timeout=0.5) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        record = await started(store.ledger, call())
        proxy.refuse()
        proxy.cut()
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        turning = asyncio.create_task(turn())
        with pytest.raises(StoreError, match="can't be used"):
            await soon(store.conversations.append(session, user(), owner="ann"))
        with pytest.raises(StoreError):
            await soon(store.conversations.get(session, owner="ann"))
        with pytest.raises(StoreError):
            await finished(store.ledger, record, succeed("later"))
        assert turns > 10
        turning.cancel()
        assert "can't be used" in await soon(store.check_writes())
        proxy.heal()
        stored = store.ledger.unwritten(record.id)
        assert stored is not None and await soon(stored)
        await soon(store.conversations.append(session, user(), owner="ann"))
        assert await soon(store.check_writes()) == ""


async def test_a_link_that_is_silent_ends_by_its_time(proxy: FaultProxy, broken_way: str, state: Path) -> None:
    async with store_at(broken_way, state, timeout=0.5) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        proxy.half_open()
        with pytest.raises(StoreError, match="does not answer"):
            await soon(store.conversations.append(session, user(), owner="ann"))
        proxy.cut()
        proxy.heal()
        messages: list[Message] = await soon(store.conversations.load(session, owner="ann"))
        await soon(store.conversations.append(session, user(), owner="ann", after=len(messages)))


async def test_a_slow_way_is_only_slow(proxy: FaultProxy, broken_way: str, state: Path) -> None:
    async with store_at(broken_way, state, timeout=20.0) as store:
        proxy.delay(0.02, jitter=0.02)
        talkers, tasks = await begin(store)
        await go_on(talkers)
        await end(talkers, tasks)
        assert [talker.errors for talker in talkers] == [[]] * len(talkers)


async def test_a_statement_that_takes_too_long_is_ended_and_said(state: Path) -> None:
    url = schema_url(state)
    async with store_at(url, state, timeout=0.3) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        holding = asyncio.create_task(
            asyncio.to_thread(
                run_sql_at,
                url,
                "DO $$ BEGIN LOCK TABLE messages; PERFORM pg_sleep(1.5); END $$",
            )
        )
        await until(lambda: rows_in(state, "SELECT 1 FROM pg_locks WHERE relation = 'messages'::regclass AND granted"))
        with pytest.raises(StoreError, match=r"another program holds a lock|took longer than"):
            await soon(store.conversations.append(session, user(), owner="ann"))
        await soon(holding)
        await soon(store.conversations.append(session, user(), owner="ann"))


async def test_recovery_leaves_a_call_alone_whose_result_is_about_to_be_written(state: Path) -> None:
    clock = Clock()
    async with open_store(state, clock=clock) as store:
        phone = ToolFacts(Origin("device", "phone", "peer-1"), "1.0.0", False, True, "connection")
        record = structs.replace(call(tool=phone), expires_at=clock.now + 30)
        await started(store.ledger, record)
        await soon(store.ledger.suspend(record))
        with refusing_writes(state, 1000):
            with pytest.raises(StoreError):
                await finished(store.ledger, record, succeed("x" * 2000))
            clock.now += 60  # the database was away for longer than the call may take
            assert (await soon(store.recover())).expired == ()
            stored = store.ledger.unwritten(record.id)
        assert stored is not None and await soon(stored)
        assert (await soon(store.ledger.get(record.id, owner="ann"))).result == succeed("x" * 2000)


async def test_a_standby_is_refused_with_what_to_do(state: Path) -> None:
    url = schema_url(state)
    async with store_at(url, state) as store:
        await soon(store.conversations.create(owner="ann"))
    with pytest.raises(StoreError, match="this is a standby"):
        await soon(store_at(f"{url}&default_transaction_read_only=on", state).open())


async def run_doctor(gateway: RunningGateway, folder: Path) -> str:
    """What `handspan doctor` says of this gateway."""
    program = Path(sys.executable).with_name("handspan")
    environ = {**os.environ, "HOME": str(folder), "HANDSPAN_TOKEN": gateway.token}
    doctor = await asyncio.create_subprocess_exec(
        program, "doctor", "--url", gateway.url, env=environ, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await soon(doctor.communicate())
    return " ".join(told.decode().split())


async def test_doctor_at_a_terminal_says_why_the_database_is_away_and_doubts_no_token(
    proxy: FaultProxy, broken_way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(tmp_path, store={"url": broken_way, "timeout": 1.0}) as gateway:
        assert "FAIL" not in (await run_doctor(gateway, tmp_path)).replace("FAIL sandbox", "")
        proxy.refuse()
        proxy.cut()
        await until(gateway.gateway.parts.store.check_writes)
        told = await run_doctor(gateway, tmp_path)
        assert "FAIL store: The database" in told and "can't be used" in told
        assert "ok gateway token" in told and "agent" not in told
        async with httpx2.AsyncClient(trust_env=False, timeout=WAIT, base_url=gateway.url) as client:
            refused = await client.get("/api/sessions", headers={"authorization": f"Bearer {gateway.token}"})
        assert refused.status_code == 503
        [line] = [line for line in caplog.records if "could not be answered" in line.getMessage()]
        assert "can't be used" in line.getMessage() and line.exc_info is None


async def test_a_full_disk_of_the_server_is_said_by_calls_ready_and_doctor_and_heals(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.store.postgres.database._PROOF_SECONDS", 0.0)
    async with (
        running_gateway(tmp_path, store={"url": schema_url(state)}) as gateway,
        httpx2.AsyncClient(trust_env=False, timeout=WAIT, base_url=gateway.url) as client,
    ):
        client.headers["authorization"] = f"Bearer {gateway.token}"
        with refusing_writes(state, 1):
            told = await gateway.call("write_file", path="new", content="x")
            assert isinstance(told, Failure) and told.code == "interrupted"
            assert "its disk is full. Make room" in told.message
            assert not (tmp_path / "workspace" / "new").exists()
            assert (await client.get("/ready")).status_code == 503
            assert "its disk is full. Make room" in (await client.get("/api/doctor")).text
        assert isinstance(await gateway.call("write_file", path="new", content="x"), Success)
        assert (await client.get("/ready")).status_code == 200


async def test_the_gateway_says_what_is_wrong_and_heals(
    proxy: FaultProxy, broken_way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.store.postgres.database._PROOF_SECONDS", 0.0)
    settings = {"url": broken_way, "timeout": 1.0}
    async with (
        running_gateway(tmp_path, store=settings) as gateway,
        httpx2.AsyncClient(trust_env=False, timeout=WAIT, base_url=gateway.url) as client,
    ):
        assert (await client.get("/ready")).status_code == 200
        proxy.refuse()
        proxy.cut()

        async def is_ready(expected: int) -> bool:
            return (await client.get("/ready")).status_code == expected

        await until(lambda: is_ready(503))
        with pytest.raises(StoreError, match="can't be used"):
            await gateway.call("write_file", path="new", content="x")
        assert not (tmp_path / "workspace" / "new").exists()
        assert "can't be used" in await gateway.gateway.parts.store.check_writes()
        proxy.heal()
        await until(lambda: is_ready(200))
        assert isinstance(await gateway.call("write_file", path="new", content="x"), Success)
        told = (await client.get("/api/doctor", headers={"authorization": f"Bearer {gateway.token}"})).text
        assert "PostgreSQL" in told
