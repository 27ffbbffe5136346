"""Threads: searched and read in parts, and changed by hand without leaving a conversation that can't stand."""

import asyncio
from itertools import accumulate

import pytest

from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Message, Text, Usage, UserMessage
from handspan.core.records import SessionRecord
from handspan.core.store import Store
from tests.store.things import WRITES, Clock, answers, asks, call, says, started, user
from tests.waiting import soon

pytestmark = pytest.mark.anyio

ROUND = (asks("one", "two"), answers("one", "two"))


async def made(store: Store, *messages: Message, thread: str = "t", owner: str = "ann", name: str = "") -> str:
    await soon(store.conversations.create(owner=owner, session=thread, name=name))
    await soon(store.conversations.append(thread, *messages, owner=owner))
    return thread


async def loaded(store: Store) -> list[Message]:
    return await soon(store.conversations.load("t", owner="ann"))


async def removed(store: Store, number: int) -> int:
    """How many messages went with this one."""
    return await soon(store.threads.remove("t", number, owner="ann"))


async def numbers(store: Store) -> list[int]:
    """By which the messages are known, as both ways of asking tell."""
    entries = await soon(store.threads.entries("t", owner="ann"))
    found = list(dict.fromkeys(entry.number for entry in entries))
    assert await soon(store.threads.numbers("t", owner="ann")) == found
    return found


async def refused(store: Store, code: str, attempt: object) -> str:
    with pytest.raises(ToolError) as error:
        await soon(attempt)  # type: ignore[arg-type]  # a coroutine of the store
    assert error.value.code == code
    return error.value.message


# What is refused.


async def test_another_owner_can_do_nothing_with_a_thread(store: Store) -> None:
    await made(store, user(), says())
    for thread, owner in (("t", "bob"), ("never", "ann"), ("\ud800", "ann")):
        for attempt in (
            store.threads.entries(thread, owner=owner),
            store.threads.entries(thread, owner=owner, offset=1, limit=1),
            store.threads.find(thread, 1, owner=owner),
            store.threads.add(thread, [user()], owner=owner),
            store.threads.numbers(thread, owner=owner),
            store.threads.remove(thread, 1, owner=owner),
            store.threads.clear(thread, owner=owner),
        ):
            assert "There is no session" in await refused(store, "file_not_found", attempt)
    assert await soon(store.threads.page(owner="bob")) == []
    assert await soon(store.threads.tools_called("t", owner="bob")) == []
    assert len(await loaded(store)) == 2


async def test_nothing_is_changed_while_it_runs(store: Store) -> None:
    await made(store, user(), says())
    await soon(store.conversations.begin_turn("t", owner="ann"))
    for attempt in (
        store.threads.add("t", [user()], owner="ann"),
        removed(store, 1),
        store.threads.clear("t", owner="ann"),
    ):
        assert "is running" in await refused(store, "busy", attempt)
    assert await loaded(store) == [user(), says()]


async def test_calls_that_wait_are_neither_followed_nor_removed(store: Store) -> None:
    await made(store, user("a"), says("b"), user("c"), asks("one", "two"))
    await soon(store.conversations.begin_turn("t", owner="ann"))
    await soon(store.conversations.end_turn("t", owner="ann", waiting=True))
    for attempt in (
        store.threads.add("t", [user()], owner="ann"),
        removed(store, 3),
        removed(store, 4),
        store.threads.clear("t", owner="ann"),
    ):
        assert "waits for the results of calls" in await refused(store, "busy", attempt)
    assert await removed(store, 1) == 2
    await soon(store.conversations.append("t", answers("one", "two"), says("end"), owner="ann"))
    assert await loaded(store) == [user("c"), asks("one", "two"), answers("one", "two"), says("end")]


async def test_an_assistant_does_not_begin_and_does_not_speak_twice(store: Store) -> None:
    await made(store)
    twice: list[UserMessage | AssistantMessage] = [user(), says(), says()]
    for said in (twice[1:2], twice):
        assert "has to follow a person's" in await refused(
            store, "invalid_arguments", store.threads.add("t", said, owner="ann")
        )
    assert await loaded(store) == []
    await soon(store.threads.add("t", [user(), says()], owner="ann"))
    await refused(store, "invalid_arguments", store.threads.add("t", [says(), user()], owner="ann"))
    assert await loaded(store) == [user(), says()]


