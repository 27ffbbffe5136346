"""Moving an embedded installation into PostgreSQL: all of it or nothing, as often as one likes (SPEC K1)."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from handspan.core.events import TurnEnd
from handspan.core.records import ContextMarks, SessionEdit
from handspan.core.results import succeed
from handspan.core.store import Store
from handspan.store.bodies import PIECE
from handspan.store.postgres import move
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.move import MoveReport, move_to_postgres
from handspan.store.sqlite.store import sqlite_store
from tests.postgres_engine import run_sql_at, schema_url
from tests.store.postgres.conftest import store_at
from tests.store.things import answers, asks, call, finished, question, says, started, user
from tests.stores import rows_in
from tests.thoroughness import repeats
from tests.waiting import soon

pytestmark = pytest.mark.anyio

MOVING = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'handspan move %'"
LARGE = os.urandom(2 * PIECE + 7)


async def fill(folder: Path) -> str:
    """An installation with something of everything; its session."""
    async with sqlite_store(folder) as store:
        session = (await store.conversations.create(owner="ann", name="Notes")).id
        record = await started(store.ledger, call(session=session))
        await store.conversations.append(session, user("a\0b"), asks(record.id), owner="ann")
        await finished(store.ledger, record, succeed("kept"))
        await store.conversations.append(session, answers(record.id), says("Done."), user(), owner="ann")
        await store.threads.remove(session, 5, owner="ann")
        await store.conversations.end_turn(session, owner="ann", end=TurnEnd("limit", 1.5, "m"))
        await store.ledger.note(record.id, "late")
        await store.questions.ask(question())
        await store.switches.switch_off("web_*")
        await store.tokens.add("hash", owner="ann", scopes=("chat",), label="l")
        await store.artifacts.keep(LARGE, owner="ann", session=session, media_type="image/png", name="a.png")
        await store.artifacts.keep(b"", owner="bob")
        await store.memories.add("tea", owner="ann", kind="k", category="c", metadata={"a": 1})
        await fill_long(store)
        return session


async def fill_long(store: Store) -> None:
    """A conversation with a version that was left, and with marks of its context."""
    await store.conversations.create(owner="ann", session="long")
    await store.conversations.append("long", user("one"), says("red"), user("two"), says("blue"), owner="ann")
    await store.conversations.begin_turn("long", owner="ann")
    await store.contexts.set_marks("long", ContextMarks(2, 2, "# Goal", made=4), owner="ann")
    await store.conversations.end_turn("long", owner="ann")
    await store.conversations.rewind("long", 3, owner="ann")
    await store.conversations.edit("long", SessionEdit(pinned=True, archived=True, kind="run", model="m"), owner="ann")
    await store.search.index()
    await store.conversations.append("long", says("green, and not indexed"), owner="ann")
    await store.contexts.learn_window("local", 8000)


async def moved(source: Path, state: Path) -> MoveReport:
    return await soon(move_to_postgres(source, StoreAddress(schema_url(state)), lambda line: None))


async def test_everything_is_there_afterwards_and_again(tmp_path: Path, state: Path) -> None:
    session = await fill(tmp_path / "old")
    async with sqlite_store(tmp_path / "old") as old:
        messages = await old.conversations.load(session, owner="ann")
        record = await old.conversations.get(session, owner="ann")
        key = await old.idempotency.call_id("ann", "k")
        marks = await old.contexts.marks("long", owner="ann")
        versions = await old.conversations.versions("long", owner="ann")
        long = await old.conversations.get("long", owner="ann")
    report = await moved(tmp_path / "old", state)
    assert not report.was_done and report.tables["messages"].count == 8
    assert (await moved(tmp_path / "old", state)).was_done
    async with store_at(schema_url(state), state) as store:
        assert await soon(store.conversations.load(session, owner="ann")) == messages
        assert await soon(store.conversations.get(session, owner="ann")) == record
        assert await soon(store.conversations.ends(session, owner="ann")) == {4: TurnEnd("limit", 1.5, "m")}
        assert await soon(store.idempotency.call_id("ann", "k")) == key
        assert marks.summary and await soon(store.contexts.marks("long", owner="ann")) == marks
        assert versions and await soon(store.conversations.versions("long", owner="ann")) == versions
        assert await soon(store.contexts.windows()) == {"local": 8000}
        assert long.pinned and await soon(store.conversations.get("long", owner="ann")) == long
        for word, place in (("red", (2, None)), ("blue", (1, 4)), ("green", (4, None))):
            (text,) = (await soon(store.search.find(word, owner="ann", left=True))).found
            assert (text.seq, text.branch) == place, word
        assert await store.switches.off() == ["web_*"]
        [stored] = await store.artifacts.all(owner="ann")
        assert (stored.ref.name, stored.ref.media_type, stored.session) == ("a.png", "image/png", session)
        assert await store.artifacts.read(stored.ref.id, owner="ann") == LARGE
        [empty] = await store.artifacts.all(owner="bob")
        assert await store.artifacts.read(empty.ref.id, owner="bob") == b""
        await soon(store.conversations.append(session, user(), owner="ann", after=4))
        [found], _ = await soon(store.ledger.page(owner="ann"))
        assert found.result == succeed("kept")
        assert [note.text for note in await soon(store.ledger.notes(found.id, owner="ann"))] == ["late"]
    with pytest.raises(StoreError, match="the database is in use already"):
        await moved(tmp_path / "old", state)


@pytest.mark.parametrize("table", ["sessions", "tokens"])
async def test_an_interrupted_move_leaves_nothing_and_can_be_run_again(
    tmp_path: Path, state: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path / "old")
    copy = move._move_table

    async def broken(source: object, raw: object, name: str, *, is_empty: bool) -> object:
        if name == table:
            raise OSError("the link broke")
        return await copy(source, raw, name, is_empty=is_empty)  # type: ignore[arg-type] # handed through

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="the link broke"):
        patch.setattr(move, "_move_table", broken)
        await moved(tmp_path / "old", state)
    assert rows_in(state, "SELECT count(*) FROM messages") == [(0,)]
    assert not (await moved(tmp_path / "old", state)).was_done


async def test_artifacts_that_are_not_whole_are_left_out_and_a_changed_one_is_noticed(
    tmp_path: Path, state: Path
) -> None:
    await fill(tmp_path / "old")
    folder = tmp_path / "old" / "artifacts"
    (folder / f"{'a' * 32}.json").write_bytes(b"{")
    (folder / f"{'b' * 32}.part").write_bytes(b"half")
    assert (await moved(tmp_path / "old", state)).tables["artifacts"].count == 2
    assert rows_in(state, "SELECT state FROM artifacts") == [("stored",), ("stored",)]
    rows_in(state, "UPDATE artifact_chunks SET body = set_byte(body, 0, 255 - get_byte(body, 0)) WHERE number = 1")
    with pytest.raises(StoreError, match="The table 'artifacts' has 2 rows there and 2 here, or other content"):
        await moved(tmp_path / "old", state)


async def fill_much(folder: Path) -> None:
    async with sqlite_store(folder) as store:
        session = (await store.conversations.create(owner="ann", name="Notes")).id
        for _ in range(10):
            await store.conversations.append(session, *[user("x" * 500)] * 300, owner="ann")
        await store.artifacts.keep(LARGE * 8, owner="ann")


def test_a_move_that_is_killed_anywhere_leaves_all_or_nothing_and_can_be_run_again(tmp_path: Path, state: Path) -> None:
    asyncio.run(fill_much(tmp_path / "old"))
    url = schema_url(state)
    environ = {**os.environ, "HOME": str(tmp_path), "HANDSPAN_STATE": str(tmp_path / "old")}
    command = [str(Path(sys.executable).with_name("handspan")), "store", "migrate", "--to", url]
    chance = random.Random(17)
    for _ in range(repeats(9)):
        moving = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while moving.poll() is None and not run_sql_at(url, MOVING):
            time.sleep(0.05)
        time.sleep(chance.random() * 0.5)  # wherever it is then
        moving.kill()
        moving.wait()
        while run_sql_at(url, MOVING):  # the server notices at once that its client has gone
            time.sleep(0.05)
        if rows_in(state, "SELECT to_regclass('messages')::text") == [(None,)]:
            continue  # it was killed before it had made the tables
        counts = rows_in(state, "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM artifact_chunks)")
        assert counts in ([(0, 0)], [(3000, len(LARGE) * 8 // PIECE + 1)])
    assert asyncio.run(moved(tmp_path / "old", state)).tables["messages"].count == 3000


async def test_a_folder_in_use_or_without_a_database_is_refused(tmp_path: Path, state: Path) -> None:
    with pytest.raises(StoreError, match="There is no database"):
        await moved(tmp_path / "nothing", state)
    async with sqlite_store(tmp_path / "old"):
        with pytest.raises(StoreError, match="stop it first"):
            await moved(tmp_path / "old", state)


def run(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("handspan")), "store", *words]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)


def test_the_commands_move_and_check(tmp_path: Path, state: Path) -> None:
    asyncio.run(fill(tmp_path / "old"))
    url = schema_url(state)
    here = {"HOME": str(tmp_path), "HANDSPAN_STATE": str(tmp_path / "old")}
    there = {**here, "HANDSPAN_DATABASE_URL": url}
    assert "All of it fits together." in run(here, "check").stdout
    told = run(here, "migrate", "--to", url)
    assert "are moved, and all of them are equal" in told.stdout, told.stderr
    assert "All of it fits together." in run(there, "check").stdout
    rows_in(state, "UPDATE sessions SET length = 9 RETURNING 1")
    broken = run(there, "check")
    assert broken.returncode == 1 and "2 sessions with another length" in broken.stderr
