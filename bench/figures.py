"""What a figure is, and how time is taken: best CPU time of short slices, floor and ours by turns."""

import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Struct

Case: TypeAlias = Callable[[], Awaitable[Any]]

ROUNDS = 25
SLICE_S = 0.03


class Figure(Struct, frozen=True):
    """One measured value beside what we want (`target`) and what we must not miss (`line`)."""

    name: str
    value: float
    unit: str
    target: float | None = None
    line: float | None = None
    more_is_better: bool = False
    peers: dict[str, float] = {}
    """The same measure for others, where this run took it."""


def misses(figure: Figure) -> bool:
    """Whether the figure is not what we want."""
    if figure.target is None:
        return False
    return figure.value < figure.target if figure.more_is_better else figure.value > figure.target


async def best_cpu(cases: dict[str, Case], rounds: int = ROUNDS) -> dict[str, float]:
    """Microseconds of CPU for one call of each case. The cases take turns, so that a busy machine hits all alike."""
    counts = {name: await _slice_length(case) for name, case in cases.items()}
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, case in cases.items():
            gc.collect()
            best[name] = min(best[name], await _cpu_of(case, counts[name]))
    return {name: seconds * 1e6 for name, seconds in best.items()}


async def _slice_length(case: Case) -> int:
    count = 1
    while True:
        seconds = await _cpu_of(case, count)
        if seconds * count > SLICE_S / 4 or count > 1_000_000:
            return max(1, int(SLICE_S / max(seconds, 1e-9)))
        count *= 3


async def _cpu_of(case: Case, count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        await case()
    return (time.process_time() - began) / count
