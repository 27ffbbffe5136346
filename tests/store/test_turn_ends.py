"""How a turn ended is stored with its last message, and moves and goes with it (SPEC L7)."""

from pathlib import Path

import pytest

from handspan.core.errors import StoreError, ToolError
from handspan.core.events import GATEWAY_LOST, TurnEnd, TurnFault
from handspan.core.messages import Message
from handspan.core.records import SessionRecord
from handspan.core.store import Store
from handspan.store.tables.database import join_unit
from handspan.store.tables.store import TableStore
from tests.store.test_lost_ends import end_in_vain, refuse
from tests.store.things import Clock, answers, asks, says, user
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

FAILED = TurnEnd("error", 1.5, "gpt", "The key is wrong.", TurnFault("model", "auth"))
LIMIT = TurnEnd("limit", 2.5, "gpt")


async def run(store: Store, session: SessionRecord, *messages: Message, end: TurnEnd | None = None) -> None:
    """A turn with these messages that ends so."""
    await store.conversations.begin_turn(session.id, owner="ann")
    await store.conversations.append(session.id, *messages, owner="ann")
    await store.conversations.end_turn(session.id, owner="ann", end=end)


async def ends(store: Store, session: SessionRecord, after: int = 0) -> dict[int, TurnEnd]:
    return dict(await store.conversations.ends(session.id, owner="ann", after=after))


async def test_an_end_is_found_after_its_last_message_until_the_turn_goes_on(
    store: Store, session: SessionRecord
) -> None:
    await run(store, session, user(), end=FAILED)
    await run(store, session, user(), says("half"), end=LIMIT)
    assert await ends(store, session) == {1: FAILED, 3: LIMIT}
    assert await ends(store, session, after=3) == {3: LIMIT}
    await run(store, session, user(), end=FAILED)
    await store.conversations.begin_turn(session.id, owner="ann")
    assert await ends(store, session) == {1: FAILED, 3: LIMIT}, "the last turn runs again"
    await store.conversations.append(session.id, says("now"), owner="ann")
    await store.conversations.end_turn(session.id, owner="ann")
    assert await ends(store, session) == {1: FAILED, 3: LIMIT}, "it went on, and ended with a whole answer"


async def test_only_the_owner_can_read_ends(store: Store, session: SessionRecord) -> None:
    await run(store, session, user(), end=FAILED)
    with pytest.raises(ToolError, match="never made, is not yours"):
        await store.conversations.ends(session.id, owner="bob")


async def test_a_turn_that_fails_again_has_its_new_end(store: Store, session: SessionRecord) -> None:
    await run(store, session, user(), end=FAILED)
    await run(store, session, end=LIMIT)
    assert await ends(store, session) == {1: LIMIT}


async def test_ends_go_with_their_messages_and_move_with_them(store: Store, session: SessionRecord) -> None:
    await run(store, session, user("one"), says("1"))
    await run(store, session, user("two"), end=FAILED)
    await run(store, session, user("three"), says("3"), end=LIMIT)
    assert await store.threads.remove(session.id, 2, owner="ann") == 1
    assert await ends(store, session) == {2: FAILED, 4: LIMIT}
    entries = await store.threads.entries(session.id, owner="ann")
    assert [(entry.number, entry.ended) for entry in entries] == [(1, None), (3, FAILED), (4, None), (5, LIMIT)]
    await store.conversations.rewind(session.id, 3, owner="ann")
    assert await ends(store, session) == {2: FAILED}
    await store.threads.clear(session.id, owner="ann")
    await run(store, session, user("four"))
    assert await ends(store, session) == {}


async def test_the_end_of_a_turn_that_was_answered_later_does_not_come_back_when_the_answer_is_removed(
    store: Store, session: SessionRecord
) -> None:
    await run(store, session, user(), end=FAILED)
    await run(store, session, says("now"))
    await store.conversations.rewind(session.id, 1, owner="ann")
    assert await ends(store, session) == {}


async def test_the_end_before_an_undone_turn_stays(store: Store, session: SessionRecord) -> None:
    await run(store, session, user(), end=FAILED)
    await run(store, session, user(), says("x"))
    await store.conversations.rewind(session.id, 1, owner="ann")
    assert await ends(store, session) == {1: FAILED}


async def test_a_results_message_has_the_end_at_its_last_entry(store: Store, session: SessionRecord) -> None:
    await run(store, session, user(), asks("a", "b"), answers("a", "b"), end=LIMIT)
    entries = await store.threads.entries(session.id, owner="ann")
    assert [entry.ended for entry in entries] == [None, None, None, LIMIT]


async def test_an_end_that_could_not_be_stored_is_stored_with_the_next_chance(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(store, session, user())
    await store.conversations.begin_turn(session.id, owner="ann")
    await end_in_vain(store, session, monkeypatch, FAILED)
    await soon(store.expire())
    assert await ends(store, session) == {1: FAILED}


async def test_an_end_is_part_of_its_unit_of_work(store: Store) -> None:
    async with store.unit_of_work():
        made = await store.conversations.create(owner="ann")
        assert await ends(store, made) == {}
        await run(store, made, user(), end=FAILED)
    assert await ends(store, made) == {1: FAILED}
    assert isinstance(store, TableStore)
    with pytest.raises(StoreError, match="make room"):
        async with store.unit_of_work():
            await store.conversations.begin_turn(made.id, owner="ann")
            await join_unit(store.database, refuse)
            await store.conversations.end_turn(made.id, owner="ann", end=LIMIT)
    assert await ends(store, made) == {1: FAILED}, "that turn has not begun"


async def test_a_turn_that_a_crash_cut_off_says_so_and_its_session_is_named(
    store: Store, session: SessionRecord, state: Path, clock: Clock
) -> None:
    asked = await store.conversations.create(owner="ann")
    answered = await store.conversations.create(owner="ann")
    for one, messages in (
        (session, (user("hello"),)),
        (asked, (user("What now?"), asks("a"))),
        (answered, (user(), says("x"))),
    ):
        await store.conversations.begin_turn(one.id, owner="ann")
        await store.conversations.append(one.id, *messages, owner="ann")
    await soon(store.close())
    later = open_store(state, clock=clock)
    await soon(later.open())
    try:
        await soon(later.recover())
        lost = TurnEnd("aborted", clock(), fault=GATEWAY_LOST)
        assert await ends(later, session) == {1: lost}
        assert await ends(later, asked) == {3: lost}
        assert await ends(later, answered) == {}, "its answer was whole"
        assert (await later.conversations.get(session.id, owner="ann")).name == "Notes", "it had a name"
        assert (await later.conversations.get(asked.id, owner="ann")).name == "What now?"
    finally:
        await later.close()
