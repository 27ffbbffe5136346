"""Moving large artifacts into a bucket: interrupted in the middle, run again, counted and compared (SPEC K1)."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from handspan.store.bodies import PIECE
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.sqlite.store import sqlite_store
from tests.postgres_engine import schema_url
from tests.store.postgres.conftest import store_at
from tests.store.postgres.storage import PREFIX, Storage, running_storage
from tests.stores import rows_in
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ABOVE = PIECE
LARGE = [os.urandom(PIECE + number) for number in range(1, 6)]
SMALL = b"a row of the database"
HELD_AT = 3
"""A move stops at this artifact: then two objects are in the bucket, and no row counts."""
_LOCK = 4711
_HOLD = f"""
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT count(*) FROM artifacts WHERE place = 'bucket') = {HELD_AT - 1} AND NEW.place = 'bucket' THEN
        PERFORM pg_advisory_xact_lock({_LOCK});
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER hold BEFORE INSERT ON artifacts FOR EACH ROW EXECUTE FUNCTION hold();
"""
_IS_HELD = f"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = {_LOCK} AND NOT granted"


@pytest.fixture
def storage() -> Iterator[Storage]:
    with running_storage() as storage:
        yield storage


async def fill(folder: Path) -> None:
    async with sqlite_store(folder) as store:
        for body in LARGE:
            await store.artifacts.keep(body, owner="ann", media_type="image/png")
        await store.artifacts.keep(SMALL, owner="ann")


@asynccontextmanager
async def held_in_the_middle(url: str) -> AsyncIterator[None]:
    """Inside the block every move waits in front of the third object."""
    database = PostgresDatabase(store_at(url, Path()).database.address)
    await database.open()  # makes the tables
    await database.close()
    holder = await asyncpg.connect(url)
    try:
        await holder.execute(_HOLD)
        await holder.execute(f"SELECT pg_advisory_lock({_LOCK})")
        yield
        await holder.execute(f"SELECT pg_advisory_unlock({_LOCK})")
        await holder.execute("DROP FUNCTION hold CASCADE")
    finally:
        await holder.close()


def begin_move(old: Path, url: str, storage: Storage) -> subprocess.Popen[str]:
    environ = {**os.environ, **storage.variables(ABOVE), "HOME": str(old), "HANDSPAN_STORE__TIMEOUT": "60"}
    command = [str(Path(sys.executable).with_name("handspan")), "store", "migrate", "--to", url, "--state", str(old)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def end_of(moving: subprocess.Popen[str]) -> tuple[str, str]:
    """What the command printed."""
    return await soon(asyncio.to_thread(moving.communicate))


def sums_in(storage: Storage) -> set[str]:
    """The hashes of all objects, as the other client reads them."""
    bucket = storage.settings.bucket
    bodies = [storage.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in storage.objects()]
    return {hashlib.sha256(body).hexdigest() for body in bodies}


async def test_a_move_into_a_bucket_that_is_interrupted_in_the_middle_is_whole_when_it_is_run_again(
    tmp_path: Path, state: Path, storage: Storage
) -> None:
    old, url = tmp_path / "old", schema_url(state)
    await fill(old)
    async with held_in_the_middle(url):
        moving = begin_move(old, url, storage)
        await until(lambda: rows_in(state, _IS_HELD))
        assert len(storage.objects()) == HELD_AT - 1
        moving.kill()
        await end_of(moving)
    assert rows_in(state, "SELECT count(*) FROM artifacts") == [(0,)]  # none of them counts

    told, errors = await end_of(begin_move(old, url, storage))
    assert f"artifacts: {len(LARGE) + 1} rows, sha256 " in told and "are moved" in told, errors
    assert sums_in(storage) == {hashlib.sha256(body).hexdigest() for body in LARGE}
    assert len(storage.objects()) == len(LARGE)
    places = "SELECT place, count(*), (SELECT count(*) FROM artifact_chunks) FROM artifacts GROUP BY place ORDER BY 1"
    assert rows_in(state, places) == [("bucket", len(LARGE), 1), ("rows", 1, 1)]

    told, errors = await end_of(begin_move(old, url, storage))
    assert "were there already" in told, errors

    [first, *_] = storage.objects()
    size = storage.client.head_object(Bucket=storage.settings.bucket, Key=first)["ContentLength"]
    storage.client.put_object(Bucket=storage.settings.bucket, Key=first, Body=bytes(size))
    _, errors = await end_of(begin_move(old, url, storage))
    assert "The table 'artifacts' has 6 rows there and 6 here, or other content" in errors


async def test_a_storage_that_goes_away_in_the_middle_of_a_move_is_named_and_nothing_is_moved(
    tmp_path: Path, state: Path, storage: Storage
) -> None:
    old, url = tmp_path / "old", schema_url(state)
    await fill(old)
    async with held_in_the_middle(url):
        moving = begin_move(old, url, storage)
        await until(lambda: rows_in(state, _IS_HELD))
        storage.client.delete_objects(
            Bucket=storage.settings.bucket, Delete={"Objects": [{"Key": key} for key in storage.objects()]}
        )
        storage.client.delete_bucket(Bucket=storage.settings.bucket)
    _, errors = await end_of(moving)
    assert moving.returncode == 1 and "there is no such bucket. Create it" in errors
    assert rows_in(state, "SELECT count(*) FROM artifacts") == [(0,)]

    storage.client.create_bucket(Bucket=storage.settings.bucket)
    told, errors = await end_of(begin_move(old, url, storage))
    assert "are moved" in told, errors
    assert {key.removeprefix(PREFIX) for key in storage.objects()} == {
        row[0] for row in rows_in(state, "SELECT id FROM artifacts WHERE place = 'bucket'")
    }