async def test_a_message_that_is_gone_is_not_removed_and_no_other_in_its_place(store: Store) -> None:
    await made(store, *[user(str(number)) for number in range(4)])
    for number in (-1, 0, 5, 10**9):
        assert await soon(store.threads.find("t", number, owner="ann")) == []
        assert await removed(store, number) == 0
    gone = await soon(asyncio.gather(*(store.threads.remove("t", 2, owner="ann") for _ in range(4))))
    assert gone == [1, 0, 0, 0]
    assert await loaded(store) == [user("0"), user("2"), user("3")]


# Adding.


async def test_what_is_added_costs_nothing_and_is_part_of_the_conversation(store: Store) -> None:
    await made(store, user("a"), says("b", usage=Usage(1, 1)))
    await soon(store.threads.add("t", [user("c"), AssistantMessage((Text("d"),)), user("e")], owner="ann"))
    (used,) = await soon(store.usage.sums("session", owner="ann"))
    assert used.replies == 1
    await soon(store.conversations.append("t", says("f"), owner="ann", after=5))
    assert await numbers(store) == [1, 2, 3, 4, 5, 6]
    assert (await soon(store.conversations.get("t", owner="ann"))).length == 6


# Removing.


async def test_a_message_keeps_its_number_and_no_other_ever_gets_it(store: Store) -> None:
    await made(store, user("a"), says("b"), user("c"), *ROUND, says("d"))
    assert await numbers(store) == [1, 2, 3, 4, 5, 6]
    assert await removed(store, 1) == 2
    assert await numbers(store) == [3, 4, 5, 6]
    assert [entry.message for entry in await soon(store.threads.find("t", 3, owner="ann"))] == [user("c")]
    assert len(await soon(store.threads.find("t", 5, owner="ann"))) == 2
    assert await soon(store.threads.find("t", 1, owner="ann")) == []
    await soon(store.conversations.rewind("t", 3, owner="ann"))
    await soon(store.conversations.rewind("t", 3, owner="ann"))  # nothing more to drop
    await soon(store.conversations.append("t", says("e"), user("f"), owner="ann"))
    await soon(store.threads.add("t", [user("g")], owner="ann"))
    assert await numbers(store) == [3, 4, 5, 7, 8, 9]
    assert await removed(store, 8) == 1
    assert await numbers(store) == [3, 4, 5, 7, 9]
    await soon(store.threads.clear("t", owner="ann"))
    await soon(store.conversations.append("t", user("h"), owner="ann"))
    assert await numbers(store) == [10]
    known = await soon(store.conversations.get("t", owner="ann"))
    assert (known.length, known.removed) == (1, 9)


@pytest.mark.parametrize(
    ("seq", "left"),
    [
        (1, [user("c"), says("d")]),  # its answer would stand at the beginning
        (2, [user("a"), says("b"), user("c"), says("d")]),
        (3, [user("a"), says("b"), user("c"), says("d")]),
        (4, [user("a"), *ROUND, user("c"), says("d")]),
        (5, [user("a"), *ROUND, says("b")]),  # its answer would stand behind another
        (6, [user("a"), *ROUND, says("b"), user("c")]),
    ],
)
async def test_a_message_takes_along_what_cant_stand_without_it(store: Store, seq: int, left: list[Message]) -> None:
    await made(store, user("a"), *ROUND, says("b"), user("c"), says("d"))
    assert await removed(store, seq) == 6 - len(left)
    assert await loaded(store) == left
    known = await soon(store.conversations.get("t", owner="ann"))
    assert known.length == len(left)
    await soon(store.conversations.append("t", user("on"), says("we go"), owner="ann", after=len(left)))
    assert await loaded(store) == [*left, user("on"), says("we go")]


async def test_a_persons_message_between_others_of_hers_goes_alone(store: Store) -> None:
    await made(store, user("a"), user("b"), says("c"))
    assert await removed(store, 2) == 1
    assert await loaded(store) == [user("a"), says("c")]


