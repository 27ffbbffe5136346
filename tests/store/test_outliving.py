"""Calls that outlive their process: the client may come back with the outcome (ws.md 6.7 i, j; SPEC W8)."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from handspan.bus.memory import MemoryBus
from handspan.core.agents import Agent
from handspan.core.bus import CallCompleted
from handspan.core.calls import CallRecord, ToolFacts
from handspan.core.context import Deadline, ToolContext
from handspan.core.principals import Origin, OriginKind
from handspan.core.questions import Answer, QuestionAction
from handspan.core.records import Recovery
from handspan.core.results import Failure, Pending, succeed
from handspan.core.store import Store
from handspan.core.tool import NO_CLAIMS, READ_ONLY, Annotations, AnsweredBy, Handling, ToolSpec
from handspan.core.values import Arguments
from tests.engine.engine_kit import EngineKit
from tests.store.asking_devices import PHONE, SECONDS, TOOLS
from tests.store.test_recovery import crash, running_session
from tests.store.things import Clock, asks, call, finished, started, user
from tests.store.things import question as a_question
from tests.stores import has_connections, open_store, rows_in, run_sql
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def facts(
    kind: OriginKind = "device",
    *,
    read_only: bool = False,
    outlives: bool = True,
    answered_by: AnsweredBy = "connection",
) -> ToolFacts:
    return ToolFacts(Origin(kind, "phone", "peer-1"), "1.0.0", read_only, outlives, answered_by)


def handed_out(expires_at: float | None, call_id: str = "", *, tool: ToolFacts | None = None) -> CallRecord:
    """A call whose tool is on a device."""
    record = call(call_id, tool=tool or facts())
    record.expires_at = expires_at
    return record


@pytest.fixture
async def later(store: Store, state: Path, clock: Clock) -> AsyncIterator[Store]:
    """The store of the next process; it is opened by `crash`."""
    next_one = open_store(state, clock=clock)
    yield next_one
    await soon(next_one.close())


async def failure(store: Store, call_id: str) -> Failure:
    found = (await soon(store.ledger.get(call_id, owner="ann"))).result
    assert isinstance(found, Failure)
    return found


# Who comes too late.


@pytest.mark.parametrize("read_only", [False, True], ids=["writes", "reads"])
async def test_a_call_whose_person_is_asked_to_log_in_waits_as_long_as_the_question(
    store: Store, later: Store, clock: Clock, read_only: bool
) -> None:
    """ws.md 5.13: the person's time does not count, before and after the death of the gateway."""
    record = await started(store.ledger, handed_out(clock.now + 30, tool=facts(read_only=read_only)))
    action = QuestionAction(hint="Log in.")
    question = structs.replace(a_question(record.id, kind="login"), action=action, expires_in=300.0)
    assert await soon(store.questions.ask(question)) is None
    clock.now += 100
    assert await crash(store, later) == Recovery(waiting=(record.id,))
    assert [one.id for one in await soon(later.ledger.take_over_calls())] == [record.id]
    assert await soon(later.expire()) == ()
    assert await soon(later.questions.answer(question.id, Answer("allow"), owner="ann"))
    found = await soon(later.ledger.get(record.id, owner="ann"))
    await soon(later.ledger.suspend(structs.replace(found, expires_at=clock.now + 30)))
    clock.now += 29
    assert await soon(later.expire()) == ()
    clock.now += 1
    assert await soon(later.expire()) == (record.id,)


@pytest.mark.parametrize("read_only", [False, True], ids=["writes", "reads"])
async def test_a_call_that_was_handed_out_ends_after_its_time(
    store: Store, later: Store, clock: Clock, read_only: bool
) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30, tool=facts(read_only=read_only)))
    clock.now += 30
    again = (record.id,) if read_only else ()
    assert await crash(store, later) == Recovery(unknown_outcome=(record.id,), repeatable=again)
    advice = "It only reads: call it again." if read_only else "Look before you call it again."
    assert await failure(later, record.id) == Failure(
        "unknown_outcome",
        f"The gateway stopped while 'write_file' was running: its outcome is unknown. {advice}",
    )
    assert await soon(later.ledger.take_over_calls()) == []


