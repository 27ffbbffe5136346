"""Calls whose outcome comes later, through `settle` (SPEC E2)."""

import asyncio
from typing import Any

import pytest

from handspan.core.context import ToolContext
from handspan.core.results import Attachment, Failure, Pending, Success, succeed
from handspan.engine.engine import Engine
from handspan.engine.hooks import HookedCall, Hooks, NamedHook
from tests.engine.conftest import MakeHouse
from tests.engine.house import House, outcome_of, soon
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio


def later(house: House, expires_in: float | None = None) -> House:
    """The same house with a tool `later` that answers `Pending`."""

    async def later(ctx: ToolContext) -> Any:
        return Pending(expires_in)

    house.add(later)
    return house


async def test_an_outcome_for_a_call_that_nobody_knows_is_refused(house: House) -> None:
    assert await house.engine.settle("call-1", succeed(1)) is None


async def test_an_outcome_for_a_call_that_is_done_is_refused(house: House) -> None:
    async def quick() -> str:
        return "mine"

    house.add(quick)
    result = await house.call("quick", call_id="call-1")
    assert await house.engine.settle("call-1", succeed("forged")) is None
    assert house.last().result == result


async def test_a_pending_call_is_open_until_it_is_settled_and_then_done_for_ever(house: House) -> None:
    later(house)
    assert await house.call("later", call_id="call-1") == Pending()
    [record] = house.ledger.open_calls()
    assert (record.state, record.expires_at, house.journal()) == ("pending", None, [])

    first = await house.engine.settle("call-1", Success({"picture": 1}))
    assert isinstance(first, Success) and first.encoded == b'{"status":"success","result":{"picture":1}}'
    assert await house.engine.settle("call-1", succeed("second")) is None
    assert await house.engine.settle("call-1", Failure("timeout", "late")) is None
    assert house.last().result == first
    assert list(house.ledger.open_calls()) == []


async def test_a_failure_may_be_the_outcome(house: House) -> None:
    later(house)
    await house.call("later", call_id="call-1")
    failure = Failure("disconnected", "The browser has gone.")
    assert await house.engine.settle("call-1", failure) == failure
    assert house.last().result == failure


async def test_an_outcome_that_can_not_be_written_as_json_is_a_failure(house: House) -> None:
    later(house)
    await house.call("later", call_id="call-1")
    value: Any = object()
    result = await house.engine.settle("call-1", Success(value))
    assert isinstance(result, Failure) and "can't be written as JSON" in result.message


async def test_a_huge_outcome_is_cut_and_kept(house: House) -> None:
    later(house)
    await house.call("later", call_id="call-1")
    result = await house.engine.settle("call-1", Success("x" * 100_000, (Attachment("image", "image/png"),)))
    assert isinstance(result, Success) and isinstance(result.value, dict)
    assert result.value["bytes"] == 100_000
    assert len(result.attachments) == 1


async def test_whoever_waits_for_the_result_gets_it_and_so_does_whoever_comes_later(house: House) -> None:
    later(house)
    await house.call("later", call_id="call-1")
    waiting = [asyncio.create_task(house.engine.result("call-1")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # one who gives up takes nothing from the others
    await asyncio.sleep(0)
    result = await house.engine.settle("call-1", succeed(7))
    assert (await outcome_of(waiting))[1:] == [result, result]
    assert await house.engine.result("call-1") == result
    assert await house.engine.result("call-2") is None


async def test_two_outcomes_at_once_leave_one_result_and_its_own_true_one(make_house: MakeHouse) -> None:
    class Slow:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: Any) -> Success:
            await asyncio.sleep(0.001)
            return Success(f"hooked {result.value}")

    house = later(make_house(hooks=Hooks([NamedHook("slow", Slow())])))
    await house.call("later", call_id="call-1")
    results = await asyncio.gather(*(house.engine.settle("call-1", succeed(number)) for number in range(3)))
    [winner] = [result for result in results if result is not None]
    record = house.last()
    assert record.result == winner
    assert isinstance(winner, Success) and isinstance(record.true_result, Success)
    assert winner.value == f"hooked {record.true_result.value}"
    assert record.size == len(winner.encoded) + len(record.true_result.encoded)


async def test_who_settles_may_give_up_and_the_call_has_its_result_all_the_same(make_house: MakeHouse) -> None:
    asked = asyncio.Event()

    class Slow:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    house = later(make_house(hooks=Hooks([NamedHook("slow", Slow())])))
    await house.call("later", call_id="call-1")
    waiting = asyncio.create_task(house.engine.result("call-1"))
    settling = asyncio.create_task(house.engine.settle("call-1", succeed(1)))
    await soon(asked)
    settling.cancel()
    [given_up, result] = await outcome_of([settling, waiting])
    assert isinstance(given_up, asyncio.CancelledError)
    assert isinstance(result, Failure) and result.code == "cancelled"
    assert (house.last().result, house.last().true_result) == (result, succeed(1))


async def test_a_pending_call_that_nobody_settles_expires(house: House) -> None:
    later(house, expires_in=0.01)
    assert await house.call("later", call_id="call-1") == Pending(0.01)
    [record] = house.ledger.open_calls()
    assert record.expires_at is not None and record.expires_at > record.at
    async with asyncio.timeout(WAIT):
        result = await house.engine.result("call-1")
    assert result == Failure("timeout", "No outcome came within 0.01 s: the call does not wait any longer.")
    assert house.last().result == result
    assert await house.engine.settle("call-1", succeed("late")) is None


async def test_a_settled_call_does_not_expire(house: House) -> None:
    later(house, expires_in=0.01)
    await house.call("later", call_id="call-1")
    await house.engine.settle("call-1", succeed("in time"))
    await asyncio.sleep(0.02)  # longer than it would have taken to expire
    assert isinstance(house.last().result, Success)


async def test_closing_leaves_pending_calls_open_and_stops_their_clocks(house: House) -> None:
    later(house, expires_in=0.01)
    await house.call("later", call_id="call-1")
    waiting = asyncio.create_task(house.engine.result("call-1"))
    await asyncio.sleep(0)
    await house.engine.close()
    assert isinstance((await outcome_of([waiting]))[0], asyncio.CancelledError)
    await asyncio.sleep(0.02)  # longer than it would have taken to expire
    assert [record.state for record in house.ledger.open_calls()] == ["pending"]


async def test_another_engine_with_the_same_ledger_settles_what_this_one_left(house: House) -> None:
    later(house)
    await house.call("later", call_id="call-1")
    await house.engine.close()
    other = Engine(house.artifacts, house.engine.runner._workspace, ledger=house.ledger)
    result = await other.settle("call-1", succeed("after the restart"))
    assert isinstance(result, Success) and result.value == "after the restart"
    assert house.last().result == result
    assert house.last().duration >= 0
    await other.close()


async def test_a_plain_function_on_a_thread_may_answer_pending_too(house: House) -> None:
    def ask_a_browser() -> Any:
        return Pending()

    house.add(ask_a_browser)
    assert await house.call("ask_a_browser", call_id="call-1") == Pending()
    assert await house.engine.settle("call-1", succeed(1)) is not None


async def test_the_gate_is_free_while_a_call_is_pending(house: House) -> None:
    later(house)
    await house.call("later")
    assert not house.engine.watchdog._is_busy()
