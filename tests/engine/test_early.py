"""Outcomes that come before their call says that it waits for one (SPEC E2)."""

import asyncio
from typing import Any

import pytest

from handspan.core.calls import CallRecord, ToolCall
from handspan.core.context import ToolContext
from handspan.core.errors import StoreError
from handspan.core.principals import Origin
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.results import Failure, Pending, Success, succeed
from handspan.engine.hooks import HookedCall, Hooks, NamedHook
from handspan.engine.records import CallAtWork
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of, soon
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

CLICKED = succeed("clicked")


class Browser:
    """A tool `click` that hands its call out at once, and returns when the test lets it."""

    def __init__(self, kit: EngineKit, answer: Any) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

        async def click() -> Any:
            self.asked.set()
            await self.go_on.wait()
            return answer

        kit.add(click)


class SlowSuspending:
    """Lets the ledger take its time to write that a call is pending, as a disk does."""

    def __init__(self, kit: EngineKit) -> None:
        self.begun = asyncio.Event()
        self.written = asyncio.Event()
        suspend = kit.ledger.suspend

        async def suspend_slowly(record: CallRecord) -> None:
            self.begun.set()
            await self.written.wait()
            await suspend(record)

        kit.ledger.suspend = suspend_slowly  # type: ignore[method-assign]  # a ledger that takes a moment


def later(kit: EngineKit, expires_in: float | None = None) -> None:
    async def click() -> Any:
        return Pending(expires_in)

    kit.add(click)


def nothing_is_left(kit: EngineKit) -> bool:
    records = [record for record in kit.journal() if isinstance(record, CallAtWork)]
    has_kept = any(record.early is not None for record in records)
    return not has_kept and kit.engine._pending._waiting == {} and list(kit.ledger.open_calls()) == []


# What is dropped.


async def test_a_tool_that_answers_by_itself_is_believed_and_who_was_early_can_learn_it(kit: EngineKit) -> None:
    browser = Browser(kit, "mine")
    task = kit.start("click", call_id="call-1")
    await soon(browser.asked)
    assert await kit.engine.settle("call-1", CLICKED) == Pending()
    learning = asyncio.create_task(kit.engine.result("call-1"))
    await asyncio.sleep(0)
    browser.go_on.set()
    [result, learnt] = await outcome_of([task, learning])
    assert result.value == "mine"
    assert learnt == result == await kit.engine.result("call-1") == kit.last().result
    assert await kit.engine.settle("call-1", CLICKED) is None
    assert nothing_is_left(kit)


@pytest.mark.parametrize("early", [CLICKED, Failure("disconnected", "The browser has gone.")])
async def test_a_call_that_is_cancelled_is_cancelled_and_the_journal_knows_its_early_outcome(
    kit: EngineKit, early: Success | Failure
) -> None:
    browser = Browser(kit, Pending())
    task = kit.start("click", call_id="call-1")
    await soon(browser.asked)
    assert await kit.engine.settle("call-1", early) == Pending()
    learning = asyncio.create_task(kit.engine.result("call-1"))
    await asyncio.sleep(0)
    task.cancel()
    [cancelled, learnt] = await outcome_of([task, learning])
    assert isinstance(cancelled, asyncio.CancelledError)
    record = kit.last()
    assert record.result == learnt
    if isinstance(early, Success):
        assert isinstance(learnt, Failure) and learnt.code == "cancelled"
        assert record.true_result == early
    else:
        assert learnt == early
    assert nothing_is_left(kit)


async def test_the_second_outcome_is_refused_early_and_late(kit: EngineKit) -> None:
    browser = Browser(kit, Pending())
    task = kit.start("click", call_id="call-1")
    await soon(browser.asked)
    assert await kit.engine.settle("call-1", CLICKED) == Pending()
    assert await kit.engine.settle("call-1", succeed("again")) is None
    browser.go_on.set()
    assert await outcome_of([task]) == [CLICKED]
    assert await kit.engine.settle("call-1", succeed("again")) is None
    assert nothing_is_left(kit)


async def test_a_call_that_no_tool_was_touched_for_takes_no_outcome(make_kit: MakeKit) -> None:
    class Later:
        async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
            opened()
            return None

    kit = make_kit(questions=Later())
    kit.add(lambda: 1, Origin("plugin", "phone"), name="photo", permissions=("camera",))
    assert await kit.call("photo", call_id="call-1") == Pending()
    assert await kit.engine.settle("call-1", CLICKED) is None


# What is taken up.


async def test_an_outcome_that_comes_while_the_tool_runs_is_the_result_when_it_answers_pending(kit: EngineKit) -> None:
    browser = Browser(kit, Pending(60.0))
    task = kit.start("click", call_id="call-1")
    await soon(browser.asked)
    assert await kit.engine.settle("call-1", Success("clicked")) == Pending()
    browser.go_on.set()
    assert await outcome_of([task]) == [CLICKED]
    assert await kit.engine.result("call-1") == CLICKED
    assert kit.last().result == CLICKED
    assert nothing_is_left(kit)


