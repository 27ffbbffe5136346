"""Calls that ended long ago are removed; nothing that anybody still needs is (SPEC E8)."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.calls import CallRecord
from handspan.core.results import Success, succeed
from handspan.store.sqlite.store import SqliteStore, sqlite_store
from handspan.store.tables import journal
from handspan.store.tables.database import AllWorks
from handspan.store.tables.store import StoreOptions
from tests.store.things import Clock, answers, asks, call, finished, question, started, user
from tests.stores import open_artifacts, rows_in
from tests.waiting import soon

pytestmark = pytest.mark.anyio

DAY = 24 * 3600.0
DONE = succeed("done")


@pytest.fixture
async def store(state: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    """A store that keeps calls for thirty days, and whose clock is steady for two."""
    artifacts = open_artifacts(state / "artifacts")
    clock.now -= 2 * DAY
    async with sqlite_store(state, artifacts, StoreOptions(clock, 30, clock)) as store:
        clock.now += 2 * DAY
        yield store


async def done(store: SqliteStore, record: CallRecord, result: Success = DONE) -> CallRecord:
    assert await finished(store.ledger, await started(store.ledger, record), result)
    return record


def ids(state: Path) -> set[str]:
    return {str(row[0]) for row in rows_in(state, "SELECT id FROM calls")}


async def pruned(store: SqliteStore) -> None:
    """Wait for what the store does beside."""
    assert store._pruning is not None
    await soon(store._pruning)


# What stays.


async def test_without_a_number_of_days_everything_stays(state: Path, clock: Clock) -> None:
    async with sqlite_store(state, options=StoreOptions(clock)) as store:
        await done(store, call("c1", at=0.0))
        await soon(store.recover())
        await soon(store.expire())
        assert await soon(store.prune()) == 0
    assert ids(state) == {"c1"}


async def test_what_is_open_stays_however_old_it_is(store: SqliteStore, state: Path) -> None:
    await soon(store.ledger.accept(call("accepted", at=0.0)))
    await started(store.ledger, call("started", at=0.0))
    await soon(store.ledger.suspend(await started(store.ledger, call("pending", at=0.0))))
    assert await soon(store.prune()) == 0
    assert ids(state) == {"accepted", "started", "pending"}


async def test_a_call_that_waited_long_counts_from_its_end(store: SqliteStore, clock: Clock, state: Path) -> None:
    record = await started(store.ledger, call("c1", at=clock.now - 40 * DAY))
    record.duration = 20 * DAY
    await finished(store.ledger, record, DONE)
    assert await soon(store.prune()) == 0
    clock.now += 10 * DAY + 1
    assert await soon(store.prune()) == 1


async def test_the_calls_of_a_session_stay_while_its_turn_is_open(
    store: SqliteStore, clock: Clock, state: Path
) -> None:
    talk = store.conversations
    running, waiting, unanswered, idle = [(await talk.create(owner="ann")).id for _ in range(4)]
    for session in (running, waiting, unanswered, idle):
        await done(store, call(session, session=session, at=clock.now - 31 * DAY))
    await soon(talk.begin_turn(running, owner="ann"))
    await soon(talk.begin_turn(waiting, owner="ann"))
    await soon(talk.end_turn(waiting, owner="ann", waiting=True))
    await soon(talk.append(unanswered, user(), asks(unanswered), owner="ann"))
    assert await soon(store.prune()) == 1
    assert ids(state) == {running, waiting, unanswered}
    await soon(talk.append(unanswered, answers(unanswered), owner="ann"))
    await soon(talk.end_turn(running, owner="ann"))
    assert await soon(store.prune()) == 2
    assert ids(state) == {waiting}


async def test_messages_and_usage_stay_when_their_calls_go(store: SqliteStore, clock: Clock, state: Path) -> None:
    session = (await store.conversations.create(owner="ann")).id
    await soon(store.conversations.append(session, user(), asks("c1"), answers("c1"), owner="ann"))
    await done(store, call("c1", session=session, at=clock.now - 31 * DAY))
    assert await soon(store.prune()) == 1
    assert len(await soon(store.conversations.load(session, owner="ann"))) == 3
    [used] = await soon(store.usage.sums("session", owner="ann"))
    assert used.replies == 1


# What goes.


async def test_old_calls_go_with_their_true_results_and_questions(
    store: SqliteStore, clock: Clock, state: Path
) -> None:
    for name, at in (("old", clock.now - 30 * DAY - 1), ("young", clock.now - 30 * DAY + 1)):
        record = call(name, at=at)
        record.true_result = succeed("the secret of " + name)
        await soon(store.questions.ask(question(name)))
        await done(store, record)
    assert await soon(store.prune()) == 1
    assert ids(state) == {"young"}
    assert rows_in(state, "SELECT call_id FROM questions") == [("young",)]
    await soon(store.close())
    assert b"the secret of old" not in store.database.file.read_bytes()


async def test_the_calls_of_every_owner_go(store: SqliteStore, state: Path) -> None:
    for number, owner in enumerate(("", "ann", "bob", "ann", "\uffff")):
        await done(store, call(f"c{number}", owner=owner))
    assert await soon(store.prune()) == 5
    assert ids(state) == set()


async def test_many_go_in_small_batches_between_which_others_write(
    store: SqliteStore, state: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_AT_ONCE", 10)
    monkeypatch.setattr(journal, "_MAX_BYTES", 1000)
    for number in range(25):
        await done(store, call(f"c{number}"))
    for number in range(3):
        large = structs.replace(call(f"large{number}"), size=900)
        await done(store, large)
    before = store.database.commits
    pruning_all = asyncio.create_task(store.prune())
    while not pruning_all.done():
        await soon(store.database.write(AllWorks(())))
    assert await pruning_all == 28
    assert store.database.commits - before > 5
    assert ids(state) == set()


async def test_pruning_is_done_at_the_start_and_now_and_then_in_the_background(
    store: SqliteStore, state: Path, clock: Clock
) -> None:
    await done(store, call("c1", at=clock.now - 31 * DAY))
    await soon(store.recover())
    await pruned(store)
    assert ids(state) == set()
    await done(store, call("c2", at=clock.now))
    clock.now += 31 * DAY
    assert await soon(store.expire()) == ()
    await pruned(store)
    assert ids(state) == set()
    await done(store, call("c3"))
    await soon(store.expire())  # so soon again: there is time
    await pruned(store)
    assert ids(state) == {"c3"}


async def test_closing_ends_it(store: SqliteStore, clock: Clock) -> None:
    for number in range(5):
        await done(store, call(f"c{number}", at=clock.now - 31 * DAY))
    await soon(store.expire())
    await soon(store.close())
    assert store._pruning is not None and store._pruning.done()


async def test_two_processes_at_once_do_not_disturb_each_other(store: SqliteStore, state: Path, clock: Clock) -> None:
    records = [call(f"c{number}", at=clock.now - 31 * DAY) for number in range(300)]
    await asyncio.gather(*(done(store, record) for record in records))
    async with sqlite_store(state, options=StoreOptions(clock, 30)) as other:
        counts = await soon(asyncio.gather(store.prune(), other.prune()))
        assert sum(counts) <= 300
        await soon(store.prune())
    assert ids(state) == set()


async def test_a_process_whose_clock_is_steady_for_a_day_is_not_held_back_by_a_younger_one(
    store: SqliteStore, state: Path, clock: Clock
) -> None:
    await done(store, call("c1", at=clock.now - 31 * DAY))
    async with sqlite_store(state, options=StoreOptions(clock, 30)) as younger:
        assert await soon(younger.prune()) == 0
    assert await soon(store.prune()) == 1


async def test_what_goes_wrong_is_said_in_the_log(
    store: SqliteStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await done(store, call("c1", at=clock.now - 31 * DAY))
    await soon(store.database.close())
    with caplog.at_level(logging.ERROR):
        store._begin_pruning()
        await pruned(store)
    assert "Old calls could not be removed: The database" in caplog.text


async def test_old_calls_are_found_without_a_look_at_all_others(store: SqliteStore) -> None:
    plan = await soon(store.database.fetch_all(f"EXPLAIN QUERY PLAN {journal._OLD}", ("ann", 0.0, 0.0, 1)))
    told = " ".join(str(row[-1]) for row in plan)
    assert "calls_by_owner (owner=? AND at<?)" in told
    assert "SCAN" not in told and "TEMP B-TREE" not in told


# A clock that steps.


class Clocks:
    """The time of day, which can be set, and a clock that never steps."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self.day, self.elapsed = Clock(), Clock(1000.0)

    def store(self) -> SqliteStore:
        """A store of a process that starts now."""
        return sqlite_store(self._state, options=StoreOptions(self.day, 30, self.elapsed))

    def go_on(self, seconds: float) -> None:
        self.day.now += seconds
        self.elapsed.now += seconds


