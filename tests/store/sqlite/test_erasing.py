"""What was deleted is in no file of the database soon after, while the gateway runs (SPEC S6)."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from handspan.store.sqlite import writer
from tests.store.things import says, user
from tests.stores import open_store
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

SECRET = "the secret of a deleted row"


@pytest.fixture(autouse=True)
def soon_emptied(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(writer, "_EMPTY_SECONDS", 0.02)
    monkeypatch.setattr(writer, "_LONGEST_PAUSE", 0.05)


def has_word(state: Path, word: str) -> bool:
    return any(word.encode() in file.read_bytes() for file in state.glob("handspan.db*"))


def is_on_disk(state: Path) -> bool:
    return has_word(state, SECRET)


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


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_words_of_deleted_messages_are_gone_from_the_disk_soon(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MERGED_PAGES", 1)  # the index is written anew in many parts

    store = open_store(state)
    await soon(store.open())
    kept = await soon(store.conversations.create(owner="ann"))
    session = await soon(store.conversations.create(owner="ann", name="Xyzzyword"))
    for number in range(5):
        said = [user(f"{word}{number}") for word in ("plugh", "hello", "waldo")]
        await soon(store.conversations.append(kept.id, *said, owner="ann"))
        await soon(store.search.index())  # each is a part of the index of its own
    await soon(store.conversations.append(session.id, user("Xyzzyword"), says("ok"), owner="ann"))
    await soon(store.search.index())
    assert has_word(state, "xyzzyword")
    await soon(store.conversations.delete(session.id, owner="ann"))
    await until(lambda: not has_word(state, "xyzzyword"))
    assert len((await soon(store.search.find("plugh3 OR hello", owner="ann"))).found) == 0
    assert len((await soon(store.search.find("hello3", owner="ann"))).found) == 1
    await soon(store.close())


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_words_that_a_killed_process_left_are_erased_by_the_next_one(state: Path) -> None:
    async with open_store(state) as store:
        session = await soon(store.conversations.create(owner="ann"))
        await soon(store.conversations.append(session.id, user("plugh hello"), owner="ann"))
        await soon(store.search.index())
    raw = sqlite3.connect(state / "handspan.db")
    raw.execute("DELETE FROM searched")  # as by a process that is killed right after
    raw.commit()
    assert raw.execute("SELECT COUNT(*) FROM erased_words").fetchone() == (1,)
    raw.close()

    def erased() -> bool:
        with contextlib.closing(sqlite3.connect(f"{(state / 'handspan.db').as_uri()}?mode=ro", uri=True)) as reader:
            return reader.execute("SELECT 1 FROM erased_words").fetchone() is None

    async with open_store(state):
        await until(erased)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_short_process_erases_words_before_it_ends(state: Path) -> None:
    async with open_store(state) as store:
        session = await soon(store.conversations.create(owner="ann"))
        await soon(store.conversations.append(session.id, user("plugh hello"), owner="ann"))
        await soon(store.search.index())
        await soon(store.conversations.delete(session.id, owner="ann"))
    assert not has_word(state, "plugh")
