"""The timers of calls."""

import asyncio

import pytest

from handspan.client.timers import CallTimers

pytestmark = pytest.mark.anyio

FAR = 1000.0


class ExpiredIds:
    """Whose time is up, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.timers = CallTimers(self._ring)
        self._news = asyncio.Event()
        self.then_clear = ""

    def _ring(self, call_id: str) -> None:
        self.calls.append(call_id)
        self.timers.clear(self.then_clear)
        self._news.set()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(60):
            while len(self.calls) < count:
                self._news.clear()
                await self._news.wait()
        return self.calls


async def test_the_sooner_ones_ring_first_whenever_they_were_set() -> None:
    rung = ExpiredIds()
    rung.timers.set("far", FAR)
    rung.timers.set("second", 0.02)
    rung.timers.set("first", 0.01)
    assert await rung.until(2) == ["first", "second"]
    rung.timers.close()


async def test_what_is_cleared_or_set_anew_does_not_ring() -> None:
    rung = ExpiredIds()
    rung.timers.set("cleared", 0.001)
    rung.timers.set("moved", 0.001)
    rung.timers.set("last", 0.02)
    rung.timers.clear("cleared")
    rung.timers.clear("never set")
    rung.timers.set("moved", FAR)
    assert await rung.until(1) == ["last"]
    assert rung.timers.ends_at("moved") is not None
    assert rung.timers.ends_at("last") is None
    rung.timers.close()
    assert rung.timers.ends_at("moved") is None


async def test_one_that_ends_by_what_another_ones_end_caused_does_not_ring() -> None:
    rung = ExpiredIds()
    rung.then_clear = "b"
    rung.timers.set("a", 0.001)
    rung.timers.set("b", 0.001)
    rung.timers.set("c", 0.02)
    assert await rung.until(2) == ["a", "c"]
    rung.timers.close()
