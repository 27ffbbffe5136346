"""What floods cost the others: a good call's p99 beside each of them, and the memory that is kept a minute after.

A flood is a process of its own (`tests/chaos/flooder.py`), and so is the gateway. `make chaos` prints all details.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.flooder import KINDS
from tests.chaos.floods import beside_floods

from bench.figures import Figure

SECONDS = 4.0
SETTLING = 60.0


async def measure(folder: Path) -> Iterable[Figure]:
    """`flood_p99` of the worst flood, as a ratio to calm, and `flood_memory_mb`."""
    async with beside_floods(folder / "flooding") as beside:
        calm = await beside.calm(SECONDS)
        reports = [await beside.flood(kind, SECONDS, 0.0) for kind in KINDS]
        await asyncio.sleep(SETTLING)
        settled = await beside.calm(1.0)
    assert not any(report.lost for report in reports), [report.lost[:1] for report in reports]
    worst = max(report.p99 for report in reports)
    kept = settled.memory_before - calm.memory_before
    return [
        Figure("flood_p99", worst / calm.p99, "x calm, the worst flood", target=10),
        Figure("flood_memory_mb", kept, "MB kept a minute after", target=32),
    ]