async def test_a_call_that_waits_for_its_client_too_long_has_an_unknown_outcome_and_no_timeout(
    store: Store, later: Store, clock: Clock
) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30))
    clock.now += 10
    assert await crash(store, later) == Recovery(waiting=(record.id,))
    clock.now += 19
    assert await soon(later.expire()) == ()
    clock.now += 1
    assert await soon(later.expire()) == (record.id,)
    assert await failure(later, record.id) == Failure(
        "unknown_outcome",
        "'write_file' was sent to the program that runs it, and no answer came in time: its outcome is unknown. "
        "Look before you call it again.",
    )
    assert await soon(later.expire()) == ()


async def test_of_two_crashes_the_second_finds_it_too_late(
    store: Store, later: Store, clock: Clock, state: Path
) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30, tool=facts("remote")))
    assert await crash(store, later) == Recovery(waiting=(record.id,))
    clock.now += 30
    third = open_store(state, clock=clock)
    assert await crash(later, third) == Recovery(expired=(record.id,))  # as all that was let to wait
    assert (await failure(third, record.id)).code == "unknown_outcome"
    await soon(third.close())


async def test_what_waits_for_a_browser_still_times_out(store: Store, later: Store, clock: Clock) -> None:
    record = await started(
        store.ledger, handed_out(clock.now + 30, tool=facts("browser", outlives=False, answered_by="request"))
    )
    await soon(store.ledger.suspend(record))
    clock.now += 30
    assert await crash(store, later) == Recovery(expired=(record.id,))
    assert (await failure(later, record.id)).code == "timeout"


async def test_a_call_that_does_not_outlive_its_process_is_closed_whatever_its_time(
    store: Store, later: Store, clock: Clock
) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30, tool=facts(outlives=False)))
    assert await crash(store, later) == Recovery(unknown_outcome=(record.id,))


async def test_a_second_outcome_changes_nothing(store: Store, later: Store, clock: Clock, state: Path) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30))
    await crash(store, later)
    kit = EngineKit(state, ledger=later.ledger)
    both = await soon(asyncio.gather(*(kit.engine.settle(record.id, succeed(text)) for text in ("one", "two"))))
    assert sorted(result is None for result in both) == [False, True]
    assert await soon(kit.engine.settle(record.id, succeed("three"))) is None
    kept = await soon(later.ledger.get(record.id, owner="ann"))
    assert kept.result in both
    assert await soon(later.expire()) == ()


# Who waits for it.


async def test_the_calls_of_a_process_that_lives_are_not_for_others(store: Store, later: Store, clock: Clock) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30))
    await soon(later.open())
    assert await soon(later.recover()) == Recovery()
    assert await soon(later.ledger.take_over_calls()) == []
    assert await finished(store.ledger, record, succeed("answered"))


async def test_one_process_at_a_time_waits_for_the_clients_of_those_that_are_gone(
    store: Store, later: Store, state: Path, clock: Clock
) -> None:
    record = await started(store.ledger, handed_out(clock.now + 30))
    assert await crash(store, later) == Recovery(waiting=(record.id,))
    async with open_store(state, clock=clock) as third:
        assert await soon(third.recover()) == Recovery(waiting=(record.id,))
        for _ in range(2):
            assert [one.id for one in await soon(later.ledger.take_over_calls())] == [record.id]
        assert await soon(third.ledger.take_over_calls()) == []
        await soon(later.close())
        assert [one.id for one in await soon(third.ledger.take_over_calls())] == [record.id]
        clock.now += 30  # should the one who waits for it forget it, it ends all the same
        assert await soon(third.expire()) == (record.id,)


