"""The search of what was said: complete, the same in both databases, and without what was deleted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handspan.core.messages import CallResult, Media, ResultsMessage, UserMessage
from handspan.core.records import FoundText, SessionFilter, SessionRecord
from handspan.core.results import Attachment
from handspan.core.store import Store
from handspan.store.tables import search as tables_search
from handspan.store.tables.database import Work
from handspan.store.tables.store import TableStore
from tests.store.things import Clock, answers, asks, says, user
from tests.stores import open_store, run_sql
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def find(
    store: Store, query: str, owner: str = "ann", *, left: bool = False, results: bool = False
) -> Sequence[FoundText]:
    found = await soon(store.search.find(query, owner=owner, left=left, results=results))
    assert found.unindexed == 0
    return found.found


async def places(store: Store, query: str, *, left: bool = False, results: bool = False) -> list[tuple[str, int]]:
    """Name of the session and place in it of all that is found."""
    return [(one.session.name, one.seq) for one in await find(store, query, left=left, results=results)]


async def told(store: Store, name: str, *messages: UserMessage | ResultsMessage | object, owner: str = "ann") -> str:
    """The id of a new session with these messages."""
    made = await soon(store.conversations.create(owner=owner, name=name))
    await soon(store.conversations.append(made.id, *messages, owner=owner))  # type: ignore[arg-type] # messages
    return made.id


def result(envelope: str, call_id: str = "c") -> ResultsMessage:
    return ResultsMessage((CallResult(call_id, "read_file", envelope),))


@pytest.mark.parametrize(
    ("query", "seq"),
    [
        ("budget", 1),
        ("BUDGET trip", 1),
        ("trip budg", 1),
        ("creme", 2),
        ("crème brûlée", 2),
        ("strasse", 2),
        ("議事録", 2),
        ("事", 2),
        ("notes", 0),
    ],
)
async def test_all_words_are_found_in_any_order_case_and_accent(
    store: Store, session: SessionRecord, query: str, seq: int
) -> None:
    said = (user("Where is the budget of our trip?"), says("Crème brûlée, Straße 5: 会議の議事録です"))
    await soon(store.conversations.append(session.id, *said, owner="ann"))
    assert await places(store, query) == [("Notes", seq)]


@pytest.mark.parametrize("query", ["budget cake", "udget", "t", "nothing", "", "?!", "b"])
async def test_half_of_the_words_or_their_middle_is_not_enough(
    store: Store, session: SessionRecord, query: str
) -> None:
    await soon(store.conversations.append(session.id, user("The budget"), says("and a cake"), owner="ann"))
    assert await places(store, query) == []


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        '"budget',
        "budget' OR 1=1 --",
        "budget\\",
        "budget*",
        "NEAR(budget, 5)",
        "budget AND",
        "words:budget",
        "^budget",
        "-budget",
        "!budget | & <-> :*",
        "budget\x00",
        "budget \ud800",
        "%",
        "_",
        ")(",
        "budget " + "x" * 100_000,
        "budget " * 20_000,
        "\u202ebudget",
        "é" * 5000,
    ],
)
async def test_no_query_fails_and_operators_mean_nothing(store: Store, session: SessionRecord, query: str) -> None:
    await soon(store.conversations.append(session.id, user("The budget or near it"), owner="ann"))
    assert len(await find(store, query)) <= 1
    assert await places(store, "budget") == [("Notes", 1)]


async def test_the_last_active_session_comes_first_and_others_see_nothing(store: Store, clock: Clock) -> None:
    for name in ("one", "two", "three"):
        clock.now += 1
        await told(store, name, user("pancakes"), says("Yes, pancakes."))
    await told(store, "theirs", user("pancakes"), owner="bob")
    assert await places(store, "pancake") == [("three", 1), ("two", 1), ("one", 1)]
    found = await soon(store.search.find("pancake", owner="ann", limit=2))
    assert [one.session.name for one in found.found] == ["three", "two"]
    assert [one.session.name for one in await find(store, "pancake", owner="bob")] == ["theirs"]


async def test_results_of_calls_are_found_only_when_asked(store: Store) -> None:
    envelope = '{"status":"success","result":{"content":"line one\\nthe zebra\\n","size":4711}}'
    failed = '{"status":"error","error_type":"execution_error","code":"x","message":"No giraffe there."}'
    await told(store, "zoo", user("look"), asks("c"), result(envelope), asks("d"), result(failed, "d"), says("A horse"))
    assert await places(store, "zebra") == await places(store, "giraffe") == []
    assert await places(store, "zebra 4711", results=True) == [("zoo", 3)]
    assert await places(store, "giraffe", results=True) == [("zoo", 5)]
    assert await places(store, "success", results=True) == [], "words of the envelope are nobody's"
    (one,) = await find(store, "zebra", results=True)
    assert one.is_result and "the zebra" in one.text
    assert await places(store, "horse", results=True) == [("zoo", 6)]


async def test_versions_that_were_left_are_found_only_when_asked(store: Store, session: SessionRecord) -> None:
    talk = store.conversations
    await soon(talk.append(session.id, user("colour?"), says("red as a rose"), owner="ann"))
    assert await places(store, "rose") == [("Notes", 2)]
    await soon(talk.rewind(session.id, 1, owner="ann"))
    await soon(talk.append(session.id, says("blue as the sky"), owner="ann"))
    assert await places(store, "rose") == []
    assert await places(store, "sky") == [("Notes", 2)]
    (left,) = await find(store, "rose", left=True)
    assert (left.branch, left.seq, left.text) == (2, 1, "red as a rose")
    await soon(talk.choose_version(session.id, 2, owner="ann"))
    assert await places(store, "rose") == [("Notes", 2)]
    (left,) = await find(store, "sky", left=True)
    assert (left.branch, left.seq) == (3, 1)


async def test_a_session_whose_versions_alone_have_the_words_takes_no_place_of_another(
    store: Store, clock: Clock
) -> None:
    await told(store, "old", user("pear"))
    clock.now += 1
    for _ in range(3):
        gone = await told(store, "new", user("pear"))
        await soon(store.conversations.rewind(gone, 0, owner="ann"))
    found = await soon(store.search.find("pear", owner="ann", limit=1))
    assert [one.session.name for one in found.found] == ["old"]


async def test_a_name_is_found_as_it_is_now(store: Store, session: SessionRecord) -> None:
    assert await places(store, "notes") == [("Notes", 0)]
    await soon(store.conversations.rename(session.id, "Diary of Ann", owner="ann"))
    assert await places(store, "notes") == []
    assert await places(store, "ann diary") == [("Diary of Ann", 0)]
    unnamed = await soon(store.conversations.create(owner="ann"))
    assert await soon(store.conversations.give_name(unnamed.id, "A first name", owner="ann"))
    assert await places(store, "first") == [("A first name", 0)]


async def test_what_is_filtered_out_is_not_found(store: Store) -> None:
    for name, kind in (("mine", "chat"), ("page", "run")):
        made = await soon(store.conversations.create(owner="ann", name=name, kind=kind))  # type: ignore[arg-type] # a kind
        await soon(store.conversations.append(made.id, user("plum"), owner="ann"))
    found = await soon(store.search.find("plum", SessionFilter(kinds=("chat",)), owner="ann"))
    assert [one.session.name for one in found.found] == ["mine"]
    found = await soon(store.search.find("plum", SessionFilter(archived=True), owner="ann"))
    assert found.found == ()


@pytest.mark.parametrize("how", ["session", "message", "thread", "version", "name"])
async def test_what_was_deleted_is_not_in_the_index(store: Store, session: SessionRecord, how: str) -> None:
    talk, threads = store.conversations, store.threads
    await soon(talk.rename(session.id, "banana", owner="ann"))
    await soon(talk.append(session.id, user("keep"), says("kept"), user("banana"), says("ok"), owner="ann"))
    assert len(await find(store, "banana")) == 1
    if how == "session":
        await soon(talk.delete(session.id, owner="ann"))
    elif how == "message":
        assert await soon(threads.remove(session.id, 3, owner="ann")) == 2
    elif how == "thread":
        await soon(threads.clear(session.id, owner="ann"))
    elif how == "version":
        await soon(talk.rewind(session.id, 2, owner="ann"))
        assert await soon(threads.remove(session.id, 3, owner="ann")) == 2
    else:
        await soon(threads.remove(session.id, 3, owner="ann"))
        await soon(talk.rename(session.id, "apple", owner="ann"))
    if how not in ("session", "name"):
        await soon(talk.rename(session.id, "", owner="ann"))
    assert await places(store, "banana", left=True, results=True) == []
    assert [row for row in await run_sql(store, "SELECT words FROM searched") if "banana" in str(row[0])] == []
    assert len(await find(store, "kept")) == (how in ("message", "version", "name"))


async def test_the_oldest_versions_take_their_words_with_them(state: Path) -> None:
    async with open_store(state, most_versions=1) as store:
        made = await told(store, "t", user("a"), says("first"))
        for word in ("second", "third"):
            await soon(store.conversations.rewind(made, 1, owner="ann"))
            await soon(store.conversations.append(made, says(word), owner="ann"))
        assert [len(await find(store, word, left=True)) for word in ("first", "second", "third")] == [0, 1, 1]
        assert ("first",) not in await run_sql(store, "SELECT words FROM searched")


async def test_messages_that_are_deleted_while_they_are_indexed_stay_out(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    await soon(store.conversations.append(session.id, user("peach"), says("yes"), owner="ann"))
    assert isinstance(store, TableStore)
    database = store.database
    write = database.write

    def write_behind_a_removal(work: Work[Any]) -> "asyncio.Future[Any]":
        monkeypatch.setattr(database, "write", write)
        clearing = asyncio.ensure_future(store.threads.clear(session.id, owner="ann"))

        async def both() -> Any:
            await clearing
            return await write(work)

        return asyncio.ensure_future(both())

    monkeypatch.setattr(database, "write", write_behind_a_removal)
    assert await places(store, "peach", left=True) == []
    assert await run_sql(store, "SELECT words FROM searched WHERE number > 0") == []


async def test_a_database_of_an_older_version_is_indexed_in_parts(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        clock.now += 1
        await told(store, f"s{number}", *(message for _ in range(60) for message in (user("grape"), says("ok"))))
    monkeypatch.setattr(tables_search, "_MOST_FIRST", 700)
    found = await soon(store.search.find("grape", owner="ann"))
    assert 0 < found.unindexed < 12
    assert [one.session.name for one in found.found][:2] == ["s11", "s10"], "those that were active last come first"
    await soon(store.search.index())
    assert len(await find(store, "grape")) == 12
    before = await run_sql(store, "SELECT COUNT(*) FROM searched")
    await soon(store.search.index())
    assert await run_sql(store, "SELECT COUNT(*) FROM searched") == before == [(12 * 121,)]


async def test_messages_without_words_and_damaged_ones_stop_nothing(store: Store, session: SessionRecord) -> None:
    picture = UserMessage((Media(Attachment("image", "image/png", b"x")),))
    await soon(store.conversations.append(session.id, picture, asks("c"), answers("c"), says("cherry"), owner="ann"))
    await run_sql(store, "UPDATE messages SET body = substr(body, 1, 12) WHERE seq = 2 RETURNING seq")
    assert await places(store, "cherry") == [("Notes", 4)]


async def test_words_survive_a_restart_and_come_from_the_index(store: Store, state: Path) -> None:
    await told(store, "kept", user("melon"))
    await soon(store.search.index())
    await soon(store.close())
    async with open_store(state) as again:
        assert await run_sql(again, "SELECT COUNT(*) FROM sessions WHERE indexed < length + removed") == [(0,)]
        assert await places(again, "melon") == [("kept", 1)]


async def test_a_huge_message_is_found_by_how_it_begins(store: Store) -> None:
    text = "lemon " + " ".join(f"{number:x}tok" for number in range(150_000))
    await told(store, "big", user(text))
    assert await places(store, "lemon") == [("big", 1)]
