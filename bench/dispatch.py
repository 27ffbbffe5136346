"""One call through the whole engine against the floor, and many side by side."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from bench.bare import bare_call
from bench.figures import Figure, best_cpu
from bench.house import House, floor_suspending, nap
from handspan.core.calls import ToolCall, new_call_id

PARALLEL = 32


async def measure(folder: Path) -> Iterable[Figure]:
    """`dispatch`, `dispatch_bare`, `dispatch_suspending`, `parallel_32`."""
    house = House(folder)
    assert await house.call("add") == b'{"status":"success","result":5}'

    async def ours() -> bytes:
        return await house.call("add")

    async def ours_suspending() -> bytes:
        return await house.call("add_later")

    took = await best_cpu(
        {
            "floor": bare_call,
            "ours": ours,
            "bare": house.bare,
            "floor2": floor_suspending,
            "ours2": ours_suspending,
        }
    )
    return [
        Figure("dispatch", took["ours"] / took["floor"], "x floor", target=3.4, line=4),
        Figure("dispatch_us", took["ours"], "us CPU"),
        Figure("dispatch_bare", took["bare"] / took["floor"], "x floor, JSON in and out only", target=2.5),
        Figure("dispatch_suspending", took["ours2"] / took["floor2"], "x floor", target=3, line=5),
        Figure("parallel_32", await _parallel(house), "x floor", target=1.05),
    ]


async def _parallel(house: House) -> float:
    """Wall time of 32 naps side by side through the engine, against 32 bare ones; best of five each."""
    best_floor = best_ours = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        await asyncio.gather(*(nap() for _ in range(PARALLEL)))
        best_floor = min(best_floor, time.perf_counter() - began)
        calls = [ToolCall("nap", b"{}", new_call_id()) for _ in range(PARALLEL)]
        began = time.perf_counter()
        await asyncio.gather(*(house.engine.call(call, house.caller) for call in calls))
        best_ours = min(best_ours, time.perf_counter() - began)
    return best_ours / best_floor
