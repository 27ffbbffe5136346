"""What is full or damaged is told in words, and nothing that was acknowledged is lost."""

from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.errors import StoreError
from handspan.core.records import DeviceRow, SessionRecord
from handspan.core.results import succeed
from handspan.core.store import Store
from tests.store.things import READS, call, count, finished, load, no_room, says, started, user
from tests.stores import run_sql
from tests.waiting import soon

pytestmark = pytest.mark.anyio

DONE = succeed({"bytes": 5})
PHONE = DeviceRow("ann", "phone", "pixel", "Ann's phone", 5000.0, {"camera": "f1"}, {"torch": "f2"}, ("camera",))


async def test_without_room_nothing_is_half_kept(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.append(session.id, user("kept"), owner="ann"))
    with no_room(100_000), pytest.raises(StoreError, match="nothing that was acknowledged is lost"):
        await soon(store.conversations.append(session.id, user("x" * 200_000), says(), owner="ann"))
    assert await load(store, session) == [user("kept")]
    await soon(store.conversations.append(session.id, says(), owner="ann"))
    assert await load(store, session) == [user("kept"), says()]


@pytest.mark.parametrize("damage", ["x'7b'", "x'ff'", '\'{"type":"user"}\'', '\'{"type":"results","results":[]}\''])
async def test_a_damaged_message_is_said(store: Store, session: SessionRecord, state: Path, damage: str) -> None:
    await soon(store.conversations.append(session.id, user(), says(), owner="ann"))
    sql = f"UPDATE messages SET body = CAST({damage} AS BLOB) WHERE seq = 2"
    await soon(run_sql(store, sql))
    with pytest.raises(StoreError, match=r"are damaged: .* Delete it, or put a backup in place"):
        await load(store, session)
    await soon(store.conversations.delete(session.id, owner="ann"))
    assert await count(store, "messages") == 0


async def test_without_room_nothing_starts_and_with_room_again_it_does(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = store.ledger
    waiting, running = call(), await started(ledger, call())
    await soon(ledger.accept(waiting))
    large = call(arguments={"content": "x" * 200_000})
    reading = structs.replace(call(tool=READS), arguments=large.arguments)
    with no_room(100_000):
        with pytest.raises(StoreError, match="nothing that was acknowledged is lost"):
            await started(ledger, large)
        with pytest.raises(StoreError):
            await started(ledger, structs.replace(waiting, arguments=large.arguments))
        with pytest.raises(StoreError):
            await finished(ledger, running, succeed("x" * 200_000))
        await started(ledger, reading)  # no caller waits for this one
        with pytest.raises(StoreError):
            await finished(ledger, reading, DONE)
    assert large.state is None
    assert waiting.state == "accepted"
    assert "was not stored" in caplog.text and "kept in memory" in caplog.text
    await started(ledger, large)
    await started(ledger, waiting)
    for record in (large, waiting):
        assert await finished(ledger, record, DONE)
    for record in (running, reading):
        assert not await finished(ledger, record, succeed("a second result"))
    for record, result in ((large, DONE), (waiting, DONE), (running, succeed("x" * 200_000)), (reading, DONE)):
        assert (await soon(ledger.get(record.id, owner="ann"))).result == result


async def test_without_room_none_of_several_is_kept(store: Store) -> None:
    large = structs.replace(PHONE, id="tablet", tools={"x" * 300_000: "f"})
    with no_room(100_000), pytest.raises(StoreError, match="nothing that was acknowledged is lost"):
        await soon(store.devices.save([PHONE, large]))
    assert await soon(store.devices.all()) == []


async def test_a_damaged_message_of_a_thread_is_told_in_words(store: Store) -> None:
    await soon(store.conversations.create(owner="ann", session="t"))
    await soon(store.conversations.append("t", user(), owner="ann"))
    await soon(run_sql(store, "UPDATE messages SET body = x'7b'"))
    with pytest.raises(StoreError, match="are damaged"):
        await soon(store.threads.entries("t", owner="ann"))
