"""Large artifacts in an S3-compatible storage: a real server of another project, its own client as a judge."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from msgspec.structs import replace

from handspan.config.store_settings import ArtifactSettings, BucketSettings
from handspan.core.errors import ConfigError, StoreError
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from handspan.store.bodies import PIECE, BytesBody, FileBody, PartialFile
from handspan.store.objects.bucket import Bucket, bucket_of
from handspan.store.objects.signature import EMPTY_DIGEST, SigningKey, escape_path
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.store import PostgresStore, postgres_store
from tests.postgres_engine import schema_url
from tests.store.postgres.storage import Storage, running_storage
from tests.store.test_artifacts import pieces_of, refusal
from tests.stores import LEASE_SECONDS, run_sql
from tests.waiting import soon

pytestmark = pytest.mark.anyio

ABOVE = 1000
LARGE = bytes(range(256)) * 20


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    monkeypatch.setenv("TESTS_KEY", "key")
    with running_storage() as storage:
        yield storage


def open_bucket(settings: BucketSettings) -> Bucket:
    bucket = bucket_of(settings, NetGuard())
    assert bucket is not None
    return bucket


def store_with(state: Path, settings: BucketSettings, limits: ArtifactSettings | None = None) -> PostgresStore:
    address = StoreAddress(schema_url(state), connections=6, timeout=30.0)
    bucket = open_bucket(settings)
    return postgres_store(address, state, lease_seconds=LEASE_SECONDS, limits=limits, bucket=bucket, above=ABOVE)


@pytest.fixture
async def store(state: Path, storage: Storage) -> AsyncIterator[PostgresStore]:
    async with store_with(state, storage.settings) as store:
        yield store


async def test_a_large_artifact_is_an_object_and_a_small_one_is_a_row(store: PostgresStore, storage: Storage) -> None:
    small = await store.artifacts.keep(b"x" * ABOVE, owner="ann")
    large = await store.artifacts.keep(LARGE, owner="ann")
    assert storage.objects() == [f"a b/{large.id}"]
    assert await run_sql(store, "SELECT artifact FROM artifact_chunks") == [(small.id,)]
    assert await store.artifacts.read(large.id, owner="ann") == LARGE
    assert [one.ref for one in await store.artifacts.all(owner="ann")] == [large, small]


@pytest.mark.parametrize(("offset", "limit"), [(0, 10), (300, 5), (5100, 99), (5120, 1), (2**70, 5), (-4, 2), (0, -1)])
async def test_any_range_of_an_object_gives_the_bytes_that_are_there(
    store: PostgresStore, offset: int, limit: int
) -> None:
    ref = await store.artifacts.keep(LARGE, owner="ann")
    begin = max(offset, 0)
    expected = LARGE[begin : begin + max(limit, 0)]
    assert await store.artifacts.read(ref.id, owner="ann", offset=offset, limit=limit) == expected


async def test_another_owner_does_not_read_an_object(store: PostgresStore) -> None:
    ref = await store.artifacts.keep(LARGE, owner="bob")
    await refusal(store.artifacts, ref.id)


async def test_an_object_goes_with_its_session(store: PostgresStore, storage: Storage) -> None:
    gone = await store.artifacts.keep(LARGE, owner="ann", session="s")
    kept = await store.artifacts.keep(LARGE, owner="ann", session="t")
    assert await store.artifacts.forget_session("s", owner="ann") == 1
    await refusal(store.artifacts, gone.id)
    assert storage.objects() == [f"a b/{kept.id}"]
    assert await run_sql(store, "SELECT id FROM artifacts") == [(kept.id,)]


async def test_an_object_that_cannot_be_removed_is_said_and_goes_the_next_time(
    store: PostgresStore, storage: Storage, state: Path
) -> None:
    ref = await store.artifacts.keep(LARGE, owner="ann", session="s")
    away = replace(storage.settings, url="http://127.0.0.1:1", timeout=1.0)
    async with store_with(state, away) as without:
        with pytest.raises(StoreError, match=r"object storage http://127.0.0.1:1/handspan-\w+ can't be used: Conn"):
            await soon(without.artifacts.forget_session("s", owner="ann"))
        assert "Connection refused" in await without.artifacts.check()
    await refusal(store.artifacts, ref.id)  # nobody reads it any more
    assert storage.objects() == [f"a b/{ref.id}"]
    assert await store.artifacts.forget_session("s", owner="ann") == 1
    assert storage.objects() == []


async def test_the_oldest_objects_make_room(state: Path, storage: Storage) -> None:
    async with store_with(state, storage.settings, ArtifactSettings(count=2)) as store:
        refs = [await store.artifacts.keep(LARGE, owner="ann") for _ in range(4)]
        assert sorted(storage.objects()) == sorted(f"a b/{ref.id}" for ref in refs[2:])
        assert await run_sql(store, "SELECT count(*) FROM artifacts") == [(2,)]


async def test_what_an_interrupted_process_left_in_the_bucket_goes_with_a_later_artifact(
    store: PostgresStore, storage: Storage
) -> None:
    ref = await store.artifacts.keep(LARGE, owner="ann")
    await store.database.execute("UPDATE artifacts SET state = 'arriving', at = at - 4000")
    await refusal(store.artifacts, ref.id)
    later = await store.artifacts.keep(LARGE, owner="ann")
    assert storage.objects() == [f"a b/{later.id}"]


async def test_a_body_that_cannot_be_put_is_said_and_leaves_nothing(state: Path, storage: Storage) -> None:
    async with store_with(state, replace(storage.settings, bucket="another")) as store:
        with pytest.raises(StoreError, match=r"there is no such bucket\. Create it, or correct `store.objects.bucket`"):
            await soon(store.artifacts.receive(pieces_of(LARGE), owner="ann"))
        assert "there is no such bucket" in await store.artifacts.check()
        assert await store.artifacts.all(owner="ann") == []
        assert list((state / "artifacts").iterdir()) == []


async def test_an_artifact_in_a_bucket_that_is_not_set_any_more_is_said(
    store: PostgresStore, state: Path, storage: Storage
) -> None:
    ref = await store.artifacts.keep(LARGE, owner="ann")
    async with postgres_store(StoreAddress(schema_url(state)), state, lease_seconds=LEASE_SECONDS) as without:
        with pytest.raises(StoreError, match=r"none is set: set `store.objects` as it was before"):
            await without.artifacts.read(ref.id, owner="ann")
    (storage_key,) = storage.objects()
    storage.client.delete_object(Bucket=storage.settings.bucket, Key=storage_key)
    await refusal(store.artifacts, ref.id)


async def test_the_guard_lets_the_bucket_through_and_nothing_else(storage: Storage) -> None:
    guard = NetGuard(UrlPolicy(blocked_domains=("127.0.0.1",)))
    bucket = bucket_of(storage.settings, guard)
    assert bucket is not None and await bucket.check() == ""
    client = guard.client()
    with pytest.raises(Exception, match="blocked domain"):
        await client.get(storage.settings.url)
    await client.aclose()
    await bucket.close()


# A storage that answers as we want.


@pytest.fixture
async def answers() -> AsyncIterator[tuple[str, list[bytes]]]:
    """The address of a server that gives these answers one after the other."""
    planned: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await _skip(reader, int(line.partition(b":")[2]))
        writer.write(planned.pop(0))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", planned


async def _skip(reader: asyncio.StreamReader, size: int) -> None:
    while size > 0:
        size -= len(await reader.read(min(size, PIECE)))


def response(status: int, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body)


def at(url: str) -> Bucket:
    return open_bucket(BucketSettings(url=url, bucket="handspan", access_key="key", secret_key="secret"))


async def test_a_large_file_is_never_whole_in_memory(answers: tuple[str, list[bytes]], tmp_path: Path) -> None:
    url, planned = answers
    planned += [response(200), response(200)]
    bucket = at(url)
    await bucket.put("small", BytesBody(b"x"))  # loads the library
    file = PartialFile(tmp_path, 2**30)
    tracemalloc.start()
    try:
        await soon(file.write(pieces_of(*([b"x" * PIECE] * 100))))
        await soon(bucket.put("large", FileBody(file.path, file.size)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.size == 100 * PIECE and peak < 20 * PIECE and planned == []
    await file.discard()
    await bucket.close()


async def test_a_failure_that_passes_is_tried_again(answers: tuple[str, list[bytes]]) -> None:
    url, planned = answers
    planned += [response(503), b"", response(200)]
    bucket = at(url)
    await soon(bucket.put("x", BytesBody(LARGE)))
    assert planned == []
    await bucket.close()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (response(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"), r"Correct `store.objects.secret_key`"),
        (response(403), "this key may not do that"),
        (response(301), r"the bucket is at another address"),
        (response(400, b"<Error><Code>Odd\nCode</Code></Error>"), r"it answered 400\."),
        (response(400, b"<Error><Code>EntityTooLarge</Code></Error>"), r"it answered 400 EntityTooLarge\."),
        (response(200, b"x" * 50), "does not answer with the range"),
    ],
)
async def test_a_refusal_says_what_to_do(answers: tuple[str, list[bytes]], answer: bytes, text: str) -> None:
    url, planned = answers
    planned.append(answer)
    bucket = at(url)
    with pytest.raises(StoreError, match=text) as refused:
        await soon(bucket.get("x", 0, 10))
    assert "secret" not in refused.value.message.replace("secret_key", "")
    await bucket.close()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"bucket": ""}, "store.objects.bucket is missing"),
        ({"secret_key": ""}, "store.objects.secret_key is missing"),
        ({"access_key": "env:TESTS_NO_KEY"}, "store.objects.access_key: the environment variable 'TESTS_NO_KEY'"),
        ({"bucket": "a/../b"}, "no name of a bucket"),
    ],
)
def test_a_setting_that_is_missing_is_named(change: dict[str, Any], text: str) -> None:
    given = BucketSettings(url="http://127.0.0.1:1", bucket="handspan", access_key="key", secret_key="secret")
    with pytest.raises(ConfigError, match=text):
        bucket_of(replace(given, **change), NetGuard())


def test_no_representation_has_the_key() -> None:
    settings = BucketSettings(url="http://127.0.0.1:1", access_key="key", secret_key="hunter2")
    assert "hunter2" not in repr(settings) + repr(SigningKey("key", "hunter2", "us-east-1"))


@pytest.mark.parametrize("key", ["plain", "a b/ü~x", "100%"])
def test_a_signature_is_the_one_of_the_other_client(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
    path = escape_path(f"/handspan/{key}")
    headers = {"host": "storage.example:9000", "range": "bytes=0-9"}
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: now.replace(tzinfo=None))
    request = AWSRequest("GET", f"http://storage.example:9000{path}", headers={"range": "bytes=0-9"})
    judge = S3SigV4Auth(Credentials("key", "secret"), "s3", "eu-west-1")
    request.headers["X-Amz-Content-SHA256"] = EMPTY_DIGEST
    judge.add_auth(request)
    signed = SigningKey("key", "secret", "eu-west-1").sign("GET", path, headers, EMPTY_DIGEST, now)
    assert signed["authorization"] == request.headers["Authorization"]
