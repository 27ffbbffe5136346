"""What was deleted is in no file of the database soon after, while the gateway runs (SPEC S6)."""

import sqlite3
from pathlib import Path

import pytest

from handspan.store.sqlite import writer
from tests.store.things import user
from tests.stores import open_store
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

SECRET = "the secret of a deleted row"


@pytest.fixture(autouse=True)
def soon_emptied(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(writer, "_EMPTY_SECONDS", 0.02)
    monkeypatch.setattr(writer, "_LONGEST_PAUSE", 0.05)


def is_on_disk(state: Path) -> bool:
    return any(SECRET.encode() in file.read_bytes() for file in state.glob("handspan.db*"))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_deleted_session_is_gone_from_the_disk_soon(state: Path) -> None:
    store = open_store(state)
    await soon(store.open())
    session = await soon(store.conversations.create(owner="ann", agent="General"))
    await soon(store.conversations.append(session.id, user(SECRET), owner="ann"))
    memory = await soon(store.memories.add(SECRET, owner="ann", kind="episodic", category="general", metadata={}))
    assert is_on_disk(state)
    await soon(store.conversations.delete(session.id, owner="ann"))
    await soon(store.memories.delete(memory.id, owner="ann"))
    await until(lambda: not is_on_disk(state))
    assert (state / "handspan.db-wal").exists(), "the store is still open"
    await soon(store.close())


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_reader_delays_that_and_no_write(state: Path) -> None:
    store = open_store(state)
    await soon(store.open())
    session = await soon(store.conversations.create(owner="ann", agent="General"))
    await soon(store.conversations.append(session.id, user(SECRET), owner="ann"))
    reader = sqlite3.connect(state / "handspan.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM messages").fetchall()
    await soon(store.conversations.delete(session.id, owner="ann"))
    for _ in range(20):
        await soon(store.conversations.create(owner="ann", agent="General"))
    assert is_on_disk(state)
    reader.execute("ROLLBACK")
    await until(lambda: not is_on_disk(state))
    reader.close()
    await soon(store.close())
