"""Notes beside finished calls: what came for them too late (ws.md 6.7 k)."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.calls import LONGEST_NOTE, CallRecord, Note
from handspan.core.results import Failure, succeed
from handspan.core.store import Ledger, Store
from tests.memory_ledger import MemoryLedger
from tests.store.things import Clock, call, count
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

LOST = Failure("unknown_outcome", "its outcome is unknown")


@pytest.fixture(params=["in memory", "stored"])
def ledger(request: pytest.FixtureRequest, store: Store) -> Ledger:
    """Both ledgers do the same here."""
    return store.ledger if request.param == "stored" else MemoryLedger()


async def ended(ledger: Ledger, session: str = "s") -> CallRecord:
    """A call that has its result."""
    record = call(session=session)
    for written in (ledger.start(record), ledger.finish(record, LOST)):
        if written is not None and not isinstance(written, bool):
            await soon(written)
    return record


async def texts(ledger: Ledger, call_id: str, owner: str = "ann") -> list[str]:
    return [note.text for note in await soon(ledger.notes(call_id, owner=owner))]


async def test_there_are_no_notes_beside_a_call_that_never_was_or_has_no_result_yet(ledger: Ledger) -> None:
    record = call()
    written = ledger.start(record)
    if written is not None:
        await soon(written)
    for call_id in ("never", "\ud800", record.id):
        assert not await soon(ledger.note(call_id, "late"))
        assert await texts(ledger, call_id) == []


async def test_another_owner_sees_no_notes(ledger: Ledger) -> None:
    record = await ended(ledger)
    assert await soon(ledger.note(record.id, "late"))
    assert await texts(ledger, record.id, owner="bob") == []


async def test_a_call_has_five_notes_at_most_and_the_first_ones_stay(ledger: Ledger) -> None:
    record = await ended(ledger)
    kept = await soon(asyncio.gather(*(ledger.note(record.id, str(number)) for number in range(7))))
    assert kept == [True] * 5 + [False] * 2
    assert await texts(ledger, record.id) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("letter", ["x", "ü", "手", "😀"])
async def test_a_long_note_is_cut_with_a_mark(ledger: Ledger, letter: str) -> None:
    record = await ended(ledger)
    size = len(letter.encode())
    fits, long = letter * (LONGEST_NOTE // size), letter * (LONGEST_NOTE // size + 1)
    for text in (fits, long):
        assert await soon(ledger.note(record.id, text))
    whole, cut = await texts(ledger, record.id)
    assert whole == fits
    assert cut.endswith(f" … (cut: {len(long.encode())} bytes in all)")
    assert len(cut.encode()) <= LONGEST_NOTE
    assert long.startswith(cut.partition(" … ")[0])


async def test_a_note_changes_nothing_about_the_call(ledger: Ledger) -> None:
    record = await ended(ledger)
    await soon(ledger.note(record.id, "late"))
    found = await soon(ledger.find(record.id))
    assert found is not None
    assert (found.state, found.result) == ("done", LOST)


# In the database.


async def test_notes_last_and_know_when_they_came(store: Store, clock: Clock, state: Path) -> None:
    record = await ended(store.ledger)
    for text in ("one", "half \ud800"):
        assert await soon(store.ledger.note(record.id, text))
        clock.now += 1
    await soon(store.close())
    async with open_store(state) as later:
        notes = await soon(later.ledger.notes(record.id, owner="ann"))
        assert notes == [Note(clock.now - 2, "one"), Note(clock.now - 1, "half ?")]


async def test_notes_are_deleted_with_their_session(store: Store) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    gone, stays = await ended(store.ledger, session.id), await ended(store.ledger)
    for record in (gone, stays):
        assert await soon(store.ledger.note(record.id, "late"))
    await soon(store.conversations.delete(session.id, owner="ann"))
    assert await count(store, "call_notes") == 1
    assert await texts(store.ledger, stays.id) == ["late"]
    assert not await soon(store.ledger.note(gone.id, "later"))


async def test_two_processes_keep_five_between_them(store: Store, state: Path) -> None:
    record = await ended(store.ledger)
    async with open_store(state) as other:
        ledgers = [store.ledger, other.ledger] * 4
        kept = await soon(asyncio.gather(*(ledger.note(record.id, "late") for ledger in ledgers)))
    assert sum(kept) == 5
    assert len(await texts(store.ledger, record.id)) == 5


# In memory.


async def test_notes_count_as_what_the_journal_keeps() -> None:
    ledger = MemoryLedger(keep_bytes=1000)
    first, second = await ended(ledger), await ended(ledger)
    assert await soon(ledger.note(second.id, "x" * 600))
    assert [record.id for record in ledger.journal()] == [first.id, second.id]
    assert await soon(ledger.note(first.id, "x" * 600))
    assert [record.id for record in ledger.journal()] == [second.id]
    assert await texts(ledger, first.id) == []
    assert await finished_again(ledger, second) == ["x" * 600]


async def finished_again(ledger: MemoryLedger, record: CallRecord) -> list[str]:
    """Its notes, after an attempt to end it once more."""
    assert ledger.finish(record, succeed("late")) is False
    return await texts(ledger, record.id)
