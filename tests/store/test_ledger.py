"""The ledger in the database: one result for every call, for its owner alone."""

import asyncio
import random
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from handspan.core.artifacts import ArtifactRef
from handspan.core.calls import UNKNOWN_TOOL, CallRecord, ToolFacts
from handspan.core.errors import ToolError
from handspan.core.records import CallFilter
from handspan.core.results import Attachment, Failure, Success, ToolResult, succeed
from handspan.core.store import Journal, Store
from handspan.core.values import Arguments
from tests.store.things import READS, WRITES, answers, asks, call, finished, started, user
from tests.stores import commits_of, rows_in
from tests.waiting import soon

pytestmark = pytest.mark.anyio

DONE = succeed({"bytes": 5})
LATE = Failure("timeout", "too late")


@pytest.fixture
def ledger(store: Store) -> Journal:
    return store.ledger


async def known(ledger: Journal, call_id: str) -> CallRecord:
    record = await soon(ledger.find(call_id))
    assert record is not None
    return record


async def test_the_store_is_what_the_rooms_above_ask_for(store: Store) -> None:
    asked_for: Store = store  # mypy compares the two
    assert await soon(asked_for.ledger.open_calls(owner="ann")) == []


# What is refused.


async def test_a_second_result_is_refused_and_changes_nothing(ledger: Journal) -> None:
    record = await started(ledger, call())
    assert await finished(ledger, record, DONE)
    for again in (record, structs.replace(record, state="pending"), structs.replace(record, state=None)):
        assert not await finished(ledger, again, LATE)
    assert (await known(ledger, record.id)).result == DONE


@pytest.mark.parametrize("tool", [WRITES, READS])
async def test_a_call_at_work_is_its_own_record_until_it_waits_or_ends(ledger: Journal, tool: ToolFacts) -> None:
    waits, ends = await started(ledger, call(tool=tool)), await started(ledger, call(tool=tool))
    assert await soon(ledger.find(waits.id)) is waits
    with pytest.raises(ToolError, match="used before"):
        await started(ledger, call(ends.id, tool=tool))
    assert not await finished(ledger, call(ends.id, tool=tool), LATE)  # refused: it is not this one
    assert await soon(ledger.find(ends.id)) is ends
    assert await soon(ledger.get(ends.id, owner="ann")) is not ends

    await soon(ledger.suspend(waits))
    await finished(ledger, ends, DONE)
    assert (await known(ledger, waits.id)) is not waits and (await known(ledger, waits.id)).state == "pending"
    assert (await known(ledger, ends.id)) is not ends and (await known(ledger, ends.id)).result == DONE


async def test_of_two_results_at_once_the_first_one_wins(ledger: Journal) -> None:
    record = await started(ledger, call())
    results = await soon(
        asyncio.gather(*(finished(ledger, structs.replace(record), result) for result in (DONE, LATE)))
    )
    assert results == [True, False]
    assert (await known(ledger, record.id)).result == DONE


@pytest.mark.parametrize("tool", [WRITES, READS], ids=["writes", "reads"])
@pytest.mark.parametrize("done", [False, True], ids=["open", "done"])
async def test_an_id_that_was_used_is_refused(ledger: Journal, tool: ToolFacts, done: bool) -> None:
    record = await started(ledger, call(tool=tool))
    if done:
        await finished(ledger, record, DONE)
    other = structs.replace(record, owner="bob", state=None, result=UNSET)
    with pytest.raises(ToolError, match="was used before: every call needs its own") as refused:
        await started(ledger, other)
    assert refused.value.code == "invalid_arguments"
    with pytest.raises(ToolError, match="was used before"):
        await soon(ledger.accept(other))
    assert other.state is None
    assert not await finished(ledger, other, LATE)  # as the engine does with what it refuses
    kept = await known(ledger, record.id)
    assert (kept.owner, kept.state) == ("ann", "done" if done else "started")


async def test_one_that_was_cancelled_on_its_way_in_does_not_end_the_call_that_had_the_id(ledger: Journal) -> None:
    record = await started(ledger, call())
    other = structs.replace(record, at=2000.0, state=None)
    starting = asyncio.ensure_future(started(ledger, other))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting], timeout=20)
    assert other.state == "started"  # as far as this process can know
    assert await finished(ledger, other, LATE)  # its caller hears this, and nothing is kept
    assert (await known(ledger, record.id)).state == "started"


async def test_one_that_was_cancelled_while_it_was_accepted_has_its_result(ledger: Journal) -> None:
    record = call()
    accepting = asyncio.ensure_future(ledger.accept(record))
    await asyncio.sleep(0)
    accepting.cancel()
    await asyncio.wait([accepting], timeout=20)
    assert await finished(ledger, record, LATE)
    kept = await known(ledger, record.id)
    assert (kept.state, kept.result) == ("done", LATE)


async def test_a_call_that_waits_is_started_once(ledger: Journal) -> None:
    record = call()
    await soon(ledger.accept(record))
    first, second = await known(ledger, record.id), await known(ledger, record.id)
    await started(ledger, first)
    with pytest.raises(ToolError, match="was started elsewhere, or has its result") as refused:
        await started(ledger, second)
    assert refused.value.code == "busy"
    assert not await finished(ledger, second, LATE)
    assert (await known(ledger, record.id)).state == "started"


