"""A result that can't be written at once is kept, tried again, and acknowledged only when it is written (SPEC E2)."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from handspan.bus.memory import MemoryBus
from handspan.core.bus import CallCompleted
from handspan.core.calls import CallRecord
from handspan.core.errors import StoreError, ToolError
from handspan.core.results import Failure, succeed
from handspan.core.store import Store
from handspan.core.values import Json
from handspan.engine.results import Results
from handspan.store.unwritten_results import UnwrittenResults
from handspan.testing import FakeDevice, offer
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.store.things import READS, call, finished, no_room, started
from tests.stores import open_store, rows_in, store_settings
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

LARGE = succeed("x" * 300_000)
"""A result that does not fit when there is no room."""
SMALL = 100_000


def stored_state(folder: Path, call_id: str) -> object:
    [[state]] = rows_in(folder, f"SELECT state FROM calls WHERE id = '{call_id}'")
    return state


async def fail_to_store(store: Store, record: CallRecord, state: Path) -> None:
    with no_room(SMALL, state), pytest.raises(StoreError):
        await finished(store.ledger, record, LARGE)


async def test_it_is_written_when_there_is_room_again(store: Store, state: Path) -> None:
    for record in (call(), call(tool=READS)):
        await started(store.ledger, record)
        with no_room(SMALL, state):
            with pytest.raises(StoreError):
                await finished(store.ledger, record, LARGE)
            stored = store.ledger.unwritten(record.id)
            assert stored is not None
            await asyncio.sleep(0.3)  # the next tries fail too
            assert not stored.done()
        assert await soon(stored)
        assert store.ledger.unwritten(record.id) is None
        assert stored_state(state, record.id) == "done"
        assert (await soon(store.ledger.get(record.id, owner="ann"))).result == LARGE


async def test_meanwhile_every_reader_finds_it_and_a_second_result_is_refused(store: Store, state: Path) -> None:
    record = await started(store.ledger, call())
    with no_room(SMALL, state):
        with pytest.raises(StoreError):
            await finished(store.ledger, record, LARGE)
        assert not await finished(store.ledger, record, Failure("timeout", "too late"))
        found = await soon(store.ledger.find(record.id))
        assert found is not None and found.state == "done" and found.result == LARGE
        assert (await soon(store.ledger.get(record.id, owner="ann"))).result == LARGE
        [listed], _ = await soon(store.ledger.page(owner="ann"))
        assert listed.result == LARGE
        assert await soon(store.ledger.open_calls(owner="ann")) == []
        with pytest.raises(ToolError):
            await soon(store.ledger.get(record.id, owner="bob"))


async def test_it_is_published_once_and_only_when_it_is_written(store: Store, state: Path) -> None:
    bus, heard = MemoryBus(), list[str]()
    bus.subscribe(CallCompleted, lambda event: heard.append(event.id))
    record = await started(store.ledger, call())
    with no_room(SMALL, state):
        written = Results(store.ledger, bus, lambda: False).write(record, LARGE)
        assert not isinstance(written, bool)
        with pytest.raises(StoreError):
            await soon(written)
        assert heard == []
        stored = store.ledger.unwritten(record.id)
    assert stored is not None and await soon(stored)
    await until(lambda: heard)
    assert heard == [record.id]


async def test_a_store_that_is_closed_tries_once_more(state: Path) -> None:
    async with open_store(state) as store:
        record = await started(store.ledger, call())
        await fail_to_store(store, record, state)
    assert stored_state(state, record.id) == "done"


async def test_only_so_many_are_kept_and_then_no_call_begins(store: Store, state: Path) -> None:
    ledger = store.ledger
    ledger.unwritten_results = UnwrittenResults(limit=2)  # type: ignore[attr-defined]  # a small bound
    records = [await started(ledger, call()) for _ in range(3)]
    with no_room(SMALL, state):
        for record in records:
            with pytest.raises(StoreError):
                await finished(ledger, record, LARGE)
        assert [ledger.unwritten(record.id) is not None for record in records] == [True, True, False]
        with pytest.raises(StoreError, match="too many results wait"):
            await started(ledger, call(tool=READS))
    await until(lambda: not any(ledger.unwritten(record.id) for record in records))
    assert await finished(ledger, records[2], LARGE)


async def test_one_that_can_not_be_written_does_not_keep_the_others_from_it(store: Store, state: Path) -> None:
    kept, refused = UnwrittenResults(), asyncio.get_running_loop().create_future()
    refused.set_exception(StoreError("it does not fit"))
    assert kept.keep(call(), lambda: refused)
    record = await started(store.ledger, call())
    other = call("other")
    assert kept.keep(other, lambda: asyncio.ensure_future(finished(store.ledger, record, LARGE)))
    stored = kept.get("other")
    assert stored is not None and await soon(stored.stored)
    await soon(kept.close())


async def test_a_fault_of_ours_leaves_no_caller_waiting_and_keeps_no_other_from_being_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> "asyncio.Future[bool]":
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        future.set_exception(KeyError("a bug"))
        return future

    def write() -> "asyncio.Future[bool]":
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        future.set_result(True)
        return future

    results = UnwrittenResults()
    records = [call(), call()]
    for record, begin in zip(records, (fail, write), strict=True):
        assert results.keep(record, begin)
    bad, good = [results.get(record.id) for record in records]
    assert bad is not None and good is not None
    assert await soon(good.stored)
    assert bad.stored.cancelled() and not results
    assert "refused by the store: 'a bug'" in caplog.text and "KeyError: 'a bug'" in caplog.text
    await results.close()


async def test_the_store_says_whether_it_takes_writes(
    store: Store, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for database in ("sqlite", "postgres"):
        monkeypatch.setattr(f"handspan.store.{database}.database._PROOF_SECONDS", 0.0)
    assert await soon(store.check_writes()) == ""
    with no_room(1, state):
        assert "can't be used" in await soon(store.check_writes())
    assert await soon(store.check_writes()) == ""


# Through the doors.


async def ready(gateway: RunningGateway) -> int:
    async with httpx2.AsyncClient(trust_env=False, timeout=WAIT) as client:
        return (await client.get(f"{gateway.url}/ready")).status_code


async def test_a_device_is_acknowledged_only_when_its_result_is_written(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for database in ("sqlite", "postgres"):
        monkeypatch.setattr(f"handspan.store.{database}.database._PROOF_SECONDS", 0.0)
    async with (
        running_gateway(tmp_path, store=store_settings(state)) as gateway,
        FakeDevice(gateway.url, gateway.token) as phone,
    ):
        token = str((await phone.connect(label="phone", capabilities=["resume"]))["resume_token"])
        await phone.register(offer("photo"))
        asking = asyncio.create_task(gateway.call_as("11111111-2222-4333-8444-555555555555", "phone__photo", {}))
        request = await phone.expect("tool_call_request")
        assert await ready(gateway) == 200
        with no_room(1, state):
            await phone.answer(request, "a photo")
            assert await soon(asking) == succeed("a photo")  # its caller need not wait for the disk
            assert await ready(gateway) == 503
            await phone.drop()
            await phone.connect(label="phone", capabilities=["resume"], resume=token)
            await phone.register(offer("photo"))
            await phone.answer(request, "a photo")
            await phone.send({"type": "ping"})
            await phone.expect("pong")
            assert phone.unexpected("result_acknowledged") == []
        assert (await phone.expect("result_acknowledged"))["id"] == request["id"]
        [record] = await gateway.journal()
        assert record.result == succeed("a photo")
        assert await ready(gateway) == 200


@pytest.mark.parametrize("tool", ["write_file", "phone__photo"])
async def test_a_call_that_the_store_refuses_is_interrupted_and_was_not_run(
    tmp_path: Path, state: Path, tool: str
) -> None:
    async with (
        running_gateway(tmp_path, store=store_settings(state)) as gateway,
        FakeDevice(gateway.url, gateway.token) as phone,
    ):
        await phone.connect(label="phone")
        await phone.register(offer("photo"))
        arguments: dict[str, Json] = {"path": "new", "content": "x"} if tool == "write_file" else {}
        with no_room(1, state):
            result = await gateway.call(tool, **arguments)
        assert isinstance(result, Failure) and result.code == "interrupted"
        assert "safe to call it again" in result.message
        assert phone.unexpected("tool_call_request") == []
        assert not (tmp_path / "workspace" / "new").exists()
        await until(lambda: rows_in(state, "SELECT 1 FROM calls WHERE status = 'interrupted'"))