async def test_what_waits_for_a_browser_or_a_person_is_not_for_clients(
    store: Store, later: Store, clock: Clock
) -> None:
    browser = await started(
        store.ledger, handed_out(None, "c1", tool=facts("browser", outlives=False, answered_by="request"))
    )
    await soon(store.ledger.suspend(browser))
    asked, answered = handed_out(None, "c2"), await started(store.ledger, handed_out(clock.now + 30, "c3"))
    await soon(store.ledger.accept(asked))
    await finished(store.ledger, answered, succeed("done"))
    without_limit = await started(store.ledger, handed_out(None, "c4"))
    assert await crash(store, later) == Recovery(interrupted=("c2",), waiting=("c1", "c4"))
    [left] = await soon(later.ledger.take_over_calls())
    assert (left.id, left.state, left.expires_at) == (without_limit.id, "pending", None)


async def test_a_session_whose_call_is_with_a_client_waits_and_goes_on_with_its_answer(
    store: Store, later: Store, clock: Clock, state: Path
) -> None:
    session = await running_session(store, user(), asks("c1", "c2"))
    for call_id, tool in (("c1", facts()), ("c2", facts(outlives=False))):
        record = handed_out(clock.now + 30, call_id, tool=tool)
        record.session = session.id
        await started(store.ledger, record)
    assert await crash(store, later) == Recovery(unknown_outcome=("c2",), waiting=("c1",))
    assert (await soon(later.conversations.get(session.id, owner="ann"))).state == "waiting"
    assert await soon(EngineKit(state, ledger=later.ledger).engine.settle("c1", succeed("a picture")))
    assert (await soon(later.ledger.get("c1", owner="ann"))).result == succeed("a picture")


# What the engine writes.


class Camera:
    """A tool on a phone. It looks at what others see of its call while it runs."""

    def __init__(self, state: Path, seconds: float | None, annotations: Annotations, *, outlives: bool) -> None:
        self.spec = ToolSpec("camera", "Made for a test.", {"type": "object"}, (), seconds, "1", annotations)
        self.handling = Handling(answered_by="connection", outlives=outlives)
        self.seen: list[tuple[object, ...]] = []
        self._state = state

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """A picture."""
        self.seen = rows_in(self._state, "SELECT id, state, expires_at - at FROM calls")
        return "a picture"


@pytest.fixture
async def kit(store: Store, state: Path) -> AsyncIterator[EngineKit]:
    """An engine and its parts on the store."""
    kit = EngineKit(state, ledger=store.ledger, questions=store.questions)
    yield kit
    await kit.engine.close()


@pytest.mark.parametrize("annotations", [NO_CLAIMS, READ_ONLY], ids=["writes", "reads"])
@pytest.mark.parametrize("seconds", [20.0, None], ids=["limit", "no limit"])
async def test_a_call_that_may_be_answered_later_is_kept_with_its_time_before_the_tool_is_touched(
    kit: EngineKit, state: Path, annotations: Annotations, seconds: float | None
) -> None:
    camera = Camera(state, seconds, annotations, outlives=True)
    kit.add(camera, PHONE)
    assert await kit.value("camera", call_id="c1") == "a picture"
    assert camera.seen == [("c1", "started", seconds and pytest.approx(seconds))]


async def test_a_call_that_ends_with_its_process_has_no_time_in_the_ledger(kit: EngineKit, state: Path) -> None:
    camera = Camera(state, 20.0, NO_CLAIMS, outlives=False)
    kit.add(camera, PHONE)
    assert await kit.value("camera", call_id="c1") == "a picture"
    assert camera.seen == [("c1", "started", None)]


async def test_the_caller_s_deadline_counts_too(kit: EngineKit, state: Path) -> None:
    for seconds in (20.0, None):
        camera = Camera(state, seconds, NO_CLAIMS, outlives=True)
        kit.registry.register_or_replace(camera, PHONE)
        deadline = Deadline(time.monotonic() + 5, "the caller's deadline")
        await kit.value("camera", call_id=f"c{seconds}", deadline=deadline)
        [(_, _, left)] = [row for row in camera.seen if row[0] == f"c{seconds}"]
        assert isinstance(left, float) and 0 < left <= 5.01