async def test_another_owner_gets_the_same_words_as_for_a_call_that_never_was(ledger: Journal) -> None:
    record = await started(ledger, call())
    words = []
    for call_id, owner in ((record.id, "bob"), ("never", "ann"), ("\ud800", "ann")):
        with pytest.raises(ToolError) as refused:
            await soon(ledger.get(call_id, owner=owner))
        assert refused.value.code == "file_not_found"
        words.append(str(refused.value).replace(repr(call_id), "X"))
    assert len(set(words)) == 1
    assert (await soon(ledger.get(record.id, owner="ann"))).id == record.id
    assert await soon(ledger.open_calls(owner="bob")) == []
    assert await soon(ledger.page(owner="bob")) == ([], None)


async def test_a_place_in_a_list_that_is_none_is_said(ledger: Journal) -> None:
    for nonsense in ("", "x~y", "1~\ud800"):
        with pytest.raises(ToolError, match="is no place in a list: use the `next` of a page"):
            await soon(ledger.page(owner="ann", after=nonsense))


async def test_the_result_of_a_call_that_was_deleted_reaches_its_caller_and_is_not_kept(
    store: Store, ledger: Journal
) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    record = await started(ledger, call(session=session.id))
    await soon(store.conversations.delete(session.id, owner="ann"))
    assert await finished(ledger, record, DONE)
    assert await soon(ledger.find(record.id)) is None


# What is kept.


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"a": [1, 2.5, None, True, {"b": "ü"}], "big": 2**70},
        '{"broken": ',
        "half a character: \ud83d",
        b"\xff\x00 no text at all",
    ],
)
async def test_arguments_come_back_as_they_were(ledger: Journal, arguments: Arguments | bytes | str) -> None:
    record = await started(ledger, call(arguments=arguments))
    assert (await known(ledger, record.id)).arguments == arguments


async def test_halves_of_characters_in_parsed_arguments_become_question_marks(ledger: Journal) -> None:
    record = await started(ledger, call(arguments={"a\ud800": ["\udfff", 1]}, session="\ud800"))
    kept = await soon(ledger.get(record.id, owner="ann"))
    assert (kept.arguments, kept.session) == ({"a?": ["?", 1]}, "?")


@pytest.mark.parametrize(
    "result",
    [
        Failure("file_not_found", "File not found: 'ü\ud800'"),
        succeed(None),
        succeed({"a": [1, 2.5, "ü"]}),
        succeed(
            "seen",
            (
                Attachment("image", "image/png", b"\x89PNG\x00\xff", name="a.png"),
                Attachment("file", "text/plain", artifact=ArtifactRef("a" * 24, 9)),
            ),
        ),
    ],
)
async def test_results_come_back_as_they_were(ledger: Journal, result: ToolResult) -> None:
    record = await started(ledger, call())
    record.true_result = result
    assert await finished(ledger, record, result)
    kept = await known(ledger, record.id)
    if isinstance(result, Failure):
        result = Failure(result.code, result.message.replace("\ud800", "\ufffd"))
    assert kept.result == result
    assert kept.true_result == result


async def test_a_record_comes_back_whole(ledger: Journal) -> None:
    record = await started(ledger, call())
    record.size, record.duration = 123, 0.25
    await finished(ledger, record, DONE)
    assert await known(ledger, record.id) == record
    assert record.state == "done"
    assert record.result == DONE


async def test_a_call_that_waits_keeps_its_expiry_and_gets_its_result_later(ledger: Journal) -> None:
    record = await started(ledger, call())
    record.expires_at = 5000.5
    await soon(ledger.suspend(record))
    kept = await known(ledger, record.id)
    assert (kept.state, kept.expires_at, kept.result) == ("pending", 5000.5, UNSET)
    assert await finished(ledger, kept, DONE)
    assert (await known(ledger, record.id)).result == DONE


async def test_what_a_person_edited_is_what_was_run(ledger: Journal) -> None:
    record = call()
    await soon(ledger.accept(record))
    assert (await known(ledger, record.id)).state == "accepted"
    record.arguments = {"path": "b.txt"}
    await started(ledger, record)
    kept = await known(ledger, record.id)
    assert (kept.state, kept.arguments) == ("started", {"path": "b.txt"})


async def test_a_call_of_a_name_that_is_too_long_for_any_tool_is_in_the_journal(ledger: Journal) -> None:
    name = random.Random(7).randbytes(4000).hex()  # it can't be packed into fewer bytes
    record = structs.replace(call(tool=UNKNOWN_TOOL), name=name)
    refusal = Failure("tool_not_found", "there is no such tool")
    assert await finished(ledger, record, refusal)
    found = await known(ledger, record.id)
    assert found.result == refusal and name.startswith(found.name) and len(found.name) == 200


async def test_a_call_that_was_refused_at_once_is_in_the_journal(ledger: Journal) -> None:
    record = structs.replace(call(), tool=UNKNOWN_TOOL)
    assert await finished(ledger, record, Failure("tool_not_found", "There is no such tool"))
    kept = await known(ledger, record.id)
    assert (kept.state, kept.tool) == ("done", UNKNOWN_TOOL)