@pytest.mark.parametrize("is_first", [True, False])
async def test_an_outcome_that_comes_while_pending_is_written_is_not_lost(make_kit: MakeKit, is_first: bool) -> None:
    kit = make_kit()
    suspend = kit.ledger.suspend

    async def suspend_and_settle(record: CallRecord) -> None:
        if is_first:
            assert await kit.engine.settle(record.id, CLICKED) == Pending()
        await suspend(record)
        assert await kit.engine.settle(record.id, CLICKED) == (None if is_first else CLICKED)

    kit.ledger.suspend = suspend_and_settle  # type: ignore[method-assign]  # a ledger that takes a moment
    later(kit, expires_in=60.0)
    assert await kit.call("click", call_id="call-1") == (CLICKED if is_first else Pending(60.0))
    assert await kit.engine.result("call-1") == CLICKED
    assert nothing_is_left(kit)


async def test_a_call_that_expires_while_pending_is_written_has_expired(make_kit: MakeKit) -> None:
    kit = make_kit()
    slow = SlowSuspending(kit)
    later(kit, expires_in=0.001)
    task = kit.start("click", call_id="call-1")
    await soon(slow.begun)
    learning = asyncio.create_task(kit.engine.result("call-1"))
    record = await kit.ledger.find("call-1")
    assert isinstance(record, CallAtWork)
    await until(lambda: record.early is not None)
    slow.written.set()
    [result, learnt] = await outcome_of([task, learning])
    assert isinstance(result, Failure) and result.code == "timeout"
    assert learnt == result
    assert nothing_is_left(kit)


async def test_a_call_that_is_cancelled_while_pending_is_written_is_cancelled(make_kit: MakeKit) -> None:
    kit = make_kit()
    slow = SlowSuspending(kit)
    later(kit, expires_in=60.0)
    task = kit.start("click", call_id="call-1")
    await soon(slow.begun)
    learning = asyncio.create_task(kit.engine.result("call-1"))
    await asyncio.sleep(0)
    task.cancel()
    [cancelled, learnt] = await outcome_of([task, learning])
    assert isinstance(cancelled, asyncio.CancelledError)
    assert isinstance(learnt, Failure) and learnt.code == "cancelled"
    assert kit.last().result == learnt
    assert nothing_is_left(kit)


async def test_an_early_outcome_counts_even_when_pending_could_not_be_written(make_kit: MakeKit) -> None:
    kit = make_kit()

    async def settle_and_fail(record: CallRecord) -> None:
        if record.id == "call-2":
            await kit.engine.settle(record.id, CLICKED)
        raise StoreError("The disk is full.")

    kit.ledger.suspend = settle_and_fail  # type: ignore[method-assign]  # a disk without room
    later(kit)
    failure = await kit.failure("click", call_id="call-1")
    assert "The disk is full." in failure.message
    assert await kit.value("click", call_id="call-2") == "clicked"
    assert nothing_is_left(kit)


async def test_the_hooks_see_an_early_outcome_as_any_other(make_kit: MakeKit) -> None:
    class Louder:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: Any) -> Success:
            return Success(f"{result.value}!")

    kit = make_kit(hooks=Hooks([NamedHook("louder", Louder())]))
    browser = Browser(kit, Pending())
    task = kit.start("click", call_id="call-1")
    await soon(browser.asked)
    await kit.engine.settle("call-1", Success("clicked"))
    browser.go_on.set()
    [result] = await outcome_of([task])
    assert result.value == "clicked!"
    assert kit.last().true_result == CLICKED


# No two tasks wait for each other.


async def test_a_tool_may_bring_the_outcome_of_its_own_call(kit: EngineKit) -> None:
    async def click(ctx: ToolContext) -> Any:
        assert await kit.engine.settle(ctx.call_id, CLICKED) == Pending()
        return Pending()

    kit.add(click)
    assert await kit.call("click") == CLICKED
    assert nothing_is_left(kit)


async def test_a_tool_may_wait_for_whoever_brings_its_outcome(kit: EngineKit) -> None:
    async def click(ctx: ToolContext) -> Any:
        async with asyncio.timeout(WAIT):
            await asyncio.create_task(kit.engine.settle(ctx.call_id, CLICKED))
        return Pending()

    kit.add(click)
    assert await kit.call("click") == CLICKED


async def test_a_tool_on_a_thread_may_do_so_too(kit: EngineKit) -> None:
    loop = asyncio.get_running_loop()

    def settle(call_id: str) -> object:
        return asyncio.run_coroutine_threadsafe(kit.engine.settle(call_id, CLICKED), loop).result(WAIT)

    def click(ctx: ToolContext) -> Any:
        assert settle(ctx.call_id) == Pending()
        return Pending()

    kit.add(click)
    assert await kit.call("click") == CLICKED


@pytest.mark.parametrize("is_early", [True, False])
async def test_a_task_that_is_taken_down_leaves_nothing_behind(is_early: bool, make_kit: MakeKit) -> None:
    kit = make_kit()
    slow = SlowSuspending(kit)
    later(kit)
    way = kit.engine.call(ToolCall("click", {}, "call-1"), kit.caller())
    way.send(None)
    assert slow.begun.is_set()
    if is_early:
        assert await kit.engine.settle("call-1", CLICKED) == Pending()
    way.close()
    result = kit.last().result
    assert isinstance(result, Failure) and result.code == "cancelled"
    assert nothing_is_left(kit)
