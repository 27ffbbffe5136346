"""How many calls may run at once: slots of each origin, and one slot for a serial tool (SPEC E3)."""

import asyncio
import threading

import pytest

from handspan.core.errors import ToolError
from handspan.core.function_tool import tool
from handspan.core.principals import BUILTIN, Origin
from handspan.core.tool import Annotations
from handspan.engine.concurrency import Slots, SlotsByOrigin
from handspan.registry.entry import Entry
from handspan.registry.registry import Registry
from tests.engine.engine_kit import outcome_of
from tests.waiting import until

pytestmark = pytest.mark.anyio


def entry(name: str = "gated", origin: Origin = BUILTIN, serial: bool = False) -> Entry:
    async def gated() -> None: ...

    made = tool(name=name, description="Gated.", annotations=Annotations(serial=serial))(gated)
    return Registry().register(made, origin)


async def test_one_who_waits_longer_than_its_timeout_is_told_who_is_busy() -> None:
    slots = Slots(1, "builtin")
    assert slots.try_take()
    with pytest.raises(ToolError) as caught:
        await slots.take(0.01)
    assert caught.value.code == "busy"
    assert caught.value.message == "builtin is busy: no turn within 0.01 s (1 at once). Try again later."
    slots.release()
    assert slots.taken == 0


async def test_nobody_goes_past_those_who_wait() -> None:
    slots = Slots(1, "builtin")
    assert slots.try_take()
    waiting = asyncio.create_task(slots.take(None))
    await asyncio.sleep(0)
    slots.release()  # the turn is given to the one who waits, who has not woken up yet
    assert not slots.try_take()
    await waiting
    slots.release()
    assert slots.try_take()
    slots.release()


async def test_those_who_wait_go_in_in_the_order_they_came() -> None:
    slots = Slots(2, "builtin")
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await slots.take(None)
        order.append(number)
        await asyncio.sleep(0)
        slots.release()

    await outcome_of([asyncio.create_task(pass_through(number)) for number in range(10)])
    assert order == list(range(10))
    assert slots.taken == 0


async def test_one_who_gives_up_is_passed_over() -> None:
    slots = Slots(1, "builtin")
    assert slots.try_take()
    first, second = (asyncio.create_task(slots.take(None)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    slots.release()
    await second
    assert (await outcome_of([first]))[0].__class__ is asyncio.CancelledError
    slots.release()
    assert slots.taken == 0


async def test_one_who_gives_up_in_the_moment_somebody_leaves_is_only_cancelled() -> None:
    slots = Slots(1, "builtin")
    assert slots.try_take()
    waiting = asyncio.create_task(slots.take(None))
    await asyncio.sleep(0)
    waiting.cancel()
    slots.release()  # meets a turn that is cancelled, before the one who waited knows
    assert (await outcome_of([waiting]))[0].__class__ is asyncio.CancelledError
    assert slots.taken == 0


async def test_one_whose_turn_came_in_the_moment_it_was_cancelled_hands_it_on() -> None:
    slots = Slots(1, "builtin")
    assert slots.try_take()
    first, second = (asyncio.create_task(slots.take(None)) for _ in range(2))
    await asyncio.sleep(0)
    slots.release()
    first.cancel()
    await second
    assert first.cancelled()
    slots.release()
    assert slots.taken == 0


async def test_a_serial_tool_waits_before_the_gate_of_its_origin_and_takes_no_place_there() -> None:
    slots = SlotsByOrigin({"builtin": 2})
    slow = slots.of_tool(entry("slow", serial=True))
    other = slots.of_tool(entry("other"))
    await slow.take(None)
    assert not slow.try_take()  # one call at a time …
    assert other.try_take()  # … and the other slot of the origin is free
    assert not other.try_take()
    other.release()
    slow.release()
    assert not slots.is_busy()


async def test_a_serial_tool_that_finds_its_origin_full_keeps_no_turn() -> None:
    slots = SlotsByOrigin({"builtin": 1})
    serial, other = slots.of_tool(entry("slow", serial=True)), slots.of_tool(entry("other"))
    assert other.try_take()
    assert not serial.try_take()
    with pytest.raises(ToolError, match=r"builtin is busy: no turn within 0\.0\d+ s"):
        await serial.take(0.02)
    assert serial.taken == 0
    other.release()
    await serial.take(None)
    serial.release()
    assert serial.taken == other.taken == 0


async def test_the_timeout_counts_once_for_both_gates() -> None:
    slots = SlotsByOrigin({"builtin": 1})
    serial, other = slots.of_tool(entry("slow", serial=True)), slots.of_tool(entry("other"))
    await serial.take(None)
    waiting = asyncio.create_task(serial.take(0.0))
    [error] = await outcome_of([waiting])
    assert isinstance(error, ToolError)
    assert "'slow', which runs one call at a time, is busy" in error.message
    serial.release()
    assert other.taken == 0


async def test_each_origin_has_its_own_gate_and_capacity() -> None:
    slots = SlotsByOrigin({"remote": 1})
    phone, tablet = Origin("remote", "s", "phone"), Origin("remote", "s", "tablet")
    one, two = slots.of_tool(entry("one", phone)), slots.of_tool(entry("two", tablet))
    assert slots.of_tool(entry("three", phone)) is one
    assert one is not two
    assert (one.capacity, slots.of_tool(entry()).capacity) == (1, 64)


async def test_is_busy_may_be_asked_from_another_thread_while_origins_come_and_go() -> None:
    slots = SlotsByOrigin()
    stop, answers = threading.Event(), list[bool]()

    def ask() -> None:
        while not stop.is_set():
            answers.append(slots.is_busy())

    thread = threading.Thread(target=ask)
    thread.start()
    kept = [slots.of_tool(entry("tool", Origin("device", str(number)))) for number in range(300)]
    await until(lambda: answers)
    stop.set()
    thread.join()
    assert not any(answers)
    assert kept[0].try_take()
    assert slots.is_busy()
    kept[0].release()
