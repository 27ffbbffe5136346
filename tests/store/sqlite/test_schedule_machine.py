"""Each due time runs once or is told as missed, never twice (SPEC J1): a state machine plays kills and clocks."""

import asyncio
import tempfile
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from handspan.core.schedule_times import next_time
from handspan.core.schedules import At, ClaimedRun, Cron, Every, Maker, Schedule, SchedulePlan, When
from handspan.core.store import Store
from tests.store.things import Clock
from tests.stores import open_store
from tests.thoroughness import examples

START: Final = Clock().now
NAMES: Final = ("often", "daily", "once")
WHENS: Final[dict[str, When]] = {
    "often": Every(600.0, START),
    "daily": Cron("30 2 * * *", "Europe/Berlin"),
    "once": At(START + 5000),
}
STEPS: Final = st.sampled_from([1.0, 599.0, 600.0, 3600.0, 90_000.0, 365 * 86400.0, -3600.0, -365 * 86400.0])


FOLDER: Final[ContextVar[Path]] = ContextVar("folder")


class ScheduleMachine(RuleBasedStateMachine):
    """Plays two processes on one store, and kills them."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(dir=FOLDER.get())
        self.clock = Clock()
        self.stores: list[Store] = []
        self.begun: list[tuple[str, float]] = []
        """What was claimed to be run."""
        self.open: list[tuple[int, ClaimedRun]] = []
        """Which process runs what."""

    def start(self) -> Store:
        store = open_store(Path(self.folder.name) / "state", clock=self.clock)
        self.runner.run(store.open())
        return store

    @initialize(catch_up=st.sampled_from([0.0, 7200.0, 86400.0]))
    def begin(self, catch_up: float) -> None:
        self.stores = [self.start(), self.start()]
        for name in NAMES:
            plan = SchedulePlan(WHENS[name], f"Do {name}.", catch_up=catch_up)
            due = next_time(WHENS[name], START)
            self.runner.run(self.stores[0].schedules.add(Schedule(name, plan, Maker("ann"), START, due)))

    @rule(seconds=STEPS)
    def step_clock(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(process=st.integers(0, 1), limit=st.integers(1, 3))
    def claim(self, process: int, limit: int) -> None:
        claim = self.runner.run(self.stores[process].schedules.claim(limit))
        for one in claim.runs:
            self.begun.append((one.schedule.id, one.run.due))
            self.open.append((process, one))

    @rule()
    def claim_at_once(self) -> None:
        async def both() -> None:
            claims = await asyncio.gather(*(store.schedules.claim(3) for store in self.stores))
            for process, claim in enumerate(claims):
                self.begun += [(one.schedule.id, one.run.due) for one in claim.runs]
                self.open += [(process, one) for one in claim.runs]

        self.runner.run(both())

    @rule(name=st.sampled_from(NAMES))
    def run_now(self, name: str) -> None:
        self.runner.run(self.stores[0].schedules.make_due(name, owner="ann"))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(["done", "error", "aborted"]))
    def end(self, data: st.DataObject, how: str) -> None:
        process, one = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        book = self.stores[process].schedules
        assert self.runner.run(book.end_run(one.run, how, "Well.", delivers=False)) is not None  # type: ignore[arg-type] # drawn above

    @rule(process=st.integers(0, 1))
    def kill(self, process: int) -> None:
        """A process dies and another takes its place; the runs of the dead one go to whichever recovers first."""
        self.runner.run(self.stores[process].close())
        lost = {(one.schedule.id, one.run.due) for holder, one in self.open if holder == process}
        self.stores[process] = self.start()
        found = self.runner.run(self.stores[1 - process].recover()).runs
        assert {(one.schedule.id, one.run.due) for one in found} == lost
        self.open = [
            (1 - process if (one.schedule.id, one.run.due) in lost else holder, one) for holder, one in self.open
        ]

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert len(set(self.begun)) == len(self.begun)

    def check_every_time_was_run_or_told(self) -> None:
        for name in NAMES if self.stores else ():
            book = self.stores[0].schedules
            schedule = self.runner.run(book.get(name, owner="ann"))
            runs = self.runner.run(book.runs(name, owner="ann"))
            assert [run for run in runs if run.end != "missed"] == [
                run for run in runs if (name, run.due) in self.begun
            ], "what was not run is told as missed"
            if schedule.paused or len(runs) >= 90:
                continue
            due, until = next_time(schedule.plan.when, START), schedule.next
            times: list[float] = []
            while due is not None and (until is None or due < until) and len(times) < 200:
                times.append(due)
                due = next_time(schedule.plan.when, due)
            for time in times:
                assert any(run.since <= time <= run.due for run in runs), "a time is neither run nor told"

    def teardown(self) -> None:
        try:
            self.check_every_time_was_run_or_told()
        finally:
            for store in self.stores:
                self.runner.run(store.close())
            self.runner.close()
            self.folder.cleanup()


def test_each_due_time_runs_once_or_is_told_as_missed(tmp_path: Path) -> None:
    FOLDER.set(tmp_path)
    run_state_machine_as_test(ScheduleMachine, settings=settings(max_examples=examples(32), stateful_step_count=20))
