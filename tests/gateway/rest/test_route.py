"""What holds for every route: who may, what is read, and how a refusal looks."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.gateway.paths import OPEN_ANSWERS, below_prefix
from handspan.gateway.rest.door import operations
from tests.gateway.rest.served import Rest, RestClient, is_error, serving, session_of, settings

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


def concrete(path: str) -> str:
    return path.replace("{", "").replace("}", "")


async def test_nothing_but_the_open_routes_answers_without_a_token_or_with_a_wrong_one(client: RestClient) -> None:
    closed = [one for one in operations() if one.right != "open"]
    for place, one in enumerate(closed):
        token = "wrong" if place == 0 else ""
        answer = await client.ask(one.method, concrete(one.path), token=token)
        assert is_error(answer, 401, "unauthorized"), one.path


async def test_a_device_token_may_only_upload_and_learn_who_it_is(client: RestClient, rest: Rest) -> None:
    allowed = []
    for one in operations():
        if one.right != "open" and one.media_type != "text/event-stream":
            answer = await client.ask(one.method, concrete(one.path), token=rest.device_token)
            if answer.status_code != 403:
                allowed.append((one.method, one.path))
    assert set(allowed) == {("POST", "/api/artifacts"), ("GET", "/api/me"), ("POST", "/api/signout")}


async def test_a_chat_token_may_not_administer(client: RestClient, rest: Rest) -> None:
    refused = []
    for one in operations():
        if one.right != "open" and one.media_type != "text/event-stream":
            answer = await client.ask(one.method, concrete(one.path), token=rest.chat_token)
            if answer.status_code == 403:
                assert is_error(answer, 403, "forbidden")
                refused.append(one.path)
    assert set(refused) == {one.path for one in operations() if one.right == "admin"}


async def test_health_and_ping_answer_everybody_the_same(client: RestClient) -> None:
    health = await client.get("/health", token="")
    assert health.json() == {"status": "ok", "paired": True, "require_pairing": True, "runtime": {}}
    assert (await client.get("/ping", token="")).content == OPEN_ANSWERS["/ping"]
    assert (await client.ask("HEAD", "/health", token="")).status_code == 200


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b'{"name":"a","name":"b"}', 400, "invalid_json"),
        (b'{"name":NaN}', 400, "invalid_json"),
        (b'{"name":"\\ud800"}', 400, "invalid_json"),
        (b'\xef\xbb\xbf{"name":"a"}', 400, "invalid_json"),
        (b'{"name":"\xff"}', 400, "invalid_json"),
        (b"[" * 100_0 + b"]" * 100_0, 400, "invalid_json"),
        (b'{"name":' + b"[" * 70 + b"]" * 70 + b"}", 400, "invalid_json"),
        (b'{"name":1}', 422, "invalid_request"),
        (b'{"nam":"a"}', 422, "invalid_request"),
        (b'{"name":"a","x":1}', 422, "invalid_request"),
        (b"[]", 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b'"text"', 422, "invalid_request"),
    ],
)
async def test_a_body_that_is_not_right_is_refused(client: RestClient, sent: bytes, status: int, code: str) -> None:
    answer = await client.post("/api/agents", content=sent, headers=JSON)
    assert is_error(answer, status, code)


async def test_a_refusal_of_a_wrong_field_helps(client: RestClient) -> None:
    answer = await client.post("/api/agents", {"name": "a", "instruction": "x"})
    assert is_error(answer, 422, "invalid_request")
    assert "'instructions'" in answer.json()["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_of_another_kind_is_refused(client: RestClient, kind: str) -> None:
    answer = await client.post("/api/agents", content=b'{"name":"a"}', headers={"content-type": kind})
    assert is_error(answer, 415, "unsupported_media_type")


async def test_a_compressed_body_is_not_inflated(client: RestClient) -> None:
    headers = {**JSON, "content-encoding": "gzip"}
    answer = await client.post("/api/agents", content=gzip.compress(b'{"name":"a"}'), headers=headers)
    assert is_error(answer, 400, "invalid_json")


async def test_a_body_that_announces_too_much_is_refused_before_it_is_read(client: RestClient) -> None:
    host = client.url.removeprefix("http://")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(
        f"POST /api/sessions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {client.rest.owner_token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 10000000\r\n\r\n".encode()
    )
    async with asyncio.timeout(60):
        answer = await reader.read()  # to the end: the connection is closed too
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413") and b'"code":"too_large"' in answer


async def test_a_body_that_announces_nothing_is_refused_when_it_is_too_much(client: RestClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 4096

    answer = await client.post("/api/sessions", content=endless(), headers=JSON)
    assert is_error(answer, 413, "too_large")


async def test_a_body_as_large_as_it_may_be_is_read(client: RestClient) -> None:
    padded = b'{"name":"a"}'.ljust(64 * 1024)
    assert (await client.post("/api/sessions", content=padded, headers=JSON)).status_code == 201
    assert is_error(await client.post("/api/sessions", content=padded + b" ", headers=JSON), 413, "too_large")


async def test_a_body_that_is_cut_off_changes_nothing(client: RestClient) -> None:
    host = client.url.removeprefix("http://")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(
        f"POST /api/agents HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {client.rest.owner_token}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name":"a"}'.encode()
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await client.get("/api/agents/a")).status_code == 404
    assert await reader.read() == b""


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "limt=5", "after=x", "limit=", "a=1&" * 60]
)
async def test_a_query_that_is_not_right_is_refused(client: RestClient, query: str) -> None:
    assert is_error(await client.get(f"/api/sessions?{query}"), 422, "invalid_request")


async def test_a_token_in_the_query_is_no_field_of_it(client: RestClient) -> None:
    answer = await client.http.get(f"{client.url}/api/sessions?limit=5&token={client.rest.owner_token}")
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/", "/api/tools/", "//api/tools", "/api/sessions/a/b/c"])
async def test_what_is_not_there_is_told_in_the_same_form(client: RestClient, path: str) -> None:
    assert is_error(await client.get(path), 404, "not_found")


async def test_a_wrong_method_is_told_with_those_that_are_known(client: RestClient) -> None:
    answer = await client.ask("DELETE", "/api/agents")
    assert is_error(answer, 405, "method_not_allowed")
    assert {word.strip() for word in answer.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}


async def test_a_name_with_a_slash_is_one_name(client: RestClient) -> None:
    made = await client.post("/api/agents", {"name": "a/tools"})
    assert made.status_code == 201
    assert (await client.get("/api/agents/a%2Ftools")).json()["name"] == "a/tools"
    assert is_error(await client.get("/api/agents/a/tools"), 404, "not_found")


async def test_a_fault_of_ours_is_told_without_its_trace(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret words")

    assert rest.app.store is not None
    monkeypatch.setattr(rest.app.store.conversations, "page", broken)
    answer = await client.get("/api/sessions")
    assert is_error(answer, 500, "internal_error")
    assert "secret" not in answer.text and "secret words" in caplog.text


async def test_answers_are_kept_by_nobody(client: RestClient) -> None:
    for path in ("/api/sessions", "/api/sessions/none", "/nothing"):
        answer = await client.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_below_a_prefix_everything_is_where_it_should_be(tmp_path: Path) -> None:
    class Below(Rest):
        async def open(self, url: str = "") -> None:
            await super().open()
            self.asgi = below_prefix(self.asgi, "/hands")

    async with serving(Below(settings(tmp_path, gateway={"port": 0, "path_prefix": "/hands"}))) as below:
        base = below.url if below.url.endswith("/hands") else f"{below.url}/hands"
        headers = {"authorization": f"Bearer {below.rest.owner_token}"}
        session = await session_of(below.rest)
        answer = await below.http.get(f"{base}/api/sessions/{session}", headers=headers)
        assert answer.json()["session_id"] == session
        document = (await below.http.get(f"{base}/openapi.json", headers=headers)).json()
        assert document["servers"] == [{"url": "/hands"}]
        called = await below.http.post(f"{base}/api/tools/get_current_time/call", json={}, headers=headers)
        assert called.headers["location"].startswith("/hands/api/calls/")


async def test_requests_are_counted(client: RestClient, rest: Rest) -> None:
    before = rest.parts.metrics.requests.value("4xx")
    await client.get("/api/sessions/none")
    assert rest.parts.metrics.requests.value("4xx") == before + 1
