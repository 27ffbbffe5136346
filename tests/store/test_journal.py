"""The journal, read by what calls have in common: in SQL that an index serves, with pages that stay where they are."""

import itertools
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.calls import AskingModel, CallRecord, ToolFacts
from handspan.core.errors import ErrorCode
from handspan.core.principals import Origin
from handspan.core.records import CallFilter, ToolTiming
from handspan.core.results import Attachment, Failure, Success, ToolResult, succeed
from handspan.core.store import Store
from tests.store.things import READS, WRITES, call, finished, started
from tests.waiting import soon

pytestmark = pytest.mark.anyio

RESULTS: tuple[ToolResult | None, ...] = (
    succeed({"n": 1}),
    Success("plain"),
    Success("seen", (Attachment("image", "image/png", b"x"),)),
    Failure("timeout", "Too late."),
    Failure("permission_denied", 'It said "code":"success".'),
    None,
)


def named(name: str, at: float, owner: str = "ann", session: str = "") -> CallRecord:
    record = call(at=at, owner=owner, session=session)
    record.name = name
    return record


async def filled(store: Store) -> list[CallRecord]:
    """Calls of two owners, with every tool, session and result."""
    records = []
    places = itertools.product(("ann", "bob"), ("read_file", "write_file"), ("", "s1"), RESULTS)
    for number, (owner, name, session, result) in enumerate(places):
        record = named(name, 1000.0 + number // 3, owner, session)
        await started(store.ledger, record)
        if result is not None:
            await finished(store.ledger, record, result)
        records.append(record)
    return records


def status_of(record: CallRecord) -> str:
    match record.result:
        case Success():
            return "success"
        case Failure(code=code):
            return code
        case _:
            return "open"


def fits(record: CallRecord, only: dict[str, Any]) -> bool:
    """What the words mean, said once more in Python."""
    status = status_of(record)
    return (
        record.owner == "ann"
        and only.get("session") in (None, record.session)
        and only.get("tool") in (None, record.name)
        and (only.get("status") in (None, status) or (only["status"] == "error" and status not in ("open", "success")))
        and only.get("since", 0.0) <= record.at < only.get("until", 1e12)
    )


async def pages(store: Store, limit: int, only: dict[str, Any]) -> list[str]:
    seen: list[str] = []
    after: str | None = None
    for _ in range(100):
        page, after = await soon(store.ledger.page(CallFilter(**only), owner="ann", limit=limit, after=after))
        assert len(page) == limit or after is None
        seen += [record.id for record in page]
        if after is None:
            return seen
    raise AssertionError("The pages do not end")


@pytest.mark.parametrize("limit", [1, 3, 1000])
@pytest.mark.parametrize("status", [None, "open", "success", "error", "timeout", "permission_denied", "busy"])
async def test_every_filter_finds_what_it_names_once_and_nothing_else(
    store: Store, status: str | None, limit: int
) -> None:
    records = await filled(store)
    for session, tool, times in itertools.product(
        (None, "", "s1", "never"), (None, "read_file", "never"), ({}, {"since": 1003.0, "until": 1006.0})
    ):
        only = {"session": session, "tool": tool, "status": status, **times}
        wanted = sorted((r for r in records if fits(r, only)), key=lambda r: (r.at, r.id), reverse=True)
        assert await pages(store, limit, only) == [record.id for record in wanted], only


async def test_calls_of_an_origin_are_found_by_its_kind_or_by_its_name(store: Store) -> None:
    names = ("phone", "phone2", 'ph"öne')
    for number, name in enumerate(names):
        record = named("photo", 1000.0 + number)
        record.tool = ToolFacts(Origin("device", name), "1", False)
        await started(store.ledger, record)
    await started(store.ledger, named("read_file", 2000.0))
    assert len(await pages(store, 2, {"origin": "device"})) == 3
    for name in names:
        assert len(await pages(store, 2, {"origin": f"device({name})"})) == 1
    assert await pages(store, 2, {"origin": "device(pho"}) == await pages(store, 2, {"origin": "dev"}) == []


async def test_timings_are_over_all_finished_calls_of_a_tool(store: Store) -> None:
    times = [float(number) for number in range(1, 41)]
    for number, seconds in enumerate(reversed(times)):
        record = await started(store.ledger, named("read_file", 1000.0 + number, session="s1"))
        record.duration = seconds
        await finished(store.ledger, record, Failure("timeout", "Too late.") if seconds > 37 else succeed(1))
    record = await started(store.ledger, named("write_file", 1.0))
    record.duration = 7.0
    await finished(store.ledger, record, succeed(1))
    await started(store.ledger, named("read_file", 3000.0))  # open: its time is not known
    await finished(store.ledger, await started(store.ledger, named("read_file", 1.0, "bob")), succeed(1))

    found = await soon(store.ledger.timings(owner="ann"))
    assert found == [ToolTiming("read_file", 40, 3, 20.0, 38.0), ToolTiming("write_file", 1, 0, 7.0, 7.0)]
    assert [one.tool for one in await soon(store.ledger.timings(CallFilter(session="s1"), owner="ann"))] == [
        "read_file"
    ]
    assert [one.tool for one in await soon(store.ledger.timings(CallFilter(tool="write_file"), owner="ann"))] == [
        "write_file"
    ]
    assert len(await soon(store.ledger.timings(CallFilter(origin="builtin"), owner="ann"))) == 2
    assert await soon(store.ledger.timings(CallFilter(origin="device"), owner="ann")) == []


async def test_a_page_stays_where_it_is_while_calls_come_and_end(store: Store) -> None:
    records = [await started(store.ledger, named("read_file", 1000.0 + number)) for number in range(6)]
    for record in records:
        await finished(store.ledger, record, Failure("timeout", "Too late."))
    failed = CallFilter(tool="read_file", status="error")
    first, after = await soon(store.ledger.page(failed, owner="ann", limit=3))
    newer = await started(store.ledger, named("read_file", 2000.0))
    await finished(store.ledger, newer, Failure("busy", "Later."))
    second, end = await soon(store.ledger.page(failed, owner="ann", limit=3, after=after))
    assert [record.id for record in (*first, *second)] == [record.id for record in reversed(records)] and end is None


@pytest.mark.parametrize("code", get_args(ErrorCode))
async def test_every_code_of_the_table_is_the_status_of_its_calls(store: Store, code: ErrorCode) -> None:
    record = await started(store.ledger, named("t", 1.0))
    await finished(store.ledger, record, Failure(code, '\ud800 "code":"x" äöü'))
    assert [one.id for one in (await soon(store.ledger.page(CallFilter(status=code), owner="ann")))[0]] == [record.id]


@given(value=st.recursive(st.none() | st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=4))
def test_no_value_of_a_tool_can_look_like_an_error(value: Any) -> None:
    encoded = succeed(value).encoded
    assert encoded.startswith(b'{"status":"success"')


async def test_a_call_names_the_model_that_asked_for_it_from_its_entry_to_its_end(store: Store) -> None:
    asked = AskingModel("far-2", "near", 'It said "no": \\ \0 {busy}.')
    for tool in (READS, WRITES):
        for is_accepted in (True, False):
            record, other = call(tool=tool), call(tool=tool)
            record.asked_by = asked
            if is_accepted:
                await soon(store.ledger.accept(record))
            for one in (record, other):
                await started(store.ledger, one)
            page, _ = await soon(store.ledger.page(owner=record.owner))
            found = {one.id: one.asked_by for one in page}
            assert (found[record.id], found[other.id]) == (asked, None)
            for one in (record, other):
                await finished(store.ledger, one, succeed(1))
            assert (await soon(store.ledger.get(record.id, owner="ann"))).asked_by == asked
            assert (await soon(store.ledger.get(other.id, owner="ann"))).asked_by is None


async def test_a_read_only_call_stands_in_the_journal_as_soon_as_it_runs(store: Store) -> None:
    record = call(tool=READS)
    await started(store.ledger, record)  # in SQLite, it does not wait for its write
    page, _ = await soon(store.ledger.page(owner=record.owner))
    assert [one.id for one in page] == [record.id] and page[0].state == "started"
    await finished(store.ledger, record, succeed(1))
    page, _ = await soon(store.ledger.page(owner=record.owner))
    assert [(one.id, one.state) for one in page] == [(record.id, "done")]
