"""Artifacts over REST: uploads within their limit, reads by range, nothing that runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest
from msgspec import structs

from tests.gateway.rest.served import STRANGER, Rest, RestClient, is_error, serving, session_of, settings
from tests.waiting import until

pytestmark = pytest.mark.anyio

TEXT = b"0123456789"


@pytest.fixture
async def kept(client: RestClient) -> str:
    answer = await client.post("/api/artifacts?name=a.txt", content=TEXT, headers={"content-type": "text/plain"})
    return f"/api/artifacts/{answer.json()['id']}"


async def test_somebody_elses_artifact_is_one_that_never_was(client: RestClient, kept: str) -> None:
    for method in ("GET", "HEAD"):
        assert (await client.stranger(method, kept)).status_code == 404
    theirs = await client.stranger("GET", kept)
    never = await client.stranger("GET", f"/api/artifacts/{'0' * 24}")
    assert is_error(theirs, 404, "not_found")
    assert theirs.text.replace(kept.rpartition("/")[2], "") == never.text.replace("0" * 24, "")


@pytest.mark.parametrize("name", ["..", "%2e%2e%2foperator.token", "a" * 500, "%00", "0" * 24 + ".json"])
async def test_an_id_that_is_none_leads_nowhere(client: RestClient, name: str) -> None:
    assert (await client.get(f"/api/artifacts/{name}")).status_code == 404


async def test_an_upload_beyond_the_limit_is_refused_and_leaves_nothing(client: RestClient, rest: Rest) -> None:
    announced = await client.post("/api/artifacts", content=b"x" * (1024 * 1024 + 1))
    assert is_error(announced, 413, "too_large")
    assert not (rest.settings.state / "artifacts").exists()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b"x" * 64 * 1024

    assert is_error(await client.post("/api/artifacts", content=pieces()), 413, "too_large")
    assert list((rest.settings.state / "artifacts").iterdir()) == []


class Uploading:
    """An upload over a socket of its own, which sends only what a test lets it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def begin(cls, client: RestClient, announced: int, query: str = "") -> Self:
        host = client.url.removeprefix("http://")
        made = cls(*await asyncio.open_connection(*host.split(":")))
        head = f"Host: {host}\r\nAuthorization: Bearer {client.rest.owner_token}\r\nContent-Length: {announced}\r\n"
        await made.send(f"POST /api/artifacts{query} HTTP/1.1\r\n{head}\r\n".encode())
        return made

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """What it is answered with."""
        async with asyncio.timeout(60):
            return int((await self.reader.readline()).split()[1])

    async def end(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def files(rest: Rest) -> list[Path]:
    folder = rest.settings.state / "artifacts"
    return list(folder.iterdir()) if folder.exists() else []


async def test_an_upload_that_is_cut_off_leaves_nothing(client: RestClient, rest: Rest) -> None:
    upload = await Uploading.begin(client, 1_000_000)
    await upload.send(b"x" * 600_000)
    await until(lambda: files(rest))
    [coming] = files(rest)
    assert coming.suffix == ".part" and coming.stat().st_mode & 0o777 == 0o600
    await upload.end()
    await until(lambda: not files(rest))


async def test_an_upload_that_stops_coming_is_given_up(client: RestClient, rest: Rest) -> None:
    rest.state.limits = structs.replace(rest.state.limits, seconds=0.05)
    upload = await Uploading.begin(client, 1_000_000)
    await upload.send(b"x" * 600_000)
    assert await upload.status() == 408
    assert files(rest) == []
    await upload.end()


async def test_an_upload_is_on_the_disk_before_all_of_it_has_come(client: RestClient, rest: Rest) -> None:
    upload = await Uploading.begin(client, 1_000_000)
    await upload.send(b"x" * 900_000)
    await until(lambda: any(file.stat().st_size >= 256 * 1024 for file in files(rest)))
    await upload.send(b"x" * 100_000)
    assert await upload.status() == 201
    await upload.end()
    assert sorted(file.suffix for file in files(rest)) == ["", ".json"]


async def test_an_upload_for_a_session_that_is_deleted_meanwhile_goes_with_it(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    upload = await Uploading.begin(client, 1_000_000, f"?session={session}")
    await upload.send(b"x" * 600_000)
    await until(lambda: files(rest))
    assert (await client.ask("DELETE", f"/api/sessions/{session}")).status_code == 200
    await upload.send(b"x" * 400_000)
    assert await upload.status() == 404
    assert files(rest) == []
    await upload.end()


async def test_a_store_that_fails_takes_no_artifact_of_the_session_along(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    await client.post(f"/api/artifacts?session={session}", content=TEXT)
    before = set(files(rest))
    upload = await Uploading.begin(client, 1_000_000, f"?session={session}")
    await upload.send(b"x" * 600_000)
    await until(lambda: set(files(rest)) > before)
    await rest.parts.store.close()
    await upload.send(b"x" * 400_000)
    assert await upload.status() == 503
    assert set(files(rest)) >= before
    await upload.end()


async def test_an_upload_is_stopped_with_the_gateway_and_leaves_nothing(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        upload = await Uploading.begin(client, 1_000_000)
        await upload.send(b"x" * 600_000)
        await until(lambda: files(client.rest))
    assert files(client.rest) == []
    await upload.end()


async def test_an_upload_as_large_as_it_may_be_is_kept(client: RestClient) -> None:
    data = bytes(range(256)) * 4096
    made = await client.post("/api/artifacts?name=C:\\dir\\ph%E2%80%AEoto.jpg", content=data)
    assert made.status_code == 201
    told = made.json()
    assert (told["size"], told["media_type"], told["name"]) == (1024 * 1024, "application/octet-stream", "photo.jpg")
    read = await client.get(f"/api/artifacts/{told['id']}")
    assert read.content == data and read.headers["content-length"] == str(len(data))


async def test_a_device_uploads_for_its_owner(client: RestClient, rest: Rest) -> None:
    made = await client.post("/api/artifacts", content=TEXT, token=rest.device_token)
    place = f"/api/artifacts/{made.json()['id']}"
    assert (await client.get(place)).content == TEXT
    assert is_error(await client.get(place, token=rest.device_token), 403, "forbidden")


async def test_an_upload_goes_with_its_session(client: RestClient, rest: Rest) -> None:
    theirs, mine = await session_of(rest, STRANGER), await session_of(rest)
    assert is_error(await client.post(f"/api/artifacts?session={theirs}", content=TEXT), 404, "not_found")
    made = await client.post(f"/api/artifacts?session={mine}", content=TEXT)
    await client.ask("DELETE", f"/api/sessions/{mine}")
    assert is_error(await client.get(f"/api/artifacts/{made.json()['id']}"), 404, "not_found")


@pytest.mark.parametrize(
    "kind", ["text/javascript", "application/javascript", "application/x-ecmascript", "text/jscript", "text/css"]
)
async def test_a_script_that_somebody_uploads_is_none_for_a_page(client: RestClient, kind: str) -> None:
    made = (await client.post("/api/artifacts", content=b"alert(1)", headers={"content-type": kind})).json()
    for answer in (
        await client.get(f"/api/artifacts/{made['id']}"),
        await client.ask("HEAD", f"/api/artifacts/{made['id']}"),
    ):
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"
    (listed,) = (await client.get("/api/artifacts")).json()["artifacts"]
    assert listed["media_type"] == kind, "a list says what it is"


async def test_html_that_somebody_uploads_can_not_run(client: RestClient) -> None:
    made = await client.post(
        "/api/artifacts?name=x.html", content=b"<script>1</script>", headers={"content-type": "text/html; charset=x"}
    )
    read = await client.get(f"/api/artifacts/{made.json()['id']}")
    assert read.headers["content-disposition"] == "attachment; filename*=UTF-8''x.html"
    assert read.headers["x-content-type-options"] == "nosniff"
    assert read.headers["content-security-policy"].startswith("default-src 'none'; sandbox")
    assert read.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("kind", ["no type", "text/html\tx", "a/" + "b" * 100])
async def test_a_media_type_that_is_none_is_not_kept(client: RestClient, kind: str) -> None:
    made = await client.post("/api/artifacts", content=TEXT, headers={"content-type": kind})
    assert made.json()["media_type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("asked", "content", "place"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=5-", b"56789", "bytes 5-9/10"),
        ("bytes=5-100", b"56789", "bytes 5-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-100", TEXT, "bytes 0-9/10"),
    ],
)
async def test_a_range_is_read(client: RestClient, kept: str, asked: str, content: bytes, place: str) -> None:
    answer = await client.get(kept, headers={"range": asked})
    assert (answer.status_code, answer.content, answer.headers["content-range"]) == (206, content, place)
    head = await client.ask("HEAD", kept, headers={"range": asked})
    assert (head.status_code, head.headers["content-length"], head.content) == (206, str(len(content)), b"")


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=999999999999999999-"])
async def test_a_range_beyond_the_end_is_refused(client: RestClient, kept: str, asked: str) -> None:
    answer = await client.get(kept, headers={"range": asked})
    assert is_error(answer, 416, "range_not_satisfiable") and answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize("asked", ["bytes=-", "bytes=4-2", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b", "0-1"])
async def test_what_is_no_single_range_gives_the_whole(client: RestClient, kept: str, asked: str) -> None:
    answer = await client.get(kept, headers={"range": asked})
    assert (answer.status_code, answer.content) == (200, TEXT)


async def test_an_empty_artifact_has_no_range(client: RestClient) -> None:
    made = await client.post("/api/artifacts", content=b"")
    place = f"/api/artifacts/{made.json()['id']}"
    assert (await client.get(place)).content == b""
    assert is_error(await client.get(place, headers={"range": "bytes=0-"}), 416, "range_not_satisfiable")
    assert (await client.get(place, headers={"range": "bytes=-5"})).status_code == 200, "RFC 9110 14.1.2"


async def test_the_list_has_the_callers_artifacts_the_newest_first(client: RestClient, rest: Rest, kept: str) -> None:
    session = await session_of(rest)
    later = (await client.post(f"/api/artifacts?session={session}", content=b"x")).json()
    listed = (await client.get("/api/artifacts")).json()["artifacts"]
    assert [one["id"] for one in listed] == [later["id"], kept.rpartition("/")[2]]
    assert (listed[0]["session"], listed[1]["session"]) == (session, "")
    assert (listed[1]["name"], listed[1]["size"], listed[1]["media_type"]) == ("a.txt", len(TEXT), "text/plain")
    assert (await client.stranger("GET", "/api/artifacts")).json() == {"artifacts": []}
    assert is_error(await client.get("/api/artifacts", token=rest.device_token), 403, "forbidden")
