"""Files over HTTP: uploaded as a form within their limit, read by range, and nothing of them runs (graph.md 9.4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.graph.pages import Answer, Graph, Page, graph_gateway

pytestmark = pytest.mark.anyio

TEXT = b"0123456789"
LIMIT = 100_000


async def upload(page: Page, data: bytes = TEXT, name: str = "a.txt", kind: str = "text/plain", **more: Any) -> Answer:
    return Answer(await page.http.post("/v1/files/upload", files={"file": (name, data, kind)}, **more))


def kept_files(folder: Path) -> list[str]:
    artifacts = folder / "state" / "artifacts"
    return sorted(path.name for path in artifacts.iterdir()) if artifacts.exists() else []


async def test_somebody_elses_file_is_one_that_never_was(there: Graph, page: Page) -> None:
    mine = (await upload(page)).data["file_id"]
    stranger = await there.another("somebody else")
    for rest in ("", "/info", "/url"):
        theirs = await stranger.ask("GET", f"/v1/files/{mine}{rest}")
        never = await stranger.ask("GET", f"/v1/files/{'0' * 24}{rest}")
        assert (theirs.status, theirs.error["code"]) == (404, "RESOURCE_NOT_FOUND")
        assert theirs.error["message"] == never.error["message"].replace("0" * 24, mine)


@pytest.mark.parametrize("file", ["%2e%2e%2foperator.token", "a" * 500, "%00", "0" * 24 + ".json", "upload", "手"])
async def test_an_id_that_is_none_leads_nowhere(page: Page, file: str) -> None:
    for rest in ("", "/info", "/url"):
        refused = await page.ask("GET", f"/v1/files/{file}{rest}")
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND")
    blank = await page.ask("GET", "/v1/files/%20")
    assert (blank.status, blank.error["details"][0]["loc"]) == (422, ["path", "file_id"])


HEAD = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("application/json", b"{}", "multipart/form-data"),
        ("multipart/form-data", HEAD + b"x\r\n--X--", "boundary"),
        ("multipart/form-data; boundary=X", b"", "last boundary"),
        ("multipart/form-data; boundary=X", b"--X--", "no file"),
        ("multipart/form-data; boundary=X", HEAD.replace(b"file", b"files") + b"x\r\n--X--", "no file"),
        ("multipart/form-data; boundary=X", HEAD + b"x", "last boundary"),
        ("multipart/form-data; boundary=X", HEAD + b"x\r\n--X\r\n", "last boundary"),
        ("multipart/form-data; boundary=X", HEAD + b"x\r\n--X!!", "followed by"),
        ("multipart/form-data; boundary=X", (HEAD + b"x\r\n") * 2 + b"--X--", "two files"),
    ],
)
async def test_what_is_no_form_with_a_file_is_refused_and_leaves_nothing(
    tmp_path: Path, page: Page, kind: str, body: bytes, why: str
) -> None:
    refused = await page.ask("POST", "/v1/files/upload", body, headers={"content-type": kind})
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    assert refused.error["details"][0]["loc"] == ["body", "file"]
    assert why in refused.error["message"]
    assert kept_files(tmp_path) == []


async def test_a_file_beyond_the_limit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, gateway={"upload_bytes": LIMIT}) as there:
        for size in (LIMIT + 1, 10 * LIMIT):
            refused = await upload(there.page, b"x" * size)
            assert (refused.status, refused.error["code"]) == (413, "REQUEST_TOO_LARGE"), size
        assert kept_files(tmp_path) == []
        assert (await upload(there.page, b"x" * LIMIT)).data["size_bytes"] == LIMIT
        assert (await there.page.ask("GET", "/v1/config/multimodal")).data["media_max_size_mb"] == LIMIT / 2**20


async def test_a_file_that_no_disk_holds_is_the_gateways_fault(tmp_path: Path, page: Page) -> None:
    (tmp_path / "state" / "artifacts").write_text("in the way")
    refused = await upload(page)
    assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path, page: Page) -> None:
    sent = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield HEAD + b"x" * 600_000
        sent.set()
        await asyncio.Event().wait()

    kind = {"content-type": "multipart/form-data; boundary=X"}
    uploading = asyncio.create_task(page.http.post("/v1/files/upload", content=body(), headers=kind))
    async with asyncio.timeout(60):
        await sent.wait()
        while not kept_files(tmp_path):
            await asyncio.sleep(0.01)
        uploading.cancel()
        await asyncio.gather(uploading, return_exceptions=True)
        while kept_files(tmp_path):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("size", [0, 1, 10, 1_000_000])
async def test_a_file_comes_back_as_it_was(page: Page, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    sent = (await upload(page, data[:size], '猫 "x".png', "image/png")).data
    file = sent["file_id"]
    assert sent == {
        "file_id": file,
        "mime_type": "image/png",
        "size_bytes": size,
        "filename": '猫 "x".png',
        "extracted_text": None,
        "url": f"/v1/files/{file}",
        "direct_url": None,
        "direct_url_expires_at": None,
    }
    answer = await page.http.get(sent["url"])
    assert (answer.status_code, answer.content) == (200, data[:size])
    info = (await page.ask("GET", f"/v1/files/{file}/info")).data
    assert (info["size_bytes"], info["mime_type"], info["filename"]) == (size, "image/png", '猫 "x".png')
    url = (await page.ask("GET", f"/v1/files/{file}/url")).data
    assert url == {"file_id": file, "url": f"/v1/files/{file}", "expires_at": None, "mime_type": "image/png"}


async def test_other_fields_of_the_form_are_passed_over(page: Page) -> None:
    form: Any = {"files": {"file": ("a.txt", TEXT, "text/plain")}, "data": {"config": "{}", "note": "x" * 1000}}
    sent = Answer(await page.http.post("/v1/files/upload", **form))
    assert sent.data["size_bytes"] == len(TEXT)


async def test_a_name_is_no_path_and_a_kind_is_one(page: Page) -> None:
    for name, kept in (("../../etc/passwd", "passwd"), ("C:\\x\\a.txt", "a.txt"), ("a\u202etxt.exe", "atxt.exe")):
        assert (await upload(page, name=name)).data["filename"] == kept
    bare = (await upload(page, name="", kind="<script>")).data
    assert (bare["filename"], bare["mime_type"]) == (bare["file_id"], "application/octet-stream")
    assert len((await upload(page, name="x" * 5000 + ".txt")).data["filename"]) == 200


async def test_nothing_of_a_file_runs_in_a_browser(page: Page) -> None:
    file = (await upload(page, b"<script>alert(1)</script>", "猫.html", "text/html")).data["file_id"]
    headers = (await page.http.get(f"/v1/files/{file}")).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''%E7%8C%AB.html"
    assert "sandbox" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("asked", "status", "data", "told"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-99999999999", 206, b"56789", "bytes 5-9/10"),
        ("bytes=4-2", 200, TEXT, None),
        ("bytes=0-1,4-5", 200, TEXT, None),
        ("lines=1-2", 200, TEXT, None),
    ],
)
async def test_a_file_is_read_by_range(page: Page, asked: str, status: int, data: bytes, told: str | None) -> None:
    file = (await upload(page)).data["file_id"]
    answer = await page.http.get(f"/v1/files/{file}", headers={"range": asked})
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, data, told)
    head = await page.http.head(f"/v1/files/{file}", headers={"range": asked})
    assert (head.status_code, head.headers["content-length"]) == (status, str(len(data)))


async def test_a_range_beyond_the_end_is_told_in_the_envelope(page: Page) -> None:
    file = (await upload(page)).data["file_id"]
    answer = await page.http.get(f"/v1/files/{file}", headers={"range": "bytes=10-"})
    refused = Answer(answer)
    assert (refused.status, refused.error["code"]) == (416, "VALIDATION_ERROR")
    assert answer.headers["content-range"] == "bytes */10"


async def test_a_file_that_was_uploaded_can_be_said(page: Page) -> None:
    file = (await upload(page, b"png", "a.png", "image/png")).data["file_id"]
    media = {"kind": "file_id", "file_id": file}
    content = [{"type": "image", "media": media}, {"type": "text", "text": "seen"}]
    answer = await page.invoke([{"role": "user", "content": content}])
    assert answer.words == "seen"
    assert answer.messages[0]["content"][0]["media"]["file_id"] == file


async def test_the_limits_are_told(page: Page) -> None:
    assert (await page.ask("GET", "/v1/config/multimodal")).data == {
        "media_storage_type": "local",
        "media_storage_path": "",
        "media_max_size_mb": 64.0,
        "document_handling": "pass_raw",
    }


async def test_a_file_that_the_folder_does_not_take_is_too_large_whatever_the_setting_says(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, gateway={"upload_bytes": 80 * 2**20}) as there:
        refused = await upload(there.page, b"x" * (65 * 2**20))
        assert (refused.status, refused.error["code"]) == (413, "REQUEST_TOO_LARGE")
        assert kept_files(tmp_path) == []