async def test_a_result_whose_caller_was_cancelled_is_stored(ledger: Journal) -> None:
    record = await started(ledger, call())
    written = asyncio.ensure_future(ledger.finish(record, DONE))  # type: ignore[arg-type] # no block is open
    written.cancel()
    assert not await finished(ledger, structs.replace(record), LATE)
    assert (await known(ledger, record.id)).result == DONE


async def test_the_owner_reads_the_journal_page_by_page_the_last_call_first(ledger: Journal) -> None:
    records = [call(at=float(1000 + number // 2), session=f"s{number % 2}") for number in range(7)]
    for record in records:
        await finished(ledger, await started(ledger, record), DONE)
    await started(ledger, call(owner="bob"))
    seen: list[CallRecord] = []
    after = None
    for size in (3, 3, 1):
        page, after = await soon(ledger.page(owner="ann", limit=3, after=after))
        assert len(page) == size
        seen += page
    assert after is None
    assert [(record.at, record.id) for record in seen] == sorted(((r.at, r.id) for r in records), reverse=True)
    page, after = await soon(ledger.page(CallFilter(session="s1"), owner="ann", limit=0))
    assert len(page) == 1
    assert {record.session for record in page} == {"s1"}


async def test_open_calls_are_those_without_a_result(ledger: Journal) -> None:
    await finished(ledger, await started(ledger, call()), DONE)
    first = await started(ledger, call(at=1.0))
    second = await started(ledger, call(at=2.0, session="t"))
    assert [record.id for record in await soon(ledger.open_calls(owner="ann"))] == [first.id, second.id]
    assert [record.id for record in await soon(ledger.open_calls(owner="ann", session="t"))] == [second.id]


# Together.


async def test_a_result_and_its_history_row_are_one_commit(store: Store, state: Path) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    record = await started(store.ledger, call(session=session.id))
    await soon(store.conversations.append(session.id, user(), asks(record.id), owner="ann"))
    before = commits_of(store)
    async with store.unit_of_work():
        assert store.ledger.finish(record, DONE) is True
        assert store.ledger.finish(structs.replace(record), LATE) is False
        kept = await soon(store.ledger.find(record.id))
        assert kept is not None and kept.result == DONE  # a reader gets the same meanwhile
        await store.conversations.append(session.id, answers(record.id), owner="ann")
        assert rows_in(state, "SELECT state FROM calls") == [("started",)]
        await store.conversations.end_turn(session.id, owner="ann")
        assert rows_in(state, "SELECT state FROM calls") == [("done",)]  # the next turn looks there
    assert commits_of(store) - before == 1
    assert rows_in(state, "SELECT calls.state, length FROM calls, sessions") == [("done", 3)]
    assert (await known(store.ledger, record.id)).result == DONE


async def test_a_call_that_only_reads_and_goes_on_is_stored_meanwhile(store: Store) -> None:
    record = await started(store.ledger, call(tool=READS))
    assert [one.id for one in await soon(store.ledger.open_calls(owner="ann"))] == [record.id]


async def test_when_a_call_got_its_result_elsewhere_nothing_of_the_unit_is_kept(store: Store) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    record = await started(store.ledger, call(session=session.id))
    elsewhere = structs.replace(record)
    assert await finished(store.ledger, elsewhere, LATE)
    with pytest.raises(ToolError, match="got its result elsewhere: load the session again") as refused:
        async with store.unit_of_work():
            assert store.ledger.finish(record, DONE) is True
            await store.conversations.rename(session.id, "new", owner="ann")
    assert refused.value.code == "busy"
    assert (await known(store.ledger, record.id)).result == LATE
    assert (await soon(store.conversations.get(session.id, owner="ann"))).name == ""


async def test_a_result_in_a_unit_is_the_first_one_for_all_readers(store: Store) -> None:
    record = await started(store.ledger, call())
    inside = asyncio.Event()
    over = asyncio.Event()

    async def unit() -> None:
        async with store.unit_of_work():
            assert store.ledger.finish(record, DONE) is True
            inside.set()
            await over.wait()

    task = asyncio.create_task(unit())
    await soon(inside.wait())
    assert store.ledger.finish(structs.replace(record, state="started"), LATE) is False
    over.set()
    await soon(task)
    assert isinstance((await known(store.ledger, record.id)).result, Success)


async def test_a_call_that_is_suspended_in_a_block_is_found_and_finished_in_it(store: Store) -> None:
    record = call("c1", tool=WRITES)
    async with store.unit_of_work():
        await soon(store.ledger.suspend(record))
        found = await known(store.ledger, "c1")
        assert (found.state, found.result) == ("pending", UNSET)
        assert await finished(store.ledger, structs.replace(found), DONE)
        assert not await finished(store.ledger, structs.replace(found), LATE)
        assert (await known(store.ledger, "c1")).state == "done"
    assert (await known(store.ledger, "c1")).result == DONE
    assert await soon(store.ledger.open_calls(owner="ann")) == []