@pytest.fixture
def clocks(state: Path) -> Clocks:
    return Clocks(state)


async def test_a_clock_that_is_a_year_ahead_for_a_moment_removes_nothing(clocks: Clocks, state: Path) -> None:
    async with clocks.store() as store:
        await done(store, call("c1", at=clocks.day.now))
        clocks.go_on(2 * DAY)
        assert await soon(store.prune()) == 0
        clocks.day.now += 365 * DAY
        assert await soon(store.prune()) == 0
        await done(store, call("c2", at=clocks.day.now))
        clocks.go_on(12)
        assert await soon(store.prune()) == 0
        clocks.day.now -= 365 * DAY
        assert await soon(store.prune()) == 0
    assert ids(state) == {"c1", "c2"}


async def test_a_process_that_starts_with_a_clock_far_ahead_removes_nothing(clocks: Clocks, state: Path) -> None:
    async with clocks.store() as store:
        await done(store, call("c1", at=clocks.day.now))
    clocks.day.now += 365 * DAY
    async with clocks.store() as store:
        await soon(store.recover())
        await pruned(store)
        clocks.go_on(3600)
        assert await soon(store.prune()) == 0
    assert ids(state) == {"c1"}


async def test_a_time_that_lasts_for_a_day_is_believed(clocks: Clocks, state: Path) -> None:
    async with clocks.store() as store:
        await done(store, call("c1", at=clocks.day.now))
        assert await soon(store.prune()) == 0
        clocks.day.now += 40 * DAY
        assert await soon(store.prune()) == 0
        clocks.go_on(DAY + 1)
        assert await soon(store.prune()) == 1
    assert ids(state) == set()


