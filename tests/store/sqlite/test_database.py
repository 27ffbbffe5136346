"""One file, one writer, commits in groups; and clear words when the disk won't have it."""

import asyncio
import os
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from handspan.core.errors import StoreError, ToolError
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.migrations import MIGRATIONS
from handspan.store.tables.database import TableConnection, join_unit, unit_of_work
from tests.store.things import no_room, user
from tests.stores import is_sound, open_store, rows_in
from tests.waiting import soon

pytestmark = pytest.mark.anyio

NUMBERS = ("CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT);",)


async def insert(number: int, connection: TableConnection) -> None:
    await connection.execute("INSERT INTO numbers VALUES (?, '')", (number,))


async def mistake(connection: TableConnection) -> float:
    return 1 / 0


def place(file: Path, content: bytes) -> None:
    """Let this be there before anybody else comes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def open_for_all(state: Path) -> None:
    """A state folder and a database that everybody may read."""
    place(state / "handspan.db", b"")
    (state / "handspan.db").chmod(0o644)
    state.chmod(0o755)


def modes_below(folder: Path) -> dict[str, int]:
    """The access modes of all that is there."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


class Numbers(SqliteDatabase):
    """A database with a single table of numbers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NUMBERS)

    def put(self, number: int, text: str = "") -> asyncio.Future[int]:
        sql = "INSERT INTO numbers VALUES (?, ?)"
        return self.write(lambda connection: connection.execute(sql, (number, text)))

    def stop(self) -> tuple[threading.Event, asyncio.Future[bool]]:
        """Let the writer wait until the event is set, so that works gather behind it."""
        go_on = threading.Event()

        async def wait(connection: TableConnection) -> bool:
            return go_on.wait(20)

        return go_on, self.write(wait)

    async def kept(self) -> list[int]:
        sql = "SELECT n FROM numbers ORDER BY rowid"
        return [row[0] for row in await soon(self.fetch_all(sql))]


@pytest.fixture
def numbers(state: Path) -> Numbers:
    return Numbers(state)


# What can go wrong.


async def test_a_database_of_a_newer_version_is_refused_with_words(state: Path) -> None:
    async with open_store(state):
        pass
    rows_in(state, "PRAGMA user_version = 99")
    known = rf"is of version 99, and this Handspan knows versions up to {len(MIGRATIONS)}\. Use the newer"
    with pytest.raises(StoreError, match=known):
        await soon(open_store(state).open())


async def test_a_file_that_is_no_database_is_refused_with_words(state: Path) -> None:
    place(state / "handspan.db", b"a shopping list, nothing else\n" * 100)
    with pytest.raises(StoreError, match=r"it is not a database\. Put a backup in its place") as refused:
        await soon(open_store(state).open())
    assert refused.value.code == "execution_failed"
    assert (state / "handspan.db").read_bytes().startswith(b"a shopping list")


async def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"can't be made: Not a directory\..* set another `state` folder"):
        await soon(open_store(tmp_path / "file" / "state").open())


async def test_a_folder_for_the_runs_that_cannot_be_made_is_said(state: Path) -> None:
    place(state / "runs", b"")
    with pytest.raises(StoreError, match="runs' can't be used: File exists"):
        await soon(open_store(state).open())


async def test_what_is_closed_can_neither_be_written_nor_read(numbers: Numbers) -> None:
    await soon(numbers.open())
    await soon(numbers.close())
    await soon(numbers.close())
    with pytest.raises(StoreError, match="is closed"):
        await numbers.put(1)
    with pytest.raises(StoreError, match="is closed"):
        await numbers.kept()
    assert numbers.commits == 0


async def test_a_work_that_fails_takes_no_other_with_it(numbers: Numbers) -> None:
    await soon(numbers.open())
    go_on, _ = numbers.stop()
    first, twice, last = numbers.put(1), numbers.put(1), numbers.put(2)
    go_on.set()
    assert await soon(first) == 1
    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        await soon(twice)
    assert await soon(last) == 1
    assert await numbers.kept() == [1, 2]
    await soon(numbers.close())


async def test_a_refusal_half_way_leaves_nothing_of_its_work(numbers: Numbers) -> None:
    await soon(numbers.open())

    async def half(connection: TableConnection) -> None:
        await connection.execute("INSERT INTO numbers VALUES (7, '')")
        raise ToolError("busy", "not now")

    go_on, _ = numbers.stop()
    before, refused, after = numbers.put(1), numbers.write(half), numbers.put(2)
    go_on.set()
    with pytest.raises(ToolError, match="not now"):
        await soon(refused)
    await soon(asyncio.gather(before, after))
    assert await numbers.kept() == [1, 2]
    await soon(numbers.close())


async def test_a_refusal_that_wrote_nothing_costs_the_group_nothing(numbers: Numbers) -> None:
    await soon(numbers.open())

    async def refuse(connection: TableConnection) -> None:
        raise ToolError("busy", "not now")

    before = numbers.commits
    go_on, _ = numbers.stop()
    outcomes = asyncio.gather(numbers.put(1), numbers.write(refuse), numbers.put(2), return_exceptions=True)
    go_on.set()
    assert [str(outcome) for outcome in await soon(outcomes)] == ["1", "not now", "1"]
    assert numbers.commits - before <= 2  # the one that stood still, and the group
    await soon(numbers.close())


async def test_a_mistake_in_a_work_is_said_and_logged(numbers: Numbers, caplog: pytest.LogCaptureFixture) -> None:
    await soon(numbers.open())
    with pytest.raises(StoreError, match="division by zero"):
        await soon(numbers.write(mistake))
    assert "A work of the store failed" in caplog.text
    assert await soon(numbers.put(1)) == 1
    await soon(numbers.close())


async def test_a_reading_that_fails_is_said_and_the_next_one_works(numbers: Numbers) -> None:
    await soon(numbers.open())
    with pytest.raises(StoreError, match="no such table: letters"):
        await soon(numbers.read(lambda connection: connection.fetch_all("SELECT * FROM letters")))
    with pytest.raises(ZeroDivisionError):
        await soon(numbers.read(mistake))
    assert await numbers.kept() == []
    await soon(numbers.close())


async def test_readers_cannot_write(numbers: Numbers) -> None:
    await soon(numbers.open())
    with pytest.raises(StoreError, match="it is read-only"):
        await soon(numbers.read(lambda connection: connection.execute("INSERT INTO numbers VALUES (1, '')")))
    await soon(numbers.close())


async def test_a_file_that_vanishes_under_the_readers_is_said(numbers: Numbers, state: Path) -> None:
    await soon(numbers.open())
    (state / "handspan.db").unlink()
    with pytest.raises(StoreError, match="can't be opened"):
        await numbers.kept()
    await soon(numbers.close())


# A disk without room.


async def test_a_full_disk_is_said_and_when_there_is_room_again_writing_goes_on(numbers: Numbers, state: Path) -> None:
    await soon(numbers.open())
    await soon(numbers.put(1, "kept"))
    with no_room((state / "handspan.db-wal").stat().st_size):
        go_on, stopped = numbers.stop()
        failing = [numbers.put(number, "x" * 9000) for number in (2, 3, 4)]
        go_on.set()
        _, *outcomes = await soon(asyncio.gather(stopped, *failing, return_exceptions=True))
    assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
    assert "nothing that was acknowledged is lost" in str(outcomes[0])
    assert await numbers.kept() == [1]
    assert await soon(numbers.put(5)) == 1
    assert await numbers.kept() == [1, 5]
    await soon(numbers.close())
    assert is_sound(state)


async def test_a_database_that_may_not_grow_takes_what_fits(numbers: Numbers, state: Path) -> None:
    await soon(numbers.open())
    pages = await soon(numbers.write(lambda connection: connection.fetch_value("PRAGMA max_page_count = 4")))
    assert pages == 4
    go_on, _ = numbers.stop()
    small, large, other = numbers.put(1, "a"), numbers.put(2, "x" * 50_000), numbers.put(3, "b")
    go_on.set()
    assert await soon(small) == 1
    with pytest.raises(StoreError, match=r"the disk is full\. Make room; nothing that was acknowledged is lost"):
        await soon(large)
    assert await soon(other) == 1
    assert await numbers.kept() == [1, 3]
    await soon(numbers.write(lambda connection: connection.fetch_one("PRAGMA max_page_count = 10000")))
    assert await soon(numbers.put(2, "x" * 50_000)) == 1
    await soon(numbers.close())


@pytest.mark.outside
async def test_a_disk_that_is_really_full_loses_nothing_acknowledged(tmp_path: Path) -> None:
    small = ["bwrap", "--dev-bind", "/", "/", "--size", str(1024 * 1024), "--tmpfs", str(tmp_path)]
    if await _run(*small, "true") != 0:
        pytest.skip("bubblewrap can't make a small file system here")
    full = [sys.executable, "-m", "tests.store.sqlite.filling", str(tmp_path / "state")]
    assert await _run(*small, *full) == 0


@pytest.mark.outside
async def test_a_read_only_disk_is_said(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state"):
        pass
    protected = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(tmp_path), str(tmp_path)]
    if await _run(*protected, "true") != 0:
        pytest.skip("bubblewrap can't make a read-only file system here")
    opening = [sys.executable, "-m", "tests.store.sqlite.opening", str(tmp_path / "state")]
    assert await _run(*protected, *opening) == 0


async def _run(*command: str) -> int:
    root = Path(__file__).parents[3]
    try:
        ended = await asyncio.to_thread(subprocess.run, command, cwd=root, timeout=40, check=False)
    except FileNotFoundError:
        return 127
    return ended.returncode


# Commits.


async def test_what_gathers_while_the_disk_is_busy_goes_into_one_commit(numbers: Numbers) -> None:
    await soon(numbers.open())
    before = numbers.commits
    go_on, _ = numbers.stop()
    written = [numbers.put(number) for number in range(300)]
    go_on.set()
    await soon(asyncio.gather(*written))
    assert numbers.commits - before <= 2  # the one that stood still may have gone alone
    assert await numbers.kept() == list(range(300))
    await soon(numbers.close())


async def test_more_than_fits_into_one_commit_goes_into_two(numbers: Numbers) -> None:
    await soon(numbers.open())
    before = numbers.commits
    go_on, _ = numbers.stop()
    written = [numbers.put(number) for number in range(700)]
    go_on.set()
    await soon(asyncio.gather(*written))
    assert 2 <= numbers.commits - before <= 3
    assert await numbers.kept() == list(range(700))
    await soon(numbers.close())


async def test_acknowledged_means_that_others_see_it(numbers: Numbers, state: Path) -> None:
    await soon(numbers.open())
    for number in range(20):
        await soon(numbers.put(number))
        assert rows_in(state, "SELECT MAX(n) FROM numbers") == [(number,)]
    await soon(numbers.close())


async def test_every_commit_waits_for_the_disk(numbers: Numbers) -> None:
    await soon(numbers.open())

    async def ask(connection: TableConnection) -> list[object]:
        names = ("journal_mode", "synchronous", "secure_delete")
        return [await connection.fetch_value(f"PRAGMA {name}") for name in names]

    asked = await soon(numbers.write(ask))
    assert asked == ["wal", 2, 1]  # 2 is FULL
    await soon(numbers.close())


async def test_closing_writes_what_no_caller_waited_for(numbers: Numbers, state: Path) -> None:
    await soon(numbers.open())
    go_on, _ = numbers.stop()
    for number in range(50):
        numbers.put(number)
    closing = asyncio.create_task(numbers.close())
    await asyncio.sleep(0)
    go_on.set()
    await soon(closing)
    assert rows_in(state, "SELECT COUNT(*) FROM numbers") == [(50,)]
    assert [name for name in modes_below(state) if name.startswith("handspan")] == ["handspan.db"]


async def test_what_a_cancelled_task_had_put_is_written_all_the_same(numbers: Numbers) -> None:
    await soon(numbers.open())
    go_on, _ = numbers.stop()

    async def put() -> None:
        await numbers.put(1)

    task = asyncio.create_task(put())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=20)
    go_on.set()
    assert await soon(numbers.put(2)) == 1
    assert await numbers.kept() == [1, 2]
    await soon(numbers.close())


def test_a_write_of_a_loop_that_closed_meanwhile_is_committed(numbers: Numbers, state: Path) -> None:
    async def leave() -> threading.Event:
        await numbers.open()
        go_on, _ = numbers.stop()
        numbers.put(1)
        return go_on

    asyncio.run(leave()).set()
    asyncio.run(numbers.close())
    assert rows_in(state, "SELECT n FROM numbers") == [(1,)]


# Together.


async def test_a_unit_is_committed_as_one(numbers: Numbers, state: Path) -> None:
    await soon(numbers.open())
    before = numbers.commits
    async with unit_of_work(numbers):
        for number in range(3):
            await join_unit(numbers, partial(insert, number))
        async with unit_of_work(numbers):
            await join_unit(numbers, partial(insert, 3))
        assert rows_in(state, "SELECT n FROM numbers") == []
    assert rows_in(state, "SELECT n FROM numbers") == [(0,), (1,), (2,), (3,)]
    assert numbers.commits - before == 1
    await soon(numbers.close())


async def test_a_unit_fails_as_one(numbers: Numbers) -> None:
    await soon(numbers.open())
    with pytest.raises(StoreError, match="UNIQUE"):
        async with unit_of_work(numbers):
            for number in (1, 2, 1):
                await join_unit(numbers, partial(insert, number))
    assert await numbers.kept() == []
    await soon(numbers.close())


async def test_what_happened_in_a_block_that_fails_is_written(numbers: Numbers) -> None:
    await soon(numbers.open())
    with pytest.raises(ZeroDivisionError):
        async with unit_of_work(numbers):
            await join_unit(numbers, partial(insert, 1))
            raise ZeroDivisionError
    assert await numbers.kept() == [1]
    await soon(numbers.close())


async def test_a_task_that_outlives_the_block_writes_for_itself(numbers: Numbers) -> None:
    await soon(numbers.open())
    over = asyncio.Event()

    async def late() -> None:
        await over.wait()
        await join_unit(numbers, partial(insert, 1))

    async with unit_of_work(numbers):
        task = asyncio.create_task(late())
    over.set()
    await soon(task)
    assert await numbers.kept() == [1]
    await soon(numbers.close())


async def test_an_empty_block_commits_nothing(numbers: Numbers) -> None:
    await soon(numbers.open())
    before = numbers.commits
    async with unit_of_work(numbers):
        pass
    assert numbers.commits == before
    await soon(numbers.close())


# Files and versions.


async def test_folders_are_700_and_files_600_whatever_was_there_before(state: Path) -> None:
    open_for_all(state)
    before = os.umask(0)
    try:
        async with open_store(state) as store:
            await store.conversations.create(owner="ann")
            modes = modes_below(state)
    finally:
        os.umask(before)
    lock = next(name for name in modes if name.startswith("runs/"))
    assert modes == {
        ".": 0o700,
        "handspan.db": 0o600,
        "handspan.db-wal": 0o600,
        "handspan.db-shm": 0o600,
        "runs": 0o700,
        lock: 0o600,
    }


async def test_a_database_of_version_1_keeps_its_sessions_and_gets_what_came_later(state: Path) -> None:
    old = SqliteDatabase(state, MIGRATIONS[:1])
    await soon(old.open())
    await soon(
        old.write(
            lambda connection: connection.execute(
                "INSERT INTO sessions (id, owner, agent, name, created, active) VALUES ('s1', 'ann', 'A', 'Old', 1, 1)"
            )
        )
    )
    await soon(old.close())
    assert rows_in(state, "PRAGMA user_version") == [(1,)]
    async with open_store(state) as store:
        await store.conversations.append("s1", user(), owner="ann")
        assert (await store.conversations.get("s1", owner="ann")).name == "Old"
        assert await store.usage.sums("day", owner="ann") == []
        assert await store.tokens.all(owner="ann") == []
    assert rows_in(state, "PRAGMA user_version") == [(len(MIGRATIONS),)]


async def test_a_step_that_fails_leaves_the_version_before_it(state: Path) -> None:
    broken = SqliteDatabase(state, (*NUMBERS, "CREATE TABLE more (n);\nCREATE TABLE numbers (n);"))
    with pytest.raises(StoreError, match="numbers already exists"):
        await soon(broken.open())
    # The first step was part of the same transaction: a half-made database is none.
    assert rows_in(state, "SELECT name FROM sqlite_master") == []
    assert rows_in(state, "PRAGMA user_version") == [(0,)]


async def test_two_that_open_a_new_database_at_once_make_it_once(state: Path) -> None:
    stores = [open_store(state) for _ in range(4)]
    await soon(asyncio.gather(*(store.open() for store in stores)))
    sessions = await soon(asyncio.gather(*(store.conversations.create(owner="ann") for store in stores)))
    page = await stores[0].conversations.page(owner="ann")
    assert {session.id for session in page.sessions} == {session.id for session in sessions}
    await soon(asyncio.gather(*(store.close() for store in stores)))
    assert is_sound(state)


async def test_a_folder_with_odd_characters_works(tmp_path: Path) -> None:
    async with open_store(tmp_path / "50% off? #1 ü") as store:
        session = await store.conversations.create(owner="ann")
        assert await store.conversations.get(session.id, owner="ann") == session


async def test_what_was_deleted_is_in_no_file_any_more(state: Path) -> None:
    async with open_store(state) as store:
        session = (await soon(store.conversations.create(owner="ann"))).id
        await soon(store.conversations.append(session, user("my secret"), owner="ann"))
        await soon(store.conversations.delete(session, owner="ann"))
    assert not [name for name in os.listdir(state) if b"my secret" in content(state / name)]


def content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
