"""Schedules in the store: each due time is claimed once, or told as missed (SPEC J1)."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from handspan.core.agents import Mode
from handspan.core.errors import ToolError
from handspan.core.schedules import (
    MAX_FAILURES,
    MAX_RUNS,
    MAX_SCHEDULES,
    At,
    Claim,
    Cron,
    Every,
    Maker,
    RunEnd,
    Schedule,
    SchedulePlan,
    When,
    schedule_of,
)
from handspan.core.store import Store
from tests.store.things import Clock
from tests.stores import open_store, rows_in, run_sql
from tests.waiting import soon

pytestmark = pytest.mark.anyio

DAY: Final = 24 * 3600.0
START: Final = Clock().now
HALF: Final = Every(1800.0, START)


def scheduled(schedule: str, when: When = HALF, due: float | None = START + 1800, **more: object) -> Schedule:
    plan = structs.replace(
        SchedulePlan(when, f"Do {schedule}."), **{k: v for k, v in more.items() if k in SchedulePlan.__struct_fields__}
    )
    maker = structs.replace(Maker("ann"), **{k: v for k, v in more.items() if k in Maker.__struct_fields__})
    return Schedule(schedule, plan, maker, START, due)


def dues(claim: Claim) -> list[tuple[str, float]]:
    return [(one.schedule.id, one.run.due) for one in claim.runs]


async def claim(store: Store, limit: int = 100) -> Claim:
    return await soon(store.schedules.claim(limit))


async def end(store: Store, claimed: Claim, how: RunEnd = "done") -> list[str]:
    outcomes = [await soon(store.schedules.end_run(one.run, how, "Well.", delivers=False)) for one in claimed.runs]
    return [one.paused for one in outcomes if one is not None]


async def test_a_schedule_is_there_in_the_next_process_and_for_its_owner_alone(store: Store, state: Path) -> None:
    mode: Mode = "ask_always"
    made = scheduled("one", Cron("0 9 * * *", "Europe/Berlin"), tools=("read_file",), mode=mode, name="Früh \ud800")
    await soon(store.schedules.add(made))
    async with open_store(state) as later:
        found = await soon(later.schedules.get("one", owner="ann"))
        assert found == structs.replace(made, plan=structs.replace(made.plan, name="Früh ?"))
        assert await soon(later.schedules.all(owner="ann")) == [found]
        assert (
            await soon(later.schedules.all(owner="bob")) == [] == [*await soon(later.schedules.last_runs(owner="bob"))]
        )
        assert await soon(later.schedules.find("one", owner="bob")) is None
        for refused in (
            later.schedules.get("one", owner="bob"),
            later.schedules.pause("one", "No.", owner="bob"),
            later.schedules.resume("one", 1.0, "", owner="bob"),
            later.schedules.make_due("one", owner="bob"),
            later.schedules.remove("one", owner="bob"),
            later.schedules.runs("one", owner="bob"),
        ):
            with pytest.raises(ToolError, match="There is no schedule"):
                await soon(refused)


async def test_nothing_is_claimed_before_its_time(store: Store, clock: Clock) -> None:
    assert await soon(store.schedules.next_due()) is None and await claim(store) == Claim((), (), None)
    await soon(store.schedules.add(scheduled("one")))
    assert await soon(store.schedules.next_due()) == START + 1800
    clock.now += 1799
    assert await claim(store) == Claim((), (), START + 1800)


async def test_a_due_time_is_claimed_once_and_leads_to_the_next(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one")))
    clock.now += 1800
    first = await claim(store)
    assert dues(first) == [("one", START + 1800)] and first.next == START + 3600
    assert first.runs[0].run.session == f"scheduled-one-{round((START + 1800) * 1000)}"
    assert first.runs[0].run.message_id == first.runs[0].run.session
    assert schedule_of(first.runs[0].run.message_id) == "one" and schedule_of("mine") == ""
    assert dues(await claim(store)) == []
    assert await end(store, first) == [""]
    [run] = await soon(store.schedules.runs("one", owner="ann"))
    assert (run.state, run.end, run.text, run.ended) == ("done", "done", "Well.", clock.now)
    assert await soon(store.schedules.last_runs(owner="ann")) == {"one": run}
    assert await soon(store.schedules.end_run(run, "error", "Late.", delivers=False)) is None, "it has ended"


async def test_two_processes_never_get_the_same_time(store: Store, state: Path, clock: Clock) -> None:
    for number in range(60):
        await soon(store.schedules.add(scheduled(f"s{number}")))
    async with open_store(state, clock=clock) as other:
        clock.now += 1800
        found = await soon(asyncio.gather(*(one.schedules.claim(25) for one in (store, other) * 4)))
        rest = await claim(other), await claim(store)
    claimed = [due for one in (*found, *rest) for due in dues(one)]
    assert sorted(claimed) == sorted((f"s{number}", START + 1800) for number in range(60))


async def test_of_missed_times_the_last_one_runs_and_says_since_when(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one")))
    await soon(store.schedules.add(scheduled("two", Cron("0 9 * * *", "UTC"), START + 9 * 3600)))
    clock.now += 365 * DAY + 10 * 3600  # a year: one run each, not 365
    claimed = await claim(store)
    assert dues(claimed) == [("one", clock.now), ("two", clock.now - 3600)]
    assert [one.run.since for one in claimed.runs] == [START + 1800, START + 9 * 3600]
    assert claimed.next == clock.now + 1800
    assert dues(await claim(store)) == []


async def test_a_time_that_is_too_old_is_told_as_missed(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("never", At(START + 60), START + 60, catch_up=0.0)))
    await soon(store.schedules.add(scheduled("hour", At(START + 60), START + 60, catch_up=3600.0)))
    clock.now += 60 + 3601
    claimed = await claim(store)
    assert dues(claimed) == [] and [one.schedule.id for one in claimed.missed] == ["hour", "never"]
    [run] = await soon(store.schedules.runs("hour", owner="ann"))
    assert (run.end, run.state, run.session) == ("missed", "done", "") and "No gateway" in run.text
    assert all(one.is_finished for one in await soon(store.schedules.all(owner="ann")))


async def test_a_time_comes_while_the_run_before_it_is_not_over(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one")))
    clock.now += 1800
    first = await claim(store)
    clock.now += 1800
    second = await claim(store)
    assert dues(second) == [] and second.missed[0].run.text == "The run before it was not over."
    await end(store, first)
    clock.now += 1800
    assert dues(await claim(store)) == [("one", START + 5400)]


async def test_a_clock_that_goes_back_runs_no_time_twice(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one")))
    clock.now += 1800
    await end(store, await claim(store))
    for back in (3600.0, 365 * DAY):
        clock.now -= back
        assert dues(await claim(store)) == []
        clock.now += back
    await soon(store.schedules.resume("one", START + 1800, "", owner="ann"))  # the same time once more
    claimed = await claim(store)
    assert claimed.runs == claimed.missed == () and claimed.next == START + 3600


async def test_pause_resume_run_now_and_remove(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one")))
    paused = await soon(store.schedules.pause("one", "You paused it.", owner="ann"))
    assert (paused.next, paused.paused, paused.is_finished) == (None, "You paused it.", False)
    clock.now += 7200
    assert dues(await claim(store)) == []
    assert (await soon(store.schedules.make_due("one", owner="ann"))).next == clock.now
    now = await claim(store)
    assert dues(now) == [("one", clock.now)] and now.next is None, "it stays paused"
    await end(store, now)
    resumed = await soon(store.schedules.resume("one", clock.now + 60, "hash", owner="ann"))
    assert (resumed.next, resumed.paused) == (clock.now + 60, "")
    await soon(store.schedules.remove("one", owner="ann"))
    assert await soon(store.schedules.all(owner="ann")) == [] and await soon(store.schedules.next_due()) is None


async def test_failures_in_a_row_pause_it_and_a_success_forgets_them(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one")))

    async def run(how: RunEnd) -> list[str]:
        clock.now += 1800
        return await end(store, await claim(store), how)

    for how in ("error", "errors", "refusal", "error", "aborted", "done"):
        assert await run(how) == [""]
    for _ in range(MAX_FAILURES - 1):
        assert await run("error") == [""]
    assert await run("error") == ["5 runs in a row have failed."]
    found = await soon(store.schedules.get("one", owner="ann"))
    assert (found.next, found.paused, found.failures) == (None, "5 runs in a row have failed.", 5)


@pytest.mark.parametrize("own", [True, False])
async def test_a_schedule_whose_makers_token_was_revoked_is_paused_and_says_so(
    store: Store, clock: Clock, own: bool
) -> None:
    await soon(store.tokens.add("hash", owner="ann", scopes=("chat",)))
    await soon(store.schedules.add(scheduled("one", token="hash" if own else "")))
    if own:
        await soon(store.tokens.add("other", owner="ann", scopes=("chat",)))
    await soon(store.tokens.revoke("hash", owner="ann"))
    clock.now += 1800
    claimed = await claim(store)
    assert dues(claimed) == [] and claimed.next is None and "token" in claimed.missed[0].run.text
    assert "was revoked" in (await soon(store.schedules.get("one", owner="ann"))).paused


async def test_one_of_several_valid_tokens_is_enough_for_a_schedule_of_a_turn(store: Store, clock: Clock) -> None:
    for name in ("a", "b"):
        await soon(store.tokens.add(name, owner="ann", scopes=("chat",)))
    await soon(store.tokens.revoke("a", owner="ann"))
    await soon(store.schedules.add(scheduled("one")))
    clock.now += 1800
    assert dues(await claim(store)) == [("one", clock.now)]


async def test_the_run_of_a_lost_process_goes_on_in_another_and_its_delivery_is_not_repeated(
    state: Path, clock: Clock
) -> None:
    async with open_store(state, clock=clock) as store:
        await soon(store.schedules.add(scheduled("one")))
        await soon(store.schedules.add(scheduled("two")))
        clock.now += 1800
        first, second = (await claim(store)).runs
        assert await soon(store.schedules.end_run(second.run, "done", "Well.", delivers=True)) is not None
    async with open_store(state, clock=clock) as later:
        recovery = await soon(later.recover())
        assert {(one.schedule.id, one.run.state) for one in recovery.runs} == {
            ("one", "running"),
            ("two", "delivering"),
        }
        assert first.run in [one.run for one in recovery.runs]
        assert (await soon(later.recover())).runs == (), "they are this process's now"
        assert await soon(later.schedules.end_delivery(second.run, "It may have arrived."))
        assert await soon(later.schedules.end_run(first.run, "done", "Well.", delivers=False)) is not None
        found = await soon(later.schedules.last_runs(owner="ann"))
        assert (found["two"].state, found["two"].problem, found["two"].text) == (
            "done",
            "It may have arrived.",
            "Well.",
        )
    assert rows_in(state, "SELECT run FROM schedule_runs WHERE run IS NOT NULL") == []


async def test_a_frozen_process_can_not_end_the_run_that_another_took_over(state: Path, clock: Clock) -> None:
    async with open_store(state, clock=clock) as frozen, open_store(state, clock=clock) as other:
        await soon(frozen.schedules.add(scheduled("one")))
        clock.now += 1800
        [claimed] = (await claim(frozen)).runs
        taken = f"UPDATE schedule_runs SET run = '{other.leases.own}'"
        await soon(run_sql(frozen, taken))
        assert await soon(frozen.schedules.end_run(claimed.run, "done", "Mine.", delivers=True)) is None
        assert not await soon(frozen.schedules.end_delivery(claimed.run))
        assert await soon(other.schedules.end_run(claimed.run, "done", "Well.", delivers=False)) is not None


async def test_old_runs_and_finished_schedules_are_forgotten(store: Store, clock: Clock) -> None:
    await soon(store.schedules.add(scheduled("one", Every(60.0, START), START + 60)))
    for _ in range(MAX_RUNS + 3):
        clock.now += 60
        await end(store, await claim(store))
    assert len(await soon(store.schedules.runs("one", owner="ann", limit=1000))) == MAX_RUNS
    for number in range(MAX_SCHEDULES - 2):
        await soon(store.schedules.add(scheduled(f"s{number}", At(START + DAY * 9), START + DAY * 9)))
    await soon(store.schedules.add(scheduled("last", At(clock.now), clock.now)))
    with pytest.raises(ToolError, match="1000 schedules already"):
        await soon(store.schedules.add(scheduled("more")))
    await end(store, await claim(store))
    await soon(store.schedules.add(scheduled("more")))
    assert "last" not in [one.id for one in await soon(store.schedules.all(owner="ann"))]


async def test_a_clock_that_was_wrong_and_is_set_back_lets_no_schedule_wait_for_a_year(
    store: Store, clock: Clock
) -> None:
    await soon(store.schedules.add(scheduled("one")))
    await soon(store.schedules.add(scheduled("once", At(START + 5000), START + 5000)))
    clock.now += 365 * DAY
    await end(store, await claim(store))
    clock.now -= 365 * DAY
    assert dues(await claim(store)) == []
    assert await soon(store.schedules.realign()) == START + 1800
    clock.now += 1800
    assert dues(await claim(store)) == [("one", START + 1800)]
