"""What replies used, as sums: a count that no reply gave stays unknown (SPEC M6)."""

from typing import Any

import pytest

from handspan.core.errors import ToolError
from handspan.core.messages import Usage
from handspan.core.records import Total, UsageSum
from handspan.core.store import Store
from tests.store.things import Clock, answers, asks, says, user
from tests.waiting import soon

pytestmark = pytest.mark.anyio

DAY = 24 * 3600.0
NOTHING = Total(None, 1)


async def test_what_no_reply_said_is_unknown_and_never_0(store: Store) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    await soon(store.conversations.append(session.id, user(), says(), owner="ann"))
    assert await soon(store.usage.sums("model", owner="ann")) == [
        UsageSum("m", 1, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)
    ]


async def test_known_and_unknown_are_counted_apart(store: Store) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    append = store.conversations.append
    await soon(append(session.id, says(usage=Usage(100, 10, 0, None)), owner="ann", cost=0.25))
    await soon(append(session.id, user(), says(usage=Usage(50, None, 20, None)), owner="ann", cost=0.5))
    await soon(append(session.id, user(), says(), owner="ann"))
    assert await soon(store.usage.sums("session", owner="ann", session=session.id)) == [
        UsageSum(session.id, 3, Total(150, 1), Total(10, 2), Total(20, 1), Total(None, 3), Total(0.75, 1))
    ]


@pytest.mark.parametrize("nonsense", [-1, 2**40, 2**70])
async def test_a_count_that_can_be_none_is_unknown(store: Store, nonsense: int) -> None:
    session = await soon(store.conversations.create(owner="ann"))
    usage = Usage(nonsense, nonsense, nonsense, nonsense)
    await soon(store.conversations.append(session.id, says(usage=usage), owner="ann", cost=float("nan")))
    assert await soon(store.usage.sums("model", owner="ann")) == [
        UsageSum("m", 1, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)
    ]


async def test_sums_by_session_model_and_day_are_the_owners_own(store: Store, clock: Clock) -> None:
    one, two = [await soon(store.conversations.create(owner="ann")) for _ in range(2)]
    bobs = await soon(store.conversations.create(owner="bob"))
    append = store.conversations.append
    await soon(append(one.id, asks("a", model="x", usage=Usage(1)), answers("a"), owner="ann"))
    await soon(append(bobs.id, says(model="x", usage=Usage(1000)), owner="bob"))
    clock.now += DAY
    await soon(append(one.id, says(model="y", usage=Usage(10)), owner="ann"))
    await soon(append(two.id, says(model="x", usage=Usage(100)), owner="ann"))

    async def inputs(by: str, **which: str) -> dict[str, float | None]:
        assert by in ("session", "model", "day")
        sums = await soon(store.usage.sums(by, owner="ann", **which))  # type: ignore[arg-type] # just checked
        return {each.of: each.input.known for each in sums}

    assert await inputs("session") == {one.id: 11, two.id: 100}
    assert await inputs("model") == {"x": 101, "y": 10}
    assert await inputs("day") == {"2026-01-01": 1, "2026-01-02": 110}
    assert await inputs("model", session=one.id) == {"x": 1, "y": 10}
    assert await inputs("day", since="2026-01-02") == {"2026-01-02": 110}
    assert await inputs("day", session=bobs.id) == {}


async def test_a_word_that_is_no_way_to_sum_never_gets_into_a_statement(store: Store) -> None:
    word: Any = "model FROM usage; --"
    with pytest.raises(ToolError, match="summed by session, model, agent, day"):
        await soon(store.usage.sums(word, owner="ann"))
