"""A turn whose end could not be stored is over all the same, as soon as the store takes a write (SPEC A2)."""

import pytest

from handspan.core.errors import StoreError
from handspan.core.events import TurnEnd
from handspan.core.records import SessionRecord
from handspan.core.store import Store
from handspan.store.tables.database import TableConnection, Work, join_unit
from handspan.store.tables.store import TableStore
from tests.store.things import asks, user
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def refuse(connection: TableConnection) -> None:
    """A write that does not fit."""
    raise StoreError("The disk is full: make room.")


async def fail_in_a_turn(store: Store, session: SessionRecord) -> None:
    assert isinstance(store, TableStore)
    with pytest.raises(StoreError, match="make room"):
        async with store.unit_of_work():
            await store.conversations.begin_turn(session.id, owner="ann")
            await join_unit(store.database, refuse)
            await store.conversations.end_turn(session.id, owner="ann")


async def test_the_end_is_stored_without_what_did_not_fit(store: Store, session: SessionRecord) -> None:
    await store.conversations.begin_turn(session.id, owner="ann")
    assert isinstance(store, TableStore)
    with pytest.raises(StoreError, match="make room"):
        async with store.unit_of_work():
            await join_unit(store.database, refuse)
            await store.conversations.end_turn(session.id, owner="ann", waiting=True)
    assert (await store.conversations.get(session.id, owner="ann")).state == "waiting"


async def end_in_vain(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch, end: TurnEnd | None = None
) -> None:
    """End a turn while the database takes nothing."""
    assert isinstance(store, TableStore)
    write = store.database.write

    def refuse_all(work: Work[object]) -> object:
        return write(refuse)

    with monkeypatch.context() as patch:
        patch.setattr(store.database, "write", refuse_all)
        with pytest.raises(StoreError, match="make room"):
            await store.conversations.end_turn(session.id, owner="ann", end=end)


async def test_an_end_that_is_refused_twice_is_stored_with_the_next_chance(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.conversations.begin_turn(session.id, owner="ann")
    await end_in_vain(store, session, monkeypatch)
    assert (await store.conversations.get(session.id, owner="ann")).state == "running"
    await soon(store.expire())
    assert (await store.conversations.get(session.id, owner="ann")).state == "idle"


@pytest.mark.parametrize("how", ["begun", "taken"])
async def test_a_turn_whose_begin_is_stored_though_it_failed_is_given_back(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await store.conversations.append(session.id, user(), asks("a"), owner="ann")
    assert isinstance(store, TableStore)
    if how == "taken":
        await store.database.execute("UPDATE sessions SET state = 'running'")  # it was handed over
    write = store.database.write

    async def store_and_fail(work: Work[object]) -> object:
        await write(work)
        raise StoreError("The connection broke in a commit.")

    begin = store.conversations.begin_turn if how == "begun" else store.conversations.take_over_turn
    with monkeypatch.context() as patch:
        patch.setattr(store.database, "write", store_and_fail)
        with pytest.raises(StoreError, match="broke in a commit"):
            await begin(session.id, owner="ann")
    assert (await store.conversations.get(session.id, owner="ann")).state == "running"
    await soon(store.expire())
    left = "waiting" if how == "begun" else "running"
    assert (await store.conversations.get(session.id, owner="ann")).state == left
    assert await begin(session.id, owner="ann")


async def test_a_turn_that_never_began_in_the_store_ends_no_other(store: Store, session: SessionRecord) -> None:
    await fail_in_a_turn(store, session)
    assert (await store.conversations.get(session.id, owner="ann")).state == "idle"
    await store.conversations.begin_turn(session.id, owner="ann")
    assert (await store.conversations.get(session.id, owner="ann")).state == "running"