async def test_what_removed_replies_cost_still_counts(store: Store) -> None:
    spent = [Usage(number, number) for number in (1, 10, 100, 1000)]
    told = [message for usage in spent for message in (user(), says(usage=usage))]
    await made(store, *told)
    await removed(store, 4)
    await removed(store, 1)
    await soon(store.conversations.append("t", user(), says(usage=Usage(5, 5)), owner="ann"))
    await soon(store.threads.clear("t", owner="ann"))
    await soon(store.conversations.append("t", user(), says(usage=Usage(7, 7)), owner="ann"))
    (used,) = await soon(store.usage.sums("session", owner="ann"))
    assert (used.replies, used.input.known) == (6, 1123)


async def test_clearing_leaves_an_empty_thread(store: Store) -> None:
    await made(store, user(), says(), name="Kept")
    assert await soon(store.threads.clear("t", owner="ann")) == 2
    assert await soon(store.threads.clear("t", owner="ann")) == 0
    known = await soon(store.conversations.get("t", owner="ann"))
    assert (known.length, known.name, await loaded(store)) == (0, "Kept", [])
    await soon(store.conversations.append("t", user(), owner="ann", after=0))


# Reading.


async def test_entries_have_their_times_and_results_are_one_each(store: Store, clock: Clock) -> None:
    await made(store)
    for message in (user("a"), *ROUND, says("b")):
        await soon(store.conversations.append("t", message, owner="ann"))
        clock.now += 1
    entries = await soon(store.threads.entries("t", owner="ann"))
    began = clock.now - 4
    assert [(entry.number, entry.place, entry.at - began) for entry in entries] == [
        (1, None, 0),
        (2, None, 1),
        (3, 0, 2),
        (3, 1, 2),
        (4, None, 3),
    ]
    assert [entry.call and entry.call.id for entry in entries] == [None, None, "one", "two", None]
    assert await soon(store.threads.find("t", 3, owner="ann")) == entries[2:4]
    assert await soon(store.threads.find("t", 1, owner="ann")) == entries[:1]


async def test_any_part_is_what_it_is_of_the_whole(store: Store) -> None:
    await made(store, user("a"), *ROUND, says("b"), user("c"), asks("three"), answers("three"), says("d"))
    whole = await soon(store.threads.entries("t", owner="ann"))
    assert len(whole) == 9
    for offset in range(11):
        for limit in (*range(1, 11), None):
            part = await soon(store.threads.entries("t", owner="ann", offset=offset, limit=limit))
            assert part == whole[offset:][:limit], (offset, limit)


async def test_the_list_is_searched_by_name_and_id_in_any_script(store: Store, clock: Clock) -> None:
    for thread, name in (("one", "ÄPFEL und 100%"), ("two", "東京 trip"), ("three_x", ""), ("threeAx", "")):
        await made(store, user(), thread=thread, name=name)
        clock.now += 1
    await made(store, user(), thread="theirs", owner="bob", name="äpfel")
    for search, expected in (
        ("", ["threeAx", "three_x", "two", "one"]),
        ("äpfel", ["one"]),
        ("東京", ["two"]),
        ("100%", ["one"]),
        ("%", ["one"]),
        ("E_X", ["three_x"]),
        ("TWO", ["two"]),
        ("theirs", []),
        ("half \ud800", []),
    ):
        found = await soon(store.threads.page(owner="ann", search=search))
        assert [session.id for session in found] == expected, search


async def test_the_list_is_read_in_parts(store: Store, clock: Clock) -> None:
    for number in range(25):
        await soon(store.conversations.create(owner="ann", session=f"s{number:02}"))
        clock.now += 1
    wanted = [f"s{number:02}" for number in reversed(range(25))]
    found: list[SessionRecord] = []
    for offset in accumulate([10] * 3, initial=0):
        found += await soon(store.threads.page(owner="ann", offset=offset, limit=10))
    assert [session.id for session in found] == wanted


async def test_the_tools_that_were_called_come_in_the_order_of_their_last_call(store: Store) -> None:
    other = type(WRITES)(WRITES.origin, "2.0.0", read_only=False)
    for tool, at in ((WRITES, 1.0), (other, 2.0), (WRITES, 3.0)):
        await started(store.ledger, call(tool=tool, session="t", at=at))
    await started(store.ledger, call(tool=other, session="another", at=4.0))
    assert await soon(store.threads.tools_called("t", owner="ann")) == [other, WRITES]
