"""Databases of older versions open, and have what newer ones have."""

from pathlib import Path

import pytest

from handspan.core.records import CallFilter
from handspan.core.values import encode
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.migrations import MIGRATIONS
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import ENTRY, entry_values, outcome_values
from tests.store.test_journal import RESULTS, named
from tests.store.test_threads import numbers, removed
from tests.store.things import says, user
from tests.stores import is_sound, open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def test_messages_of_an_older_version_have_their_places_for_numbers(state: Path) -> None:
    old = SqliteDatabase(state, MIGRATIONS[:5])
    begin = "INSERT INTO sessions (id, owner, agent, name, created, active) VALUES ('t', 'ann', 'General', '', 1, 1)"
    add = "INSERT INTO messages (session, seq, at, body) VALUES ('t', ?, 1, ?)"

    async def fill(connection: TableConnection) -> None:
        await connection.execute(begin)
        for seq, message in enumerate((user("a"), says("b"), user("c")), 1):
            await connection.execute(add, (seq, encode(message)))

    await soon(old.open())
    await soon(old.write(fill))
    await soon(old.close())
    async with open_store(state) as store:
        assert await numbers(store) == [1, 2, 3]
        await removed(store, 1)
        await soon(store.conversations.append("t", says("d"), owner="ann"))
        assert await numbers(store) == [3, 4]


async def test_calls_of_an_older_version_have_their_status_too(state: Path) -> None:
    old = SqliteDatabase(state, MIGRATIONS[:4])
    await soon(old.open())
    entry = ENTRY.removesuffix(", asked_by")
    marks = ", ".join("?" * (len(entry.split(",")) + 7))
    columns = f"{entry}, state, expires_at, duration, result, attachments, true_result, true_attachments"
    records = []
    for number, result in enumerate(RESULTS):
        record = named("t", float(number))
        (expires_at, duration, _, *results) = outcome_values(record, result) if result is not None else (None, 0.0, 0.0)
        values = (expires_at, duration, *(results or [None] * 4))
        row = (*entry_values(record)[:-1], "started" if result is None else "done", *values)
        sql = f"INSERT INTO calls ({columns}) VALUES ({marks})"
        await soon(old.write(lambda connection, sql=sql, row=row: connection.execute(sql, row)))  # type: ignore[misc] # bound now
        records.append(record.id)
    await soon(old.close())
    async with open_store(state) as store:
        for status, places in (("success", (2, 1, 0)), ("error", (4, 3)), ("open", (5,)), ("timeout", (3,))):
            page, _ = await soon(store.ledger.page(CallFilter(status=status), owner="ann"))  # type: ignore[arg-type] # one of them
            assert [record.id for record in page] == [records[place] for place in places], status
            assert {record.asked_by for record in page} == {None}
    assert is_sound(state)


async def test_what_an_older_version_stored_is_found(state: Path) -> None:
    old = SqliteDatabase(state, MIGRATIONS[:23])
    begin = (
        "INSERT INTO sessions (id, owner, agent, name, created, active, length, removed)"
        " VALUES ('t', 'ann', 'General', 'Old notes', 1, 1, 2, 1)"
    )
    add = "INSERT INTO messages (session, seq, number, at, body) VALUES ('t', ?, ?, 1, ?)"
    leave = (
        "INSERT INTO left_messages (session, branch, place, number, at, body, fork, left_at)"
        " VALUES ('t', 2, 1, 2, 1, ?, 1, 1)"
    )

    async def fill(connection: TableConnection) -> None:
        await connection.execute(begin)
        await connection.execute(add, (1, 1, encode(user("quince"))))
        await connection.execute(add, (2, 3, encode(says("medlar"))))
        await connection.execute(leave, (encode(says("sloe")),))

    await soon(old.open())
    await soon(old.write(fill))
    await soon(old.close())
    async with open_store(state) as store:
        for query, seq in (("quince", 1), ("medlar", 2), ("old notes", 0)):
            (found,) = (await soon(store.search.find(query, owner="ann"))).found
            assert (found.session.kind, found.session.pinned, found.seq) == ("chat", False, seq)
        assert (await soon(store.search.find("sloe", owner="ann"))).found == ()
        (left,) = (await soon(store.search.find("sloe", owner="ann", left=True))).found
        assert (left.branch, left.seq) == (2, 1)
    assert is_sound(state)