async def prune_in_a_short_run(clocks: Clocks, *written: str) -> int:
    """A process that writes these calls, prunes and ends."""
    async with clocks.store() as store:
        for name in written:
            await done(store, call(name, at=clocks.day.now))
        return await soon(store.prune())


async def test_a_restart_while_the_clock_is_wrong_removes_nothing_though_a_call_was_written(
    clocks: Clocks, state: Path
) -> None:
    await prune_in_a_short_run(clocks, "c1")
    clocks.go_on(DAY)
    async with clocks.store() as store:
        assert await soon(store.prune()) == 0
        clocks.day.now += 365 * DAY
        await done(store, call("c2", at=clocks.day.now))
    for seconds in (12, 3600):
        clocks.go_on(seconds)
        assert await prune_in_a_short_run(clocks, f"c{seconds}") == 0
    clocks.day.now -= 365 * DAY
    assert await prune_in_a_short_run(clocks, "c3") == 0
    clocks.go_on(2 * DAY)
    assert await prune_in_a_short_run(clocks, "c4") == 0
    assert ids(state) == {"c1", "c2", "c12", "c3600", "c3", "c4"}


@pytest.mark.parametrize("days_between", [0.3, 1.0, 3.0])
async def test_in_short_runs_too_old_calls_are_removed_once_a_later_day_confirms_the_time(
    clocks: Clocks, state: Path, days_between: float
) -> None:
    assert await prune_in_a_short_run(clocks, "c1") == 0
    clocks.go_on(35 * DAY)
    assert await prune_in_a_short_run(clocks, "c2") == 0  # it may be the clock that is wrong
    clocks.go_on(60)
    assert await prune_in_a_short_run(clocks) == 0
    removed = 0
    for _ in range(round(1 / days_between) + 2):
        clocks.go_on(days_between * DAY)
        removed += await prune_in_a_short_run(clocks)
    assert (removed, ids(state)) == (1, {"c2"})
