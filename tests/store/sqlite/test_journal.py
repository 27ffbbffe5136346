"""An index serves every filter of the journal."""

import pytest

from handspan.core.records import CallFilter
from handspan.core.store import Store
from handspan.store.tables.journal import page_query
from handspan.store.tables.rows import PageCursor
from tests.stores import database_of
from tests.waiting import soon

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("only", "index"),
    [
        (CallFilter(), "calls_by_owner (owner=? AND (at,id)<(?,?))"),
        (CallFilter(since=1.0), "calls_by_owner (owner=? AND at>? AND (at,id)<(?,?))"),
        (CallFilter(status="success"), "calls_by_owner (owner=? AND (at,id)<(?,?))"),
        (CallFilter(session="s"), "calls_by_session (session=? AND (at,id)<(?,?))"),
        (CallFilter(session="s", tool="t"), "calls_by_session (session=? AND (at,id)<(?,?))"),
        (CallFilter(tool="t"), "calls_by_tool (owner=? AND name=? AND (at,id)<(?,?))"),
        (CallFilter(tool="t", status="error"), "calls_by_tool (owner=? AND name=? AND (at,id)<(?,?))"),
        (CallFilter(status="error"), "calls_failed (owner=? AND (at,id)<(?,?))"),
        (CallFilter(status="timeout"), "calls_failed (owner=? AND (at,id)<(?,?))"),
        (CallFilter(status="open"), "calls_open (owner=? AND (at,id)<(?,?))"),
    ],
)
async def test_an_index_serves_the_filter_and_its_order(store: Store, only: CallFilter, index: str) -> None:
    sql, values = page_query("ann", only, PageCursor.parse(None), 50)
    plan = await soon(database_of(store).fetch_all(f"EXPLAIN QUERY PLAN {sql}", values))
    first, _, beside = [row[3] for row in plan]  # and no sorting after them
    assert first == f"SEARCH calls USING INDEX {index}"
    assert beside == "SCAN sessions USING COVERING INDEX sessions_deleted", "no row, if nothing was deleted just now"
