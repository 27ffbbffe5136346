"""Lists of sessions are read by indexes, also filtered ones."""

import pytest

from handspan.core.records import SessionFilter
from handspan.core.store import Store
from tests.stores import database_of
from tests.waiting import soon

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (SessionFilter(), "sessions_by_owner (owner=? AND (active,id)<(?,?))"),
        (SessionFilter(kinds=("chat",), archived=False), "sessions_by_owner (owner=? AND (active,id)<(?,?))"),
        (SessionFilter(pinned=True), "sessions_pinned (owner=?)"),
        (SessionFilter(kinds=("chat",), pinned=True, archived=False), "sessions_pinned (owner=?)"),
        (SessionFilter(archived=True), "sessions_archived (owner=?)"),
    ],
)
async def test_an_index_serves_the_filter(
    store: Store, wanted: SessionFilter, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = database_of(store)
    fetch_all, plans = database.fetch_all, []

    async def explain(sql: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        plans.extend(await fetch_all(f"EXPLAIN QUERY PLAN {sql}", values))
        return await fetch_all(sql, values)

    monkeypatch.setattr(database, "fetch_all", explain)
    await soon(store.conversations.page(wanted, owner="ann"))
    assert plans[0][3] == f"SEARCH sessions USING INDEX {index}"
    assert len(plans) == 1 or not index.startswith("sessions_by_owner"), "only few rows are sorted"
