"""Gates: how many calls may run at once (SPEC E3)."""

import asyncio
import threading

import pytest

from handspan.core.errors import ToolError
from handspan.core.function_tool import tool
from handspan.core.principals import BUILTIN, Origin
from handspan.core.tool import Annotations
from handspan.engine.gates import Gate, Gates
from handspan.registry.entry import Entry
from handspan.registry.registry import Registry
from tests.engine.engine_kit import outcome_of
from tests.waiting import until

pytestmark = pytest.mark.anyio


def entry(name: str = "gated", origin: Origin = BUILTIN, serial: bool = False) -> Entry:
    async def gated() -> None: ...

    made = tool(name=name, description="Gated.", annotations=Annotations(serial=serial))(gated)
    return Registry().register(made, origin)


async def test_one_who_waits_longer_than_its_patience_is_told_who_is_busy() -> None:
    gate = Gate(1, "builtin")
    assert gate.try_enter()
    with pytest.raises(ToolError) as caught:
        await gate.enter(0.01)
    assert caught.value.code == "busy"
    assert caught.value.message == "builtin is busy: no turn within 0.01 s (1 at once). Try again later."
    gate.leave()
    assert gate.inside == 0


async def test_nobody_goes_past_those_who_wait() -> None:
    gate = Gate(1, "builtin")
    assert gate.try_enter()
    waiting = asyncio.create_task(gate.enter(None))
    await asyncio.sleep(0)
    gate.leave()  # the turn is given to the one who waits, who has not woken up yet
    assert not gate.try_enter()
    await waiting
    gate.leave()
    assert gate.try_enter()
    gate.leave()


async def test_those_who_wait_go_in_in_the_order_they_came() -> None:
    gate = Gate(2, "builtin")
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await gate.enter(None)
        order.append(number)
        await asyncio.sleep(0)
        gate.leave()

    await outcome_of([asyncio.create_task(pass_through(number)) for number in range(10)])
    assert order == list(range(10))
    assert gate.inside == 0


async def test_one_who_gives_up_is_passed_over() -> None:
    gate = Gate(1, "builtin")
    assert gate.try_enter()
    first, second = (asyncio.create_task(gate.enter(None)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    gate.leave()
    await second
    assert (await outcome_of([first]))[0].__class__ is asyncio.CancelledError
    gate.leave()
    assert gate.inside == 0


async def test_one_who_gives_up_in_the_moment_somebody_leaves_is_only_cancelled() -> None:
    gate = Gate(1, "builtin")
    assert gate.try_enter()
    waiting = asyncio.create_task(gate.enter(None))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.leave()  # meets a turn that is cancelled, before the one who waited knows
    assert (await outcome_of([waiting]))[0].__class__ is asyncio.CancelledError
    assert gate.inside == 0


async def test_one_whose_turn_came_in_the_moment_it_was_cancelled_hands_it_on() -> None:
    gate = Gate(1, "builtin")
    assert gate.try_enter()
    first, second = (asyncio.create_task(gate.enter(None)) for _ in range(2))
    await asyncio.sleep(0)
    gate.leave()
    first.cancel()
    await second
    assert first.cancelled()
    gate.leave()
    assert gate.inside == 0


async def test_a_serial_tool_waits_before_the_gate_of_its_origin_and_takes_no_place_there() -> None:
    gates = Gates({"builtin": 2})
    slow = gates.gate(entry("slow", serial=True))
    other = gates.gate(entry("other"))
    await slow.enter(None)
    assert not slow.try_enter()  # one call at a time …
    assert other.try_enter()  # … and the place beside it is free
    assert not other.try_enter()
    other.leave()
    slow.leave()
    assert not gates.is_busy()


async def test_a_serial_tool_that_finds_its_origin_full_keeps_no_turn() -> None:
    gates = Gates({"builtin": 1})
    serial, other = gates.gate(entry("slow", serial=True)), gates.gate(entry("other"))
    assert other.try_enter()
    assert not serial.try_enter()
    with pytest.raises(ToolError, match=r"builtin is busy: no turn within 0\.0\d+ s"):
        await serial.enter(0.02)
    assert serial.inside == 0
    other.leave()
    await serial.enter(None)
    serial.leave()
    assert serial.inside == other.inside == 0


async def test_the_patience_counts_once_for_both_gates() -> None:
    gates = Gates({"builtin": 1})
    serial, other = gates.gate(entry("slow", serial=True)), gates.gate(entry("other"))
    await serial.enter(None)
    waiting = asyncio.create_task(serial.enter(0.0))
    [error] = await outcome_of([waiting])
    assert isinstance(error, ToolError)
    assert "'slow', which runs one call at a time, is busy" in error.message
    serial.leave()
    assert other.inside == 0


async def test_each_origin_has_its_own_gate_and_capacity() -> None:
    gates = Gates({"remote": 1})
    phone, tablet = Origin("remote", "s", "phone"), Origin("remote", "s", "tablet")
    one, two = gates.gate(entry("one", phone)), gates.gate(entry("two", tablet))
    assert gates.gate(entry("three", phone)) is one
    assert one is not two
    assert (one.capacity, gates.gate(entry()).capacity) == (1, 64)


async def test_is_busy_may_be_asked_from_another_thread_while_origins_come_and_go() -> None:
    gates = Gates()
    stop, answers = threading.Event(), list[bool]()

    def ask() -> None:
        while not stop.is_set():
            answers.append(gates.is_busy())

    thread = threading.Thread(target=ask)
    thread.start()
    kept = [gates.gate(entry("tool", Origin("device", str(number)))) for number in range(300)]
    await until(lambda: answers)
    stop.set()
    thread.join()
    assert not any(answers)
    assert kept[0].try_enter()
    assert gates.is_busy()
    kept[0].leave()
