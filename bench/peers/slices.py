"""How time is taken inside a peer's environment: as `bench/figures.py` does it, with nothing but Python."""

import gc
import logging
import os
import subprocess
import sys
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


def best_start(programs: dict[str, str], tries: int) -> dict[str, float]:
    """Seconds of each program in a new process, the best of so many tries. The programs take turns."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(tries):
        for name, program in programs.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, env=environment)
            best[name] = min(best[name], time.perf_counter() - began)
    return best
