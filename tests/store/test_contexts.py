"""What models see of long conversations is stored as marks, which go and come back with their messages (SPEC L1)."""

from pathlib import Path

import pytest

from handspan.core.errors import TakenOver
from handspan.core.messages import CallResult, Message, Usage
from handspan.core.records import ContextMarks, SessionRecord
from handspan.core.store import Store
from tests.store.things import answers, asks, says, user
from tests.stores import open_store, run_sql
from tests.waiting import soon

pytestmark = pytest.mark.anyio

NONE = ContextMarks()


async def add(store: Store, session: SessionRecord, *messages: Message) -> None:
    await soon(store.conversations.append(session.id, *messages, owner="ann"))


async def mark(store: Store, session: SessionRecord, marks: ContextMarks) -> None:
    """Set the marks in a turn."""
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    await soon(store.contexts.set_marks(session.id, marks, owner="ann"))
    await soon(store.conversations.end_turn(session.id, owner="ann"))


async def marks_of(store: Store, session: SessionRecord) -> ContextMarks:
    found = await soon(store.contexts.marks(session.id, owner="ann"))
    return ContextMarks(found.short, found.summarized, found.summary, made=found.made, room=found.room)


async def talk(store: Store, session: SessionRecord, turns: int) -> None:
    for number in range(turns):
        await add(store, session, user(f"question {number}"), says(f"answer {number}"))


async def test_a_conversation_has_no_marks_at_first(store: Store, session: SessionRecord) -> None:
    await talk(store, session, 2)
    assert await marks_of(store, session) == NONE
    assert await soon(store.contexts.marks("nowhere", owner="ann")) == NONE


async def test_marks_are_kept_and_the_newest_count(store: Store, session: SessionRecord, state: Path) -> None:
    await talk(store, session, 4)
    await mark(store, session, ContextMarks(4, 0, made=8))
    await mark(store, session, ContextMarks(6, 4, "# Goal", made=8, room=500))
    newest = ContextMarks(6, 4, "# Goal", made=8, room=500)
    assert await marks_of(store, session) == newest
    assert (await soon(store.conversations.get(session.id, owner="ann"))).compacted == 2
    assert [one.summary for one in await soon(store.contexts.summaries(session.id, owner="ann"))] == ["# Goal"]
    async with open_store(state) as other:  # another process finds the same
        assert await marks_of(other, session) == newest


async def test_another_owner_sees_no_marks(store: Store, session: SessionRecord) -> None:
    await talk(store, session, 2)
    await mark(store, session, ContextMarks(2, made=4))
    with pytest.raises(Exception, match="owner"):
        await soon(store.contexts.marks(session.id, owner="bob"))


async def test_only_the_process_that_runs_the_turn_moves_marks(store: Store, session: SessionRecord) -> None:
    await talk(store, session, 2)
    with pytest.raises(TakenOver):
        await soon(store.contexts.set_marks(session.id, ContextMarks(2, made=4), owner="ann"))
    assert await marks_of(store, session) == NONE


async def test_going_back_behind_a_mark_finds_the_one_before_and_coming_back_finds_it_again(
    store: Store, session: SessionRecord
) -> None:
    await talk(store, session, 5)
    first, second = ContextMarks(2, 2, "one", made=6), ContextMarks(8, 6, "two", made=10)
    await mark(store, session, first)
    await mark(store, session, second)
    await soon(store.conversations.rewind(session.id, 9, owner="ann"))
    assert await marks_of(store, session) == ContextMarks(8, 6, "two", made=9)
    await soon(store.conversations.rewind(session.id, 5, owner="ann"))
    assert await marks_of(store, session) == ContextMarks(2, 2, "one", made=5)
    await soon(store.conversations.rewind(session.id, 1, owner="ann"))
    assert await marks_of(store, session) == NONE
    await add(store, session, says("another way"))
    assert await marks_of(store, session) == NONE
    await soon(store.conversations.choose_version(session.id, 10, owner="ann"))  # and all that lead to it
    assert await marks_of(store, session) == second


