"""How time is taken inside a peer's environment: as `bench/figures.py` does it, with nothing but Python."""

import gc
import logging
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

Case: TypeAlias = Callable[[], Awaitable[Any]]


class Slice(NamedTuple):
    """A case, and how often it runs between two looks at the clock."""

    case: Case
    times: int


async def best_cpu(slices: dict[str, Slice], turns: int) -> dict[str, float]:
    """Seconds of CPU for one run of each case, the best slice of so many turns. The cases take turns."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    best = dict.fromkeys(slices, float("inf"))
    for _ in range(turns):
        for name, (case, times) in slices.items():
            gc.collect()
            began = time.process_time()
            for _ in range(times):
                await case()
            best[name] = min(best[name], (time.process_time() - began) / times)
    return best
