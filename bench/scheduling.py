"""What schedules cost: a look that claims 100 of 10,000, and a gateway in which nothing is due (SPEC J1)."""

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.figures import Figure
from handspan.config.schedule_settings import ScheduleSettings
from handspan.core.schedule_times import next_time
from handspan.core.schedules import Claim, ClaimedRun, Cron, Every, Maker, Schedule, SchedulePlan
from handspan.gateway.one_node import OneNode
from handspan.gateway.schedules.scheduler import Scheduler
from handspan.store.sqlite.store import SqliteStore, sqlite_store
from handspan.store.tables.store import StoreOptions

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else ""
SCHEDULES = 10_000
DUE = 100
ROUNDS = 7
START = 1_795_000_000.0
IDLE_SECONDS = 3.0


class _Clock:
    now = START

    def __call__(self) -> float:
        return self.now


async def measure(folder: Path) -> Iterable[Figure]:
    """`schedule_claim`: CPU time of one look, the best of some; `schedule_idle`: statements while nothing is due.

    The database is in memory where there is room: what a commit takes is the disk's.
    """
    clock = _Clock()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY or folder) as place:
        async with sqlite_store(Path(place) / "scheduling", options=StoreOptions(clock)) as store:
            await _fill(store)
            best = min([await _claim(store, clock) for _ in range(ROUNDS)])
            idle = await _idle(store, folder)
    return [
        Figure("schedule_claim", best, "ms of CPU", target=20),
        Figure("schedule_idle", idle, "looks at the store", target=0),
    ]


async def _fill(store: SqliteStore) -> None:
    """Add schedules of many owners. In each minute, a hundred are due: half by cron, half at intervals."""
    for number in range(SCHEDULES):
        begin = START + 60 * (1 + number // DUE)
        when = Every(86400.0, begin - 86400) if number % 2 else Cron(_fields(begin), "Europe/Berlin")
        plan, maker = SchedulePlan(when, "Look whether all is well, and say so."), Maker(f"owner{number % 50}")
        await store.schedules.add(Schedule(f"{number:012x}", plan, maker, START, next_time(when, begin - 60)))


def _fields(at: float) -> str:
    moment = time.gmtime(at + 3600)  # Berlin, in winter
    return f"{moment.tm_min} {moment.tm_hour} * * *"


async def _claim(store: SqliteStore, clock: _Clock) -> float:
    """Milliseconds of CPU time in which those of the next minute are claimed."""
    clock.now += 60
    began = time.process_time()
    claim: Claim = await store.schedules.claim(DUE)
    took = time.process_time() - began
    assert len(claim.runs) == DUE, len(claim.runs)
    return took * 1000


async def _idle(store: SqliteStore, folder: Path) -> float:
    """How often a scheduler asks the store in some seconds in which nothing is due, after its start."""
    looks = 0
    book: Any = store.schedules
    claim, next_due = book.claim, book.next_due

    def counted(look: Any) -> Any:
        def call(*given: Any) -> Any:
            nonlocal looks
            looks += 1
            return look(*given)

        return call

    scheduler = Scheduler(store, _NoTurns(), OneNode(folder), ScheduleSettings())  # type: ignore[arg-type] # nothing is due
    await scheduler.open()
    book.claim, book.next_due = counted(claim), counted(next_due)
    await asyncio.sleep(IDLE_SECONDS)
    await scheduler.close()
    book.claim, book.next_due = claim, next_due
    return float(looks)


class _NoTurns:
    async def run(self, claimed: ClaimedRun) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
