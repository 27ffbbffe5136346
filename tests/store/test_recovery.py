"""After a crash: everything that was half done is closed honestly, and what waits goes on waiting (SPEC A2)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from handspan.core.calls import ToolFacts
from handspan.core.messages import Message
from handspan.core.principals import Origin, OriginKind
from handspan.core.questions import Answer
from handspan.core.records import Recovery, SessionRecord
from handspan.core.results import Attachment, Failure, succeed
from handspan.core.store import Store
from handspan.core.tool import AnsweredBy
from tests.store.things import READS, Clock, answers, asks, call, finished, question, says, started, user
from tests.stores import open_store, rows_in
from tests.waiting import soon

pytestmark = pytest.mark.anyio


@pytest.fixture
async def later(store: Store, state: Path, clock: Clock) -> AsyncIterator[Store]:
    """The store of the next process; it is opened by `crash`."""
    next_one = open_store(state, clock=clock)
    yield next_one
    await next_one.close()


async def crash(store: Store, later: Store) -> Recovery:
    """This process is gone, the next one begins."""
    await soon(store.close())
    await soon(later.open())
    return await soon(later.recover())


async def result(store: Store, call_id: str) -> object:
    record = await soon(store.ledger.get(call_id, owner="ann"))
    return record.result


async def code(store: Store, call_id: str) -> str:
    found = await result(store, call_id)
    assert isinstance(found, Failure)
    return found.code


async def test_what_was_never_handed_out_is_interrupted(store: Store, later: Store) -> None:
    record = call()
    await soon(store.ledger.accept(record))
    assert await crash(store, later) == Recovery(interrupted=(record.id,))
    assert await result(later, record.id) == Failure(
        "interrupted", "The gateway stopped before 'write_file' was run: it is safe to call it again."
    )


async def test_what_was_handed_out_has_an_unknown_outcome(store: Store, later: Store) -> None:
    record = await started(store.ledger, call(at=1.0))
    reading = await started(store.ledger, call(tool=READS, at=2.0))
    assert await crash(store, later) == Recovery(unknown_outcome=(record.id, reading.id), repeatable=(reading.id,))
    for each, advice in ((record, "Look before you call it again."), (reading, "It only reads: call it again.")):
        found = await result(later, each.id)
        assert isinstance(found, Failure)
        assert found.code == "unknown_outcome"
        assert found.message.endswith(advice)
    assert not await finished(later.ledger, record, succeed("late"))


async def test_recovering_twice_finds_nothing_the_second_time(store: Store, later: Store) -> None:
    await started(store.ledger, call())
    assert await crash(store, later) != Recovery()
    assert await soon(later.recover()) == Recovery()


async def test_what_is_done_stays_as_it_is(store: Store, later: Store) -> None:
    record = await started(store.ledger, call())
    await finished(store.ledger, record, succeed("kept"))
    assert await crash(store, later) == Recovery()
    assert await result(later, record.id) == succeed("kept")


async def test_the_calls_of_a_process_that_lives_are_left_alone(store: Store, later: Store) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    running = await started(store.ledger, call(session=session.id))
    accepted = call()
    await soon(store.ledger.accept(accepted))
    await soon(later.open())
    assert await soon(later.recover()) == Recovery(waiting=(accepted.id,))
    assert await finished(store.ledger, running, succeed("done"))
    assert await result(later, running.id) == succeed("done")
    assert (await soon(later.conversations.get(session.id, owner="ann"))).state == "running"


# What waits.


async def test_a_call_that_waits_for_a_browser_stays_open_within_its_time(
    store: Store, later: Store, clock: Clock
) -> None:
    for_ever, for_a_while, late = [await started(store.ledger, call(at=float(at))) for at in range(3)]
    for_a_while.expires_at, late.expires_at = clock.now + 60, clock.now + 1
    for record in (for_ever, for_a_while, late):
        await soon(store.ledger.suspend(record))
    clock.now += 10
    assert await crash(store, later) == Recovery(expired=(late.id,), waiting=(for_ever.id, for_a_while.id))
    assert await code(later, late.id) == "timeout"
    assert await soon(later.expire()) == ()
    clock.now += 50
    assert await soon(later.expire()) == (for_a_while.id,)
    assert await code(later, for_a_while.id) == "timeout"
    found = await soon(later.ledger.find(for_ever.id))
    assert found is not None and await finished(later.ledger, found, succeed("at last"))


async def test_a_pending_call_of_a_process_that_lives_has_its_clock_there(store: Store, clock: Clock) -> None:
    record = await started(store.ledger, call())
    record.expires_at = clock.now - 1
    await soon(store.ledger.suspend(record))
    assert await soon(store.expire()) == ()
    assert await finished(store.ledger, record, Failure("timeout", "its own clock"))


async def test_a_call_that_waits_for_a_person_stays_answerable_until_its_question_expires(
    store: Store, later: Store, clock: Clock
) -> None:
    for call_id in ("c1", "c2", "c3"):
        await soon(store.questions.ask(question(call_id)))
        await soon(store.ledger.accept(call(call_id)))
        clock.now += 20
    clock.now += 5  # 65 s, 45 s and 25 s of 60 s
    assert await soon(store.questions.answer("c2/approval", Answer("allow"), owner="ann"))
    assert await crash(store, later) == Recovery(expired=("c1",), waiting=("c2", "c3"))
    assert await code(later, "c1") == "question_expired"
    assert [one.call_id for one in await soon(later.questions.open_for(owner="ann"))] == ["c3"]
    assert await soon(later.questions.ask(question("c2"))) == Answer("allow")
    clock.now += 100
    assert await soon(later.expire()) == ("c3",)
    assert await code(later, "c3") == "question_expired"
    assert (await soon(later.ledger.get("c2", owner="ann"))).state == "accepted"


# Turns.


async def running_session(store: Store, *messages: Message) -> SessionRecord:
    session = await soon(store.conversations.create(owner="ann"))
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    await soon(store.conversations.append(session.id, *messages, owner="ann"))
    return session


async def test_a_turn_that_was_running_is_closed_and_not_continued(store: Store, later: Store) -> None:
    session = await running_session(store, user())
    idle = await soon(store.conversations.create(owner="ann"))
    assert await crash(store, later) == Recovery(closed=(session.id,))
    for one in (session, idle):
        assert (await soon(later.conversations.get(one.id, owner="ann"))).state == "idle"
    assert await soon(later.conversations.load(session.id, owner="ann")) == [user()]
    await soon(later.conversations.begin_turn(session.id, owner="ann"))


async def test_a_question_of_a_lost_turn_that_has_no_call_takes_no_answer(store: Store, later: Store) -> None:
    session = await running_session(store, user())
    asked = structs.replace(question("", kind="input"), id="budget/1", tool="budget", session=session.id)
    await soon(store.questions.ask(asked))
    await crash(store, later)
    assert await soon(later.questions.open_for(owner="ann")) == []
    assert not await soon(later.questions.answer(asked.id, Answer("allow"), owner="ann"))


async def test_the_open_calls_of_a_closed_turn_get_their_results_in_the_conversation(
    store: Store, later: Store
) -> None:
    image = Attachment("image", "image/png", b"png")
    session = await running_session(store, user(), asks("done", "running", "never"))
    await finished(store.ledger, await started(store.ledger, call("done", session=session.id)), succeed("x", (image,)))
    await started(store.ledger, call("running", session=session.id))
    recovery = await crash(store, later)
    assert (recovery.unknown_outcome, recovery.closed) == (("running",), (session.id,))
    *_, last = await soon(later.conversations.load(session.id, owner="ann"))
    shown = [(one.call_id, one.is_error, one.attachments) for one in last.results]  # type: ignore[union-attr] # it is
    assert shown == [("done", False, (image,)), ("running", True, ()), ("never", True, ())]
    assert await code(later, "never") == "interrupted"
    await soon(later.conversations.append(session.id, user("go on"), says(), owner="ann"))


async def test_a_turn_whose_calls_wait_for_a_person_or_a_page_waits_too(store: Store, later: Store) -> None:
    session = await running_session(store, user(), asks("c1", "c2"))
    waits = await started(store.ledger, call("c1", session=session.id))
    await soon(store.ledger.suspend(waits))
    assert await crash(store, later) == Recovery(waiting=("c1",))
    assert (await soon(later.conversations.get(session.id, owner="ann"))).state == "waiting"
    assert await code(later, "c2") == "interrupted"  # so that the loop finds a result for each of them
    await soon(later.conversations.append(session.id, answers("c1", "c2"), says(), owner="ann"))


async def test_a_question_for_an_unknown_call_is_not_asked_any_more(store: Store, later: Store) -> None:
    session = await running_session(store, user(), asks("c1"))
    await soon(store.questions.ask(structs.replace(question("c1"), session=session.id)))
    assert await crash(store, later) == Recovery(closed=(session.id,))
    assert await soon(later.questions.open_for(owner="ann")) == []
    assert await soon(later.questions.ask(question("c1"))) == Answer("expired")


async def test_a_session_that_waited_is_left_waiting(store: Store, later: Store) -> None:
    session = await running_session(store, user(), asks("c1"))
    await soon(store.ledger.suspend(await started(store.ledger, call("c1", session=session.id))))
    await soon(store.conversations.end_turn(session.id, owner="ann", waiting=True))
    assert await crash(store, later) == Recovery(waiting=("c1",))
    assert (await soon(later.conversations.get(session.id, owner="ann"))).state == "waiting"


async def test_two_that_recover_at_once_give_one_result(store: Store, state: Path) -> None:
    session = await running_session(store, user(), asks("c1"))
    await started(store.ledger, call("c1", session=session.id))
    await soon(store.close())
    others = [open_store(state) for _ in range(3)]
    await soon(asyncio.gather(*(other.open() for other in others)))
    recoveries = await soon(asyncio.gather(*(other.recover() for other in others)))
    assert sorted(recovery.unknown_outcome for recovery in recoveries) == [(), (), ("c1",)]
    assert len(await soon(others[0].conversations.load(session.id, owner="ann"))) == 3
    await soon(asyncio.gather(*(other.close() for other in others)))
    assert rows_in(state, "SELECT COUNT(*) FROM messages") == [(3,)]


OF_KIND: Final[dict[OriginKind, AnsweredBy]] = {"device": "connection", "browser": "request"}


async def test_a_turn_that_waits_for_calls_with_results_can_go_on(store: Store, later: Store) -> None:
    kinds: tuple[tuple[str, OriginKind], ...] = (("answered", "device"), ("of-a-page", "browser"))
    for session, kind in kinds:
        await soon(store.conversations.create(owner="ann", session=session))
        await soon(store.conversations.begin_turn(session, owner="ann"))
        await soon(store.conversations.append(session, user(), asks(session), owner="ann"))
        await soon(store.conversations.end_turn(session, owner="ann", waiting=True))
        facts = ToolFacts(Origin(kind, "arm"), "1.0.0", read_only=False, answered_by=OF_KIND[kind])
        record = await started(store.ledger, call(session, session=session, tool=facts))
        await finished(store.ledger, record, succeed(1))
    assert await crash(store, later) == Recovery(answered=(("answered", "ann"),)), "the page sends its results again"
