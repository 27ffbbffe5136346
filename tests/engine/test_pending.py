"""Calls whose outcome comes later, through `settle` (SPEC E2)."""

import asyncio
from typing import Any

import pytest

from handspan.core.context import ToolContext
from handspan.core.results import Attachment, Failure, Pending, Success, succeed
from handspan.engine.engine import Engine
from handspan.engine.hooks import HookedCall, Hooks, NamedHook
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of, soon
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio


def later(kit: EngineKit, expires_in: float | None = None) -> EngineKit:
    """The same kit with a tool `later` that answers `Pending`."""

    async def later(ctx: ToolContext) -> Any:
        return Pending(expires_in)

    kit.add(later)
    return kit


async def test_an_outcome_for_a_call_that_nobody_knows_is_refused(kit: EngineKit) -> None:
    assert await kit.engine.settle("call-1", succeed(1)) is None


async def test_an_outcome_for_a_call_that_is_done_is_refused(kit: EngineKit) -> None:
    async def quick() -> str:
        return "mine"

    kit.add(quick)
    result = await kit.call("quick", call_id="call-1")
    assert await kit.engine.settle("call-1", succeed("forged")) is None
    assert kit.last().result == result


async def test_a_pending_call_is_open_until_it_is_settled_and_then_done_for_ever(kit: EngineKit) -> None:
    later(kit)
    assert await kit.call("later", call_id="call-1") == Pending()
    [record] = kit.ledger.open_calls()
    assert (record.state, record.expires_at, kit.journal()) == ("pending", None, [])

    first = await kit.engine.settle("call-1", Success({"picture": 1}))
    assert isinstance(first, Success) and first.encoded == b'{"status":"success","result":{"picture":1}}'
    assert await kit.engine.settle("call-1", succeed("second")) is None
    assert await kit.engine.settle("call-1", Failure("timeout", "late")) is None
    assert kit.last().result == first
    assert list(kit.ledger.open_calls()) == []


async def test_a_call_begins_and_expires_by_the_clock_of_the_ledger(
    kit: EngineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit.ledger, "now", lambda: 1000.0)  # as the database's clock, beside a node whose own is wrong
    later(kit, 20.0)
    await kit.call("later", call_id="call-1")
    [record] = kit.ledger.open_calls()
    assert (record.at, record.expires_at) == (1000.0, 1020.0)


async def test_a_failure_may_be_the_outcome(kit: EngineKit) -> None:
    later(kit)
    await kit.call("later", call_id="call-1")
    failure = Failure("disconnected", "The browser has gone.")
    assert await kit.engine.settle("call-1", failure) == failure
    assert kit.last().result == failure


async def test_an_outcome_that_can_not_be_written_as_json_is_a_failure(kit: EngineKit) -> None:
    later(kit)
    await kit.call("later", call_id="call-1")
    value: Any = object()
    result = await kit.engine.settle("call-1", Success(value))
    assert isinstance(result, Failure) and "can't be written as JSON" in result.message


async def test_a_huge_outcome_is_cut_and_kept(kit: EngineKit) -> None:
    later(kit)
    await kit.call("later", call_id="call-1")
    result = await kit.engine.settle("call-1", Success("x" * 100_000, (Attachment("image", "image/png"),)))
    assert isinstance(result, Success) and "of 100000 bytes left out" in str(result.value)
    assert len(result.attachments) == 1