async def test_the_time_that_a_person_takes_does_not_count(kit: EngineKit, store: Store, state: Path) -> None:
    camera = Camera(state, 20.0, NO_CLAIMS, outlives=True)
    kit.add(camera, PHONE)
    careful = kit.caller(Agent("Careful", mode="ask_always"))
    assert isinstance(await kit.call("camera", caller=careful, call_id="c1"), Pending)
    [question] = await soon(store.questions.open_for(owner=careful.who.owner))
    await soon(store.questions.answer(question.id, Answer("allow"), owner=careful.who.owner))
    sql = "UPDATE calls SET at = at - 3600"  # an hour ago
    await soon(run_sql(store, sql))
    assert await soon(kit.engine.resume("c1", careful)) == succeed("a picture")
    assert camera.seen == [("c1", "started", pytest.approx(3620, abs=5))]


async def test_a_tool_that_hands_its_call_out_says_itself_how_long_it_waits(kit: EngineKit, state: Path) -> None:
    class Slow(Camera):
        async def run(self, arguments: Arguments, ctx: ToolContext) -> Pending:  # type: ignore[override] # it waits
            return Pending()

    kit.add(Slow(state, 20.0, NO_CLAIMS, outlives=True), PHONE)
    assert isinstance(await kit.call("camera"), Pending)
    assert rows_in(state, "SELECT state, expires_at FROM calls") == [("pending", None)]


# kill -9.


def ask_and_kill(state: Path) -> dict[str, str]:
    """The calls that were handed out when the process was killed, by the names of their tools."""
    command = [sys.executable, "-m", "tests.store.asking_devices", str(state)]
    without_coverage = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=without_coverage) as process:
        assert process.stdout is not None
        asked = [process.stdout.readline().decode().split() for _ in TOOLS]
        process.kill()
    assert process.returncode == -9
    return {name: call_id for _, name, call_id in asked}


@pytest.mark.outside
async def test_after_kill_9_the_answers_of_clients_complete_their_calls(state: Path) -> None:
    asked = await asyncio.to_thread(ask_and_kill, state)
    await until(lambda: not has_connections(state))
    heard: list[CallCompleted] = []
    bus = MemoryBus(strict=True)
    bus.subscribe(CallCompleted, heard.append)
    async with open_store(state) as store:
        recovery = await soon(store.recover())
        outliving = [asked[name] for name in ("phone__camera", "phone__battery", "torch")]
        assert sorted(recovery.waiting) == sorted(outliving)
        assert recovery.unknown_outcome == (asked["write"],)
        left = {record.name: record for record in await soon(store.ledger.take_over_calls())}
        assert {**{name: record.id for name, record in left.items()}, "write": asked["write"]} == asked
        for record in left.values():
            assert record.tool.origin is not None and record.tool.origin.connection in ("peer-1", "peer-2")
            assert record.arguments == {"n": 1}
            assert record.expires_at == pytest.approx(record.at + SECONDS)
        [session] = (await soon(store.conversations.page(owner="ann"))).sessions
        assert session.state == "waiting"
        kit = EngineKit(state, ledger=store.ledger, bus=bus)
        for name, record in left.items():
            assert await soon(kit.engine.settle(record.id, succeed(name))) == succeed(name)
        assert [(call.id, call.status) for call in heard] == [(record.id, "success") for record in left.values()]
        for name, record in left.items():
            kept = await soon(store.ledger.get(record.id, owner="ann"))
            assert (kept.state, kept.result) == ("done", succeed(name))


@pytest.mark.outside
async def test_after_kill_9_and_too_long_a_time_their_outcome_is_unknown(state: Path) -> None:
    asked = await asyncio.to_thread(ask_and_kill, state)
    await until(lambda: not has_connections(state))
    async with open_store(state, clock=lambda: time.time() + SECONDS + 1) as store:
        recovery = await soon(store.recover())
        assert sorted(recovery.unknown_outcome) == sorted(asked.values())
        assert recovery.repeatable == (asked["phone__battery"],)
        assert await soon(store.ledger.take_over_calls()) == []
        [session] = (await soon(store.conversations.page(owner="ann"))).sessions
        assert session.state == "idle"
        assert len(await soon(store.conversations.load(session.id, owner="ann"))) == 3
