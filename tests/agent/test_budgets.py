"""How requests wait for money, and what becomes of what they have reserved (SPEC L5)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan.agent.budgets import Budgets
from handspan.bus.memory import MemoryBus
from handspan.config.budget_settings import BudgetSettings
from handspan.config.settings import Settings
from handspan.core.budgets import BudgetLimit, BudgetLimits, CostEstimate, Payer, Reservation, to_dollars, to_nano
from handspan.core.errors import StoreError
from handspan.core.store import Store
from handspan.models.model import ModelError
from tests.stores import open_store
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "state") as store:
        yield store


def budgets_of(store: Store, questions: Any = None, clock: Any = lambda: 0.0, **given: Any) -> Budgets:
    settings = Settings(Path(), Path(), budget=BudgetSettings(zone="UTC", **given))
    return Budgets(store.budgets, MemoryBus(), settings, questions, clock)


def costing(dollars: float) -> CostEstimate:
    return CostEstimate("m", to_nano(dollars), 0, 0)


async def held(budgets: Budgets) -> float:
    return to_dollars((await budgets.for_all())[0].held)


async def turn_the_loop() -> None:
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_a_request_waits_for_those_under_way_and_no_person_is_asked(store: Store) -> None:
    budgets = budgets_of(store, day=1.0)
    first = await soon(budgets.reserve(costing(0.8)))
    waiting = asyncio.create_task(budgets.reserve(costing(0.5)))
    await turn_the_loop()
    assert not waiting.done()
    budgets.end(first, to_nano(0.3))
    await soon(budgets.settle_rest())
    assert isinstance(await soon(waiting), Reservation)


async def test_a_request_that_is_cancelled_while_it_waits_holds_nothing(store: Store) -> None:
    budgets = budgets_of(store, day=1.0)
    first = await soon(budgets.reserve(costing(0.8)))
    waiting = asyncio.create_task(budgets.reserve(costing(0.5)))
    await turn_the_loop()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    budgets.end(first, 0)
    await soon(budgets.close())
    assert await held(budgets) == 0


async def test_what_no_reply_has_taken_along_is_written_soon(store: Store) -> None:
    budgets = budgets_of(store, day=1.0)
    budgets.end(await soon(budgets.reserve(costing(0.8))), to_nano(0.1))
    assert await held(budgets) == 0.8

    async def is_settled() -> bool:
        return await held(budgets) == 0

    await until(is_settled)
    assert to_dollars((await budgets.for_all())[0].spent) == 0.1


async def test_a_new_day_brings_new_money_to_a_request_that_waits(store: Store) -> None:
    now = [0.0]
    budgets = budgets_of(store, clock=lambda: now[0], day=1.0)
    await soon(budgets.reserve(costing(0.8)))
    waiting = asyncio.create_task(budgets.reserve(costing(0.5)))
    await turn_the_loop()
    assert not waiting.done()
    now[0] = 90_000.0
    budgets.use(Settings(Path(), Path(), budget=BudgetSettings(zone="UTC", day=1.0)))
    assert (await soon(waiting)).day == "1970-01-02"


async def test_limits_that_are_raised_let_a_request_go_on(store: Store) -> None:
    budgets = budgets_of(store, day=1.0)
    await soon(budgets.reserve(costing(0.8)))
    waiting = asyncio.create_task(budgets.reserve(costing(0.5)))
    await turn_the_loop()
    budgets.use(Settings(Path(), Path(), budget=BudgetSettings(zone="UTC", day=2.0)))
    assert isinstance(await soon(waiting), Reservation)


async def test_a_store_that_is_away_refuses_the_request(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreError("the disk is full.")

    budgets = budgets_of(store, day=1.0)
    monkeypatch.setattr(store.budgets, "reserve", away)
    with pytest.raises(ModelError, match=r"What is left of the budget can't be read: the disk is full\."):
        await soon(budgets.reserve(costing(0.1)))


async def test_days_begin_in_the_zone_of_the_settings(store: Store) -> None:
    def at(zone: str, seconds: float) -> str:
        settings = Settings(Path(), Path(), budget=BudgetSettings(zone=zone, day=1.0))
        return Budgets(store.budgets, MemoryBus(), settings, None, lambda: seconds).today()

    late = 86_400 - 1800.0  # half an hour before midnight in Greenwich
    assert [at(zone, late) for zone in ("UTC", "Europe/Berlin", "America/New_York")] == [
        "1970-01-01", "1970-01-02", "1970-01-01"
    ]  # fmt: skip
    budgets = budgets_of(store, clock=lambda: late, day=1.0)
    assert budgets.free_at(budgets.limits_for(Payer("ann"))[0]) == "1970-01-02"


async def test_each_owner_has_its_limit_and_some_have_another(store: Store) -> None:
    each, ann = BudgetLimits(day=1.0), BudgetLimits(day=2.0)
    budgets = budgets_of(store, each_owner=each, owners={"ann": ann})
    assert budgets.has_limits
    assert budgets.limits_for(Payer("ann")) == [BudgetLimit("owner:ann", "day", to_nano(2.0))]
    assert budgets.limits_for(Payer("bob")) == [BudgetLimit("owner:bob", "day", to_nano(1.0))]
    assert [one.of for one in budgets.known_limits("bob")] == ["owner:bob"]
    assert [one.of for one in budgets.known_limits("operator")] == ["owner:operator", "owner:ann"]
    assert not budgets_of(store).has_limits