async def test_whoever_waits_for_the_result_gets_it_and_so_does_whoever_comes_later(kit: EngineKit) -> None:
    later(kit)
    await kit.call("later", call_id="call-1")
    waiting = [asyncio.create_task(kit.engine.result("call-1")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # one who gives up takes nothing from the others
    await asyncio.sleep(0)
    result = await kit.engine.settle("call-1", succeed(7))
    assert (await outcome_of(waiting))[1:] == [result, result]
    assert await kit.engine.result("call-1") == result
    assert await kit.engine.result("call-2") is None


async def test_two_outcomes_at_once_leave_one_result_and_its_own_true_one(make_kit: MakeKit) -> None:
    class Slow:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: Any) -> Success:
            await asyncio.sleep(0.001)
            return Success(f"hooked {result.value}")

    kit = later(make_kit(hooks=Hooks([NamedHook("slow", Slow())])))
    await kit.call("later", call_id="call-1")
    results = await asyncio.gather(*(kit.engine.settle("call-1", succeed(number)) for number in range(3)))
    [winner] = [result for result in results if result is not None]
    record = kit.last()
    assert record.result == winner
    assert isinstance(winner, Success) and isinstance(record.true_result, Success)
    assert winner.value == f"hooked {record.true_result.value}"
    assert record.size == len(winner.encoded) + len(record.true_result.encoded)


async def test_who_settles_may_give_up_and_the_call_has_its_result_all_the_same(make_kit: MakeKit) -> None:
    asked = asyncio.Event()

    class Slow:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    kit = later(make_kit(hooks=Hooks([NamedHook("slow", Slow())])))
    await kit.call("later", call_id="call-1")
    waiting = asyncio.create_task(kit.engine.result("call-1"))
    settling = asyncio.create_task(kit.engine.settle("call-1", succeed(1)))
    await soon(asked)
    settling.cancel()
    [given_up, result] = await outcome_of([settling, waiting])
    assert isinstance(given_up, asyncio.CancelledError)
    assert isinstance(result, Failure) and result.code == "cancelled"
    assert (kit.last().result, kit.last().true_result) == (result, succeed(1))


async def test_a_pending_call_that_nobody_settles_expires(kit: EngineKit) -> None:
    later(kit, expires_in=0.01)
    assert await kit.call("later", call_id="call-1") == Pending(0.01)
    [record] = kit.ledger.open_calls()
    assert record.expires_at is not None and record.expires_at > record.at
    async with asyncio.timeout(WAIT):
        result = await kit.engine.result("call-1")
    assert result == Failure("timeout", "No outcome came within 0.01 s: the call does not wait any longer.")
    assert kit.last().result == result
    assert await kit.engine.settle("call-1", succeed("late")) is None


async def test_a_settled_call_does_not_expire(kit: EngineKit) -> None:
    later(kit, expires_in=0.01)
    await kit.call("later", call_id="call-1")
    await kit.engine.settle("call-1", succeed("in time"))
    await asyncio.sleep(0.02)  # longer than it would have taken to expire
    assert isinstance(kit.last().result, Success)


async def test_closing_leaves_pending_calls_open_and_stops_their_clocks(kit: EngineKit) -> None:
    later(kit, expires_in=0.01)
    await kit.call("later", call_id="call-1")
    waiting = asyncio.create_task(kit.engine.result("call-1"))
    await asyncio.sleep(0)
    await kit.engine.close()
    assert isinstance((await outcome_of([waiting]))[0], asyncio.CancelledError)
    await asyncio.sleep(0.02)  # longer than it would have taken to expire
    assert [record.state for record in kit.ledger.open_calls()] == ["pending"]


async def test_another_engine_with_the_same_ledger_settles_what_this_one_left(kit: EngineKit) -> None:
    later(kit)
    await kit.call("later", call_id="call-1")
    await kit.engine.close()
    other = Engine(kit.artifacts, kit.engine.runner._workspace, ledger=kit.ledger)
    result = await other.settle("call-1", succeed("after the restart"))
    assert isinstance(result, Success) and result.value == "after the restart"
    assert kit.last().result == result
    assert kit.last().duration >= 0
    await other.close()


async def test_a_plain_function_on_a_thread_may_answer_pending_too(kit: EngineKit) -> None:
    def ask_a_browser() -> Any:
        return Pending()

    kit.add(ask_a_browser)
    assert await kit.call("ask_a_browser", call_id="call-1") == Pending()
    assert await kit.engine.settle("call-1", succeed(1)) is not None


async def test_the_gate_is_free_while_a_call_is_pending(kit: EngineKit) -> None:
    later(kit)
    await kit.call("later")
    assert not kit.engine.watchdog._is_busy()
