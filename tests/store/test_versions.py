"""Going back leaves a version, and each version can be chosen again (SPEC L8)."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handspan.core.errors import ToolError
from handspan.core.events import TurnEnd
from handspan.core.messages import Message, Usage
from handspan.core.records import DatedMessage, SessionRecord, Version
from handspan.core.store import Store
from tests.store.things import Clock, answers, asks, says, user
from tests.stores import open_store
from tests.thoroughness import examples
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def add(store: Store, session: SessionRecord, *messages: Message) -> None:
    await soon(store.conversations.append(session.id, *messages, owner="ann"))


async def rewind(store: Store, session: SessionRecord, length: int) -> None:
    await soon(store.conversations.rewind(session.id, length, owner="ann"))


async def choose(store: Store, session: SessionRecord, branch: int) -> None:
    await soon(store.conversations.choose_version(session.id, branch, owner="ann"))


async def load(store: Store, session: SessionRecord) -> list[Message]:
    return list(await soon(store.conversations.load(session.id, owner="ann")))


async def versions(store: Store, session: SessionRecord) -> list[Version]:
    return list(await soon(store.conversations.versions(session.id, owner="ann")))


async def test_a_conversation_that_never_went_back_has_no_versions(store: Store, session: SessionRecord) -> None:
    await add(store, session, user(), says())
    assert await versions(store, session) == []


async def test_what_is_left_is_listed_beside_what_stands_in_its_place(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("warm?"), says("red"))
    await rewind(store, session, 1)
    await add(store, session, says("orange"))
    left, current = await versions(store, session)
    assert (left.branch, left.fork, left.seq, left.length, left.text) == (2, 1, 2, 1, "red")
    assert (current.branch, current.fork, current.seq, current.length, current.text) == (3, 1, 2, 1, "orange")
    assert left.left_at is not None
    assert current.left_at is None


async def test_a_chosen_version_and_the_current_one_change_places(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("warm?"), says("red"), user("more"), says("pink"))
    await rewind(store, session, 1)
    await add(store, session, says("orange"))
    await choose(store, session, 2)
    assert await load(store, session) == [user("warm?"), says("red"), user("more"), says("pink")]
    assert [(each.branch, each.left_at is None) for each in await versions(store, session)] == [(2, True), (5, False)]
    await choose(store, session, 5)
    assert await load(store, session) == [user("warm?"), says("orange")]


async def test_an_undone_message_comes_back(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 0)
    assert [each.branch for each in await versions(store, session)] == [1]
    await choose(store, session, 1)
    assert await load(store, session) == [user("a"), says("b")]
    assert await versions(store, session) == []


async def test_numbers_are_unique_over_all_versions(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    await add(store, session, says("c"))
    await choose(store, session, 2)
    await add(store, session, user("d"))
    numbers = await soon(store.threads.numbers(session.id, owner="ann"))
    assert len(set(numbers) | {3}) == 4, "3 is the left answer's"
    for number in numbers:
        assert await soon(store.threads.find(session.id, number, owner="ann"))


async def test_other_processes_see_that_a_version_of_the_same_length_was_chosen(
    store: Store, session: SessionRecord
) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    await add(store, session, says("c"))
    before = await soon(store.conversations.get(session.id, owner="ann"))
    await choose(store, session, 2)
    after = await soon(store.conversations.get(session.id, owner="ann"))
    assert after.length == before.length
    assert after.removed != before.removed


async def test_a_version_inside_a_left_version_is_chosen_with_it(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"), user("c"), says("d"))
    await rewind(store, session, 3)
    await add(store, session, says("e"))  # number 5, beside d (4)
    await rewind(store, session, 1)
    await add(store, session, says("f"))  # number 6, beside b c e
    inner = next(each for each in await versions(store, session) if each.branch == 4)
    assert inner.seq is None, "its fork is in a version that was left"
    await choose(store, session, 4)
    assert await load(store, session) == [user("a"), says("b"), user("c"), says("d")]
    assert {each.branch for each in await versions(store, session)} == {2, 4, 5, 6}


async def test_the_messages_of_left_versions_are_read_all_or_of_one(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    await add(store, session, says("c"))
    await rewind(store, session, 1)
    conversations = store.conversations
    left = await soon(conversations.left_messages(session.id, owner="ann"))
    assert {branch: [one.message for one in found] for branch, found in left.items()} == {
        2: [says("b")],
        3: [says("c")],
    }
    assert await soon(conversations.left_messages(session.id, owner="ann", branch=3)) == {3: left[3]}
    assert await soon(conversations.left_messages(session.id, owner="ann", branch=7)) == {}


async def test_messages_have_their_times_also_in_versions(store: Store, session: SessionRecord, clock: Clock) -> None:
    begin = clock()
    await add(store, session, user("a"))
    clock.now += 60
    await add(store, session, says("b"))
    conversations = store.conversations
    dated = [DatedMessage(user("a"), begin), DatedMessage(says("b"), begin + 60)]
    assert await soon(conversations.load_dated(session.id, owner="ann")) == dated
    assert await soon(conversations.load_dated(session.id, owner="ann", after=1)) == dated[1:]
    clock.now += 60
    await rewind(store, session, 1)
    assert await soon(conversations.left_messages(session.id, owner="ann")) == {2: dated[1:]}
    clock.now += 60
    await choose(store, session, 2)
    assert await soon(conversations.load_dated(session.id, owner="ann")) == dated


async def test_an_unknown_version_or_one_of_another_owner_is_refused(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    with pytest.raises(ToolError, match="no version 7"):
        await choose(store, session, 7)
    with pytest.raises(ToolError, match="There is no session"):
        await soon(store.conversations.choose_version(session.id, 2, owner="bob"))
    with pytest.raises(ToolError, match="There is no session"):
        await soon(store.conversations.versions(session.id, owner="bob"))
    assert await load(store, session) == [user("a")]


async def test_no_version_is_chosen_while_calls_wait_for_results(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    await add(store, session, asks("x"))
    with pytest.raises(ToolError) as refused:
        await choose(store, session, 2)
    assert refused.value.code == "busy"
    await add(store, session, answers("x"))
    await choose(store, session, 2)


async def test_ends_of_turns_move_with_their_version(store: Store, session: SessionRecord) -> None:
    end = TurnEnd("limit", 2.5, "gpt")
    await store.conversations.begin_turn(session.id, owner="ann")
    await add(store, session, user("a"), says("b"))
    await store.conversations.end_turn(session.id, owner="ann", end=end)
    await rewind(store, session, 1)
    await add(store, session, says("c"))
    assert await store.conversations.ends(session.id, owner="ann") == {}
    await choose(store, session, 2)
    assert await store.conversations.ends(session.id, owner="ann") == {2: end}


async def test_replies_count_once_whatever_version_is_current(store: Store, session: SessionRecord) -> None:
    await add(store, session, user(), asks("a", usage=Usage(10, 1)), answers("a"), says())
    await rewind(store, session, 1)
    await add(store, session, says())
    for branch in (2, 5, 2):
        await choose(store, session, branch)
    await add(store, session, user(), asks("b", usage=Usage(10, 1)))
    (total,) = await soon(store.usage.sums("session", owner="ann", session=session.id))
    assert (total.replies, total.input.known) == (4, 20)


async def test_the_oldest_versions_go_first(state: Path) -> None:
    async with open_store(state, most_versions=2) as store:
        session = await soon(store.conversations.create(owner="ann"))
        await add(store, session, user())
        for text in ("a", "b", "c", "d"):
            await add(store, session, says(text))
            await rewind(store, session, 1)
        assert [each.text for each in await versions(store, session)] == ["c", "d"]


async def test_a_version_that_goes_takes_those_with_it_that_only_it_leads_to(state: Path) -> None:
    async with open_store(state, most_versions=2) as store:
        session = await soon(store.conversations.create(owner="ann"))
        await add(store, session, user("1"), says("2"), user("3"), says("4"))
        await rewind(store, session, 3)  # leaves 4
        await rewind(store, session, 1)  # leaves 2 3, in which 4 has its fork
        await add(store, session, says("5"))
        await rewind(store, session, 1)  # leaves 5; 4 is the oldest and goes
        assert [each.text for each in await versions(store, session)] == ["2", "5"]


async def test_clearing_a_thread_and_deleting_a_session_delete_its_versions(
    store: Store, session: SessionRecord
) -> None:
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    assert await soon(store.threads.clear(session.id, owner="ann")) == 1
    assert await versions(store, session) == []
    await add(store, session, user("a"), says("b"))
    await rewind(store, session, 1)
    await soon(store.conversations.delete(session.id, owner="ann"))
    again = await soon(store.conversations.create(owner="ann", session=session.id))
    assert await versions(store, again) == []


async def test_a_deleted_message_takes_the_versions_behind_it_with_it(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"), user("c"), says("d"))
    await rewind(store, session, 3)
    await add(store, session, says("e"))
    await soon(store.threads.remove(session.id, 3, owner="ann"))
    assert [each.branch for each in await versions(store, session)] == []


async def test_a_message_of_a_left_version_is_deleted_by_its_number(store: Store, session: SessionRecord) -> None:
    await add(store, session, user("a"), says("b"), user("c"), says("d"))
    await rewind(store, session, 1)
    assert await soon(store.threads.remove(session.id, 3, owner="ann")) == 2, "c, and d that followed it"
    (left,) = await versions(store, session)
    assert (left.branch, left.length) == (2, 1)
    assert await soon(store.threads.remove(session.id, 2, owner="ann")) == 1
    assert await versions(store, session) == []
    assert await soon(store.threads.remove(session.id, 2, owner="ann")) == 0


# Whatever is said, left and chosen: each version comes back as it was.

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 3)),
        st.tuples(st.just("rewind"), st.integers(0, 6)),
        st.tuples(st.just("choose"), st.integers(0, 5)),
    ),
    max_size=14,
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_nothing_that_was_said_is_lost(store: Store, steps: list[tuple[str, int]]) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    said_after: dict[str, str] = {}
    """Each text, and the one that it was said after."""
    for step, value in steps:
        now = await texts(store, session)
        assert [said_after[text] for text in now] == ["", *now[:-1]][: len(now)]
        if step == "say":
            for _ in range(value):
                text = str(len(said_after) + 1)
                said_after[text] = now[-1] if now else ""
                now.append(text)
                await add(store, session, user(text))
        elif step == "rewind":
            await rewind(store, session, min(value, len(now)))
        elif left := [each for each in await versions(store, session) if each.left_at is not None]:
            chosen = left[value % len(left)]
            await choose(store, session, chosen.branch)
            assert chosen.text in await texts(store, session)
    found = set(await texts(store, session))
    for version in await versions(store, session):
        if version.branch in {each.branch for each in await versions(store, session) if each.left_at is not None}:
            await choose(store, session, version.branch)
        found |= set(await texts(store, session))
    assert found == set(said_after)


async def texts(store: Store, session: SessionRecord) -> list[str]:
    """What is said in the current version."""
    return [part.text for message in await load(store, session) for part in getattr(message, "parts", ())]
