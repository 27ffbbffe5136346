"""Money in the store: reservations, settlements and additions, on both databases (SPEC L5)."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.budgets import (
    Addition,
    BudgetLimit,
    BudgetLimits,
    CostEstimate,
    NoRoom,
    Payer,
    Reservation,
    Settlement,
    limits_of,
    next_period,
    to_dollars,
    to_nano,
)
from handspan.core.messages import AssistantMessage, Text, Usage, UserMessage
from handspan.core.store import Store
from handspan.models.scripted import Scripted, call
from handspan.testing.gateway import running_gateway
from tests.stores import is_postgres, open_store, store_settings
from tests.waiting import WAIT, soon

pytestmark = pytest.mark.anyio
DAY = "2026-01-31"
ANN = Payer("ann", "General", "s")
DOLLAR = to_nano(1.0)


def all_limits(day: float | None = None, month: float | None = None) -> list[BudgetLimit]:
    return limits_of("", BudgetLimits(day, month))


def costing(dollars: float, output: int | None = 0, output_price: float = 0.0) -> CostEstimate:
    return CostEstimate("m", to_nano(dollars), to_nano(output_price), output)


async def reserved(store: Store, name: str, dollars: float, limits: Sequence[BudgetLimit], **more: Any) -> Reservation:
    found = await store.budgets.reserve(
        name, more.pop("payer", ANN), costing(dollars), limits, day=more.pop("day", DAY), **more
    )
    assert isinstance(found, Reservation), found
    return found


async def refused(store: Store, name: str, dollars: float, limits: Sequence[BudgetLimit], **more: Any) -> NoRoom:
    found = await store.budgets.reserve(
        name, more.pop("payer", ANN), costing(dollars), limits, day=more.pop("day", DAY), **more
    )
    assert isinstance(found, NoRoom), found
    return found


async def test_a_reservation_holds_money_until_it_is_settled_with_what_it_did_cost(store: Store) -> None:
    limits = all_limits(day=1.0)
    one = await reserved(store, "a", 0.7, limits)
    waits = await refused(store, "b", 0.4, limits)
    assert waits.spent == (), "it would fit without the request under way"
    await store.budgets.settle([Settlement(one, to_nano(0.5))])
    (state,) = await store.budgets.states(limits, day=DAY)
    assert (state.spent, state.held) == (to_nano(0.5), 0)
    await reserved(store, "b", 0.4, limits)


async def test_a_request_that_does_not_fit_alone_is_told_what_is_spent(store: Store) -> None:
    limits = all_limits(day=1.0, month=100.0)
    await store.budgets.settle([Settlement(await reserved(store, "a", 0.9, limits), to_nano(0.95))])
    full = await refused(store, "b", 0.1, limits)
    (state,) = full.spent
    assert (state.limit.period, to_dollars(state.spent), to_dollars(state.left)) == ("day", 0.95, 0.05)
    assert full.nano == to_nano(0.1)


async def test_a_settlement_counts_once_and_a_released_one_not_at_all(store: Store) -> None:
    limits = all_limits(day=1.0)
    one = await reserved(store, "a", 0.5, limits)
    settled = Settlement(one, to_nano(0.4))
    await store.budgets.settle([settled, settled])
    await store.budgets.settle([settled])
    (state,) = await store.budgets.states(limits, day=DAY)
    assert state.spent == to_nano(0.4)


async def test_limits_of_owners_and_agents_count_their_own_money(store: Store) -> None:
    bob, other = Payer("bob", "General", "t"), Payer("ann", "Other", "u")
    await store.budgets.settle([Settlement(await reserved(store, "a", 0.5, all_limits(9.0)), to_nano(0.5))])
    await store.budgets.settle([Settlement(await reserved(store, "b", 0.2, all_limits(9.0), payer=bob), to_nano(0.2))])
    await reserved(store, "c", 0.1, all_limits(9.0), payer=other)
    limits = [BudgetLimit(of, "day", DOLLAR) for of in ("", "owner:ann", "owner:bob", "agent:General", "agent:Other")]
    states = await store.budgets.states(limits, day=DAY)
    assert [to_dollars(one.spent) for one in states] == [0.7, 0.5, 0.2, 0.7, 0.0]
    assert [to_dollars(one.held) for one in states] == [0.1, 0.1, 0.0, 0.0, 0.1]


async def test_a_month_has_all_its_days_and_money_that_was_added_is_for_one_day(store: Store) -> None:
    limits = all_limits(day=1.0, month=2.0)
    for day in ("2025-12-31", "2026-01-01", "2026-01-30"):
        held = await reserved(store, day, 0.9, limits, day=day)
        await store.budgets.settle([Settlement(held, to_nano(0.9))])
    full = await refused(store, "x", 0.3, limits)
    assert [one.limit.period for one in full.spent] == ["month"]
    assert await store.budgets.add(Addition("q", "", DAY, DOLLAR))
    assert not await store.budgets.add(Addition("q", "", DAY, DOLLAR)), "an answer counts once"
    await reserved(store, "x", 0.3, limits)
    of_day, of_month = await store.budgets.states(limits, day=DAY)
    assert (of_day.most, of_month.most) == (2 * DOLLAR, 3 * DOLLAR)
    (tomorrow,) = await store.budgets.states(all_limits(day=1.0), day="2026-02-01")
    assert (tomorrow.most, tomorrow.spent, tomorrow.held) == (DOLLAR, 0, 0)


def test_the_next_day_and_the_next_month_begin_where_they_should() -> None:
    assert (next_period("day", DAY), next_period("month", DAY)) == ("2026-02-01", "2026-02-01")
    assert (next_period("day", "2026-12-31"), next_period("month", "2026-12-01")) == ("2027-01-01", "2027-01-01")


async def test_a_reply_without_a_limit_is_expected_as_large_as_the_largest_so_far(store: Store) -> None:
    async def cost_of(name: str) -> int:
        estimate = CostEstimate("m", 0, to_nano(10.0), None)
        found = await store.budgets.reserve(name, ANN, estimate, all_limits(9.0), day=DAY)
        assert isinstance(found, Reservation)
        await store.budgets.settle([Settlement(found, 1, output=int(name))])
        return found.nano

    assert [await cost_of(tokens) for tokens in ("500", "7000", "20", "30")] == [
        to_nano(0.01), to_nano(0.01), to_nano(0.07), to_nano(0.07)
    ]  # fmt: skip


async def test_four_fifths_of_a_limit_are_told_once(store: Store) -> None:
    limits = all_limits(day=1.0)
    first = await reserved(store, "a", 0.8, limits)
    await store.budgets.settle([Settlement(first, to_nano(0.8))])
    low = await reserved(store, "b", 0.05, limits)
    assert [to_dollars(one.spent) for one in low.low] == [0.8]
    assert (await reserved(store, "c", 0.05, limits)).low == ()
    again = await reserved(store, "d", 0.05, limits, day="2026-02-01")
    assert again.low == ()


async def test_the_write_of_a_reply_settles_its_request(store: Store) -> None:
    session = await store.conversations.create(owner="ann")
    limits = all_limits(day=1.0)
    held = await reserved(store, "a", 0.5, limits)
    await store.conversations.append(session.id, UserMessage((Text("Hi."),)), owner="ann")
    reply = AssistantMessage((Text("Hello."),), model="m", usage=Usage(1, 1))
    storing = store.conversations.keep(
        session.id, reply, owner="ann", after=1, settles=(Settlement(held, to_nano(0.3), 1),)
    )
    assert storing is not None
    await storing
    (state,) = await store.budgets.states(limits, day=DAY)
    assert (to_dollars(state.spent), state.held) == (0.3, 0)


@pytest.mark.parametrize(("budget", "times"), [({}, 0), ({"day": 5}, 3)])
async def test_a_round_reserves_once_and_is_settled_by_the_write_of_its_reply(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, budget: dict[str, int], times: int
) -> None:
    given: dict[str, Any] = {"agents": {"Plain": {"tools": ["get_current_time"]}}, "default_agent": "Plain"}
    given["models"] = {"priced": {"base_url": "http://127.0.0.1:9/v1", "price": {"input": 1.0, "output": 1.0}}}
    model = Scripted([call("get_current_time"), call("get_current_time"), "Noon."], name="priced")
    seen = Counter[str]()
    async with running_gateway(tmp_path, model=model, budget=budget, store=store_settings(state), **given) as gateway:
        store = gateway.gateway.parts.store
        reserve, keep = store.budgets.reserve, store.conversations.keep

        async def reserved(*words: Any, **named: Any) -> Any:
            seen["reserved"] += 1
            return await reserve(*words, **named)

        def kept(*words: Any, **named: Any) -> Any:
            seen["settled by a write"] += len(named["settles"])
            return keep(*words, **named)

        monkeypatch.setattr(store.budgets, "reserve", reserved)
        monkeypatch.setattr(store.conversations, "keep", kept)
        headers = {"authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=WAIT, headers=headers) as client:
            said = await client.post("/webhook", json={"message": "What time is it?"})
        assert said.json()["response"] == "Noon."
    assert (seen["reserved"], seen["settled by a write"]) == (times, times)


async def test_a_reply_that_can_not_be_stored_settles_nothing(store: Store) -> None:
    session = await store.conversations.create(owner="ann")
    limits = all_limits(day=1.0)
    held = await reserved(store, "a", 0.5, limits)
    storing = store.conversations.keep(
        session.id, UserMessage((Text("Hi."),)), owner="ann", after=7, settles=(Settlement(held, to_nano(0.3)),)
    )
    assert storing is not None
    with pytest.raises(Exception, match="has 0 messages and not 7"):
        await storing
    (state,) = await store.budgets.states(limits, day=DAY)
    assert (state.spent, to_dollars(state.held)) == (0, 0.5)


async def test_requests_side_by_side_never_reserve_the_same_money(store: Store) -> None:
    limits = all_limits(day=1.0)
    tries = [store.budgets.reserve(f"r{number}", ANN, costing(0.3), limits, day=DAY) for number in range(20)]
    found = await asyncio.gather(*tries)
    assert sum(isinstance(one, Reservation) for one in found) == 3


async def test_nodes_that_change_the_same_budget_all_the_time_wait_for_each_other(state: Path, store: Store) -> None:
    session = await store.conversations.create(owner="ann")
    await store.conversations.append(session.id, UserMessage((Text("Hi."),)), owner="ann")
    async with AsyncExitStack() as resources:
        others = [await resources.enter_async_context(open_store(state)) for _ in range(2 if is_postgres() else 0)]

        async def pay(node: Store, name: str) -> None:
            held = await reserved(node, name, 0.01, all_limits(day=9.0))
            await node.budgets.settle([Settlement(held, to_nano(0.01), 1)])

        async def answer() -> None:
            """A reply whose write settles its request, while other nodes settle theirs."""
            settles = (Settlement(await reserved(store, "reply", 0.01, all_limits(day=9.0)), to_nano(0.01), 1),)
            reply = AssistantMessage((Text("Hello."),), model="m", usage=Usage(1, 1))
            storing = store.conversations.keep(session.id, reply, owner="ann", after=1, settles=settles)
            assert storing is not None
            await storing

        nodes = [store, *others]
        paying = [pay(node, f"{number} at {place}") for number in range(60) for place, node in enumerate(nodes)]
        await soon(asyncio.gather(*paying, answer()))
        (found,) = await store.budgets.states(all_limits(day=9.0), day=DAY)
    assert (found.spent, found.held) == ((len(paying) + 1) * to_nano(0.01), 0)


@pytest.mark.outside
async def test_what_a_process_that_is_gone_has_reserved_is_released(state: Path) -> None:
    limits = all_limits(day=1.0)
    script = f"{RESERVING}asyncio.run(main({str(state)!r}))"
    died = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], timeout=WAIT, check=False)
    assert died.returncode == -signal.SIGKILL
    async with open_store(state) as store:
        (before,) = await store.budgets.states(limits, day=DAY)
        assert to_dollars(before.held) == 0.6
        await store.recover()
        (after,) = await store.budgets.states(limits, day=DAY)
        assert (after.held, after.spent) == (0, 0)


RESERVING = """
import asyncio, os, signal
from pathlib import Path
from tests.store.test_budgets import all_limits, reserved
from tests.stores import open_store

async def main(folder):
    async with open_store(Path(folder)) as store:
        await reserved(store, "a", 0.6, all_limits(day=1.0))
        os.kill(os.getpid(), signal.SIGKILL)

"""
