"""The alarm: one timer for all who wait (SPEC E5)."""

import asyncio

import pytest

from handspan.engine.alarm import Alarm
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio


@pytest.fixture
def alarm() -> Alarm:
    return Alarm()


class Sleeper:
    """Notes when it was woken."""

    def __init__(self, seconds: float, woken: "list[Sleeper]") -> None:
        self.loop = asyncio.get_running_loop()
        self.ends_at = self.loop.time() + seconds
        self.is_up = asyncio.Event()
        self._woken = woken

    def expire(self) -> None:
        self._woken.append(self)
        self.is_up.set()


async def woken(*sleepers: Sleeper) -> None:
    async with asyncio.timeout(WAIT):
        for sleeper in sleepers:
            await sleeper.is_up.wait()


def timers() -> int:
    loop = asyncio.get_running_loop()
    return sum(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]  # the only way to see


async def test_each_is_woken_at_its_own_time_whoever_came_first(alarm: Alarm) -> None:
    order = list[Sleeper]()
    late, early, middle = (Sleeper(seconds, order) for seconds in (0.6, 0.2, 0.4))
    for sleeper in (late, early, middle):
        alarm.add(sleeper)
    await woken(late, early, middle)
    assert order == [early, middle, late]
    assert all(sleeper.loop.time() >= sleeper.ends_at - 0.001 for sleeper in order)


async def test_who_has_gone_is_not_woken_and_the_others_are(alarm: Alarm) -> None:
    order = list[Sleeper]()
    gone, here = Sleeper(0.005, order), Sleeper(0.01, order)
    alarm.add(gone)
    alarm.add(here)
    alarm.remove(gone)
    alarm.remove(gone)
    await woken(here)
    assert order == [here]


async def test_any_number_of_sleepers_has_one_timer(alarm: Alarm) -> None:
    before = timers()
    sleepers = [Sleeper(60 - number / 10, []) for number in range(100)]
    for sleeper in sleepers:
        alarm.add(sleeper)
    assert timers() == before + 1
    alarm.close()
    alarm.close()
    assert timers() == before


async def test_when_the_last_was_woken_no_timer_is_left(alarm: Alarm) -> None:
    before = timers()
    sleeper = Sleeper(0.001, [])
    alarm.add(sleeper)
    await woken(sleeper)
    assert timers() == before


async def test_after_it_was_closed_it_can_be_used_again(alarm: Alarm) -> None:
    alarm.add(Sleeper(0.001, []))
    alarm.close()
    sleeper = Sleeper(0.002, [])
    alarm.add(sleeper)
    await woken(sleeper)


def test_in_a_new_event_loop_it_begins_anew(alarm: Alarm) -> None:
    order = list[Sleeper]()

    async def leave() -> None:
        alarm.add(Sleeper(0.001, order))

    async def stay() -> None:
        sleeper = Sleeper(0.05, order)
        alarm.add(sleeper)
        await woken(sleeper)
        assert order == [sleeper]

    asyncio.run(leave())
    order.clear()  # a slow machine may have woken it in its own loop
    asyncio.run(stay())