async def test_what_a_person_deletes_is_in_no_summary(store: Store, session: SessionRecord) -> None:
    await talk(store, session, 5)
    await mark(store, session, ContextMarks(2, 2, "one", made=6))
    await mark(store, session, ContextMarks(8, 6, "two", made=10))
    await soon(store.threads.remove(session.id, 9, owner="ann"))  # behind both
    assert (await marks_of(store, session)).summary == "two"
    await soon(store.threads.remove(session.id, 5, owner="ann"))
    assert (await marks_of(store, session)).summary == "one"
    await soon(store.threads.clear(session.id, owner="ann"))
    assert await run_sql(store, "SELECT COUNT(*) FROM context_marks") == [(0,)]


async def test_deleting_a_message_of_a_left_version_deletes_its_marks(store: Store, session: SessionRecord) -> None:
    await talk(store, session, 4)
    await mark(store, session, ContextMarks(6, 6, "two", made=8))
    await soon(store.conversations.rewind(session.id, 3, owner="ann"))
    await soon(store.threads.remove(session.id, 5, owner="ann"))
    assert await run_sql(store, "SELECT COUNT(*) FROM context_marks") == [(0,)]


async def test_marks_go_with_their_session_and_with_the_oldest_version(state: Path) -> None:
    async with open_store(state, most_versions=1) as store:
        session = await soon(store.conversations.create(owner="ann"))
        await talk(store, session, 3)
        await mark(store, session, ContextMarks(4, 4, "one", made=6))
        for text in ("first", "second"):
            await soon(store.conversations.rewind(session.id, 1, owner="ann"))
            await add(store, session, says(text))
        assert await run_sql(store, "SELECT COUNT(*) FROM context_marks") == [(0,)]
        await mark(store, session, ContextMarks(2, made=2))
        await soon(store.conversations.delete(session.id, owner="ann"))
        assert await run_sql(store, "SELECT COUNT(*) FROM context_marks") == [(0,)]


async def test_what_a_summary_used_counts(store: Store, session: SessionRecord) -> None:
    await talk(store, session, 1)
    for tokens in (100, 50):
        reply = says("# Goal", usage=Usage(tokens, 10))
        await soon(store.contexts.count_summary(session.id, reply, 0.5, owner="ann"))
    (used,) = await soon(store.usage.sums("session", owner="ann"))
    assert (used.replies, used.input.known, used.cost.known) == (3, 150, 1.0)
    assert await soon(store.contexts.last_count(session.id, owner="ann")) is None
    await add(store, session, user(), says("counted", usage=Usage(70, 7)))
    assert await soon(store.contexts.last_count(session.id, owner="ann")) == 77
    await soon(store.conversations.rewind(session.id, 2, owner="ann"))
    (used,) = await soon(store.usage.sums("session", owner="ann"))
    assert used.replies == 4


async def test_a_result_is_found_by_the_id_of_its_call(store: Store, session: SessionRecord) -> None:
    await add(store, session, user(), asks("call_1", "call_12"), answers("call_1", "call_12"), says())

    async def find(call_id: str, owner: str = "ann", where: str = session.id) -> CallResult | None:
        return await soon(store.contexts.find_result(where, call_id, owner=owner))

    found = await find("call_1")
    assert found is not None and found.call_id == "call_1"
    assert await find("call_12") is not None
    for wrong in (await find("call_"), await find("%"), await find("call_1", "bob"), await find("call_1", where="x")):
        assert wrong is None


async def test_windows_are_learned_by_model(store: Store, state: Path) -> None:
    assert await soon(store.contexts.windows()) == {}
    await soon(store.contexts.learn_window("local", 16_000))
    await soon(store.contexts.learn_window("local", 8_000))
    async with open_store(state) as other:
        assert await soon(other.contexts.windows()) == {"local": 8_000}
