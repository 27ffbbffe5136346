"""Requests that nobody means well: each is answered in the envelope, in time, and leaves no traceback (SPEC S4)."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from handspan.gateway.graph import request as graph_request
from tests.gateway.graph.pages import ECHO, TAKE_JSON, Answer, Graph, Page, result, said

pytestmark = pytest.mark.anyio

SECONDS = 60.0
BODIES = [*TAKE_JSON, ("POST", "/v1/files/upload")]
NO_JSON = [
    b"{",
    b"\x00",
    b"\xff\xfe{}",
    b'{"messages": [}',
    b'{"messages": NaN}',
    b'{"a": 1e999}',
    b'{"a": 1, "a": 2}',
    b'{"messages": "\\ud800"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b"9" * 100_000,
    b'"' + b"x" * 100_000 + b'"',
    b"null",
    b"[]",
    b"-",
]
IDS = [
    "' OR 1=1 --",
    '"; DROP TABLE messages; --',
    "../../operator.token",
    "..\\..\\operator.token",
    "/etc/passwd",
    "%2e%2e%2f",
    "a\x00b",
    "\n\r\n",
    "\u202e\ufeff",
    "😀" * 100,
    "*?[a-z]{1,2}",
    "{thread_id}",
    "x" * 1_000_000,
    "-1",
    "0",
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing of all this is a fault of the gateway."""
    yield
    wrong = [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert wrong == []


async def refused(page: Page, method: str, path: str, body: Any = None, **more: Any) -> Answer:
    """The answer, which has to be a refusal in the one form, in time."""
    async with asyncio.timeout(SECONDS):
        answer = await page.ask(method, path, body, **more)
    assert 400 <= answer.status < 500, (method, path, answer.status, answer.text[:500])
    assert answer.error["message"]
    assert len(answer.text) < 100_000
    return answer


async def answered(page: Page, method: str, path: str, body: Any = None, **more: Any) -> Answer:
    """The answer, good or bad, in one of the two forms."""
    async with asyncio.timeout(SECONDS):
        answer = await page.ask(method, path, body, **more)
    assert answer.status < 500, (method, path, answer.status, answer.text[:500])
    assert answer.data is not None if answer.status == 200 else answer.error["message"]
    return answer


@pytest.mark.parametrize(("method", "path"), BODIES)
async def test_a_body_that_is_none_is_refused(page: Page, method: str, path: str) -> None:
    await page.say("hello", "t")
    for body in NO_JSON:
        answer = await (answered if "memories" in path or "search" in path else refused)(page, method, path, body)
        assert answer.status in (200, 404, 422), (body[:40], answer.text[:300])
    assert len((await page.ask("GET", "/v1/threads/t/messages")).messages) == 2


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "multipart/form-data", "a" * 5000, "\xff/\xfe"])
async def test_a_body_of_another_kind_is_no_fault_of_the_gateway(page: Page, kind: str) -> None:
    for method, path in BODIES:
        for body in (b"{}", b"--x\r\n\r\n", b"a=b&c=d"):
            await answered(page, method, path, body, headers={"content-type": kind.encode("latin-1")})


@pytest.mark.parametrize("given", IDS, ids=lambda given: repr(given[:20]))
async def test_an_id_is_never_more_than_an_id(page: Page, given: str) -> None:
    await page.say("hello", "t")
    config = {"thread_id": given}
    for body in (
        {"messages": [result(given, 1)]},
        {"messages": [result("c", 1)], "config": config},
        {"messages": [said("hi")], "config": {"agent": given}},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "media": {"kind": "file_id", "file_id": given}}]}
            ]
        },
        {"messages": [{"role": given, "content": []}]},
        {"messages": [{"role": "user", "content": [{"type": given}]}]},
    ):
        await refused(page, "POST", "/v1/graph/invoke", body)
    began = await answered(page, "POST", "/v1/graph/invoke", {"messages": [said("hi")], "config": config})
    assert (began.status == 200) == (given in ("-1", "0"))
    for path in ("stop", "fix"):
        await answered(page, "POST", f"/v1/graph/{path}", {"thread_id": given})
    await answered(page, "POST", "/v1/graph/setup", {"tools": [{**ECHO, "name": given}]})
    await answered(page, "POST", "/v1/graph/setup", {"tools": [{**ECHO, "node_name": given}]})
    assert len((await page.ask("GET", "/v1/threads/t/messages")).messages) == 2


@pytest.mark.parametrize("given", IDS, ids=lambda given: repr(given[:20]))
async def test_an_id_in_a_path_leads_nowhere(page: Page, given: str) -> None:
    await page.say("hello", "t")
    escaped = quote(given[:3000], safe="")
    for path in (
        f"/v1/threads/{escaped}",
        f"/v1/threads/{escaped}/state",
        f"/v1/threads/t/messages/{escaped}",
        f"/v1/files/{escaped}",
        f"/v1/files/{escaped}/info",
        f"/v1/{escaped}",
    ):
        await refused(page, "GET", path)
    await refused(page, "POST", f"/v1/store/memories/{escaped}")
    await refused(page, "DELETE", f"/v1/threads/t/messages/{escaped}")
    assert len((await page.ask("GET", "/v1/threads/t/messages")).messages) == 2


async def test_ten_megabytes_of_tiny_blocks_are_refused_in_time(page: Page) -> None:
    for words in ("", "a"):
        block = f'{{"type":"text","text":"{words}"}},'
        blocks = (block * (10 * 1024 * 1024 // len(block) - 10))[:-1]
        body = f'{{"messages":[{{"role":"user","content":[{blocks}]}}]}}'.encode()
        assert len(body) > 10_000_000
        assert (await refused(page, "POST", "/v1/graph/invoke", body)).status == 422


@pytest.mark.parametrize("piece", ["{}", "null", '{"role":"user"}', '{"type":"text"}', "[]", "1"])
async def test_ten_megabytes_of_nothing_that_makes_sense_are_refused_in_time(page: Page, piece: str) -> None:
    many = f"{piece}," * (10 * 1024 * 1024 // (len(piece) + 1) - 30) + piece
    for path, form in (
        ("/v1/graph/invoke", '{"messages":[%s]}'),
        ("/v1/graph/invoke", '{"messages":[{"role":"user","content":[%s]}]}'),
        ("/v1/graph/setup", '{"tools":[%s]}'),
    ):
        answer = await refused(page, "POST", path, (form % many).encode())
        assert 1 <= len(answer.error["details"]) <= 50


async def test_thousands_of_unknown_calls_are_refused_without_looking_for_each(page: Page) -> None:
    many = [result(f"call{number}", 1) for number in range(2_000)]
    answer = await refused(page, "POST", "/v1/graph/invoke", {"messages": many})
    assert answer.error["code"] == "GRAPH_UNKNOWN_CALL"
    assert len(answer.error["details"]) == 50
    await page.set_up(ECHO)
    call = (await page.say("call echo\nthen\nend")).calls[0]["id"]
    again = await refused(page, "POST", "/v1/graph/invoke", {"messages": [result(call)] * 2_000})
    assert again.error["code"] == "GRAPH_ANSWERED_CALL"
    assert (await page.answer(result(call))).words == "end"


async def test_a_thousand_headers_or_a_large_one_are_refused_or_passed_over(page: Page) -> None:
    for headers in (
        {f"x-{number}": "y" for number in range(90)},
        {"x-large": "y" * 30_000},
        {"idempotency-key": "k" * 30_000},
        {"range": "bytes=" + "0-1," * 5000},
    ):
        assert (await answered(page, "GET", "/v1/threads", headers=headers)).status == 200


class Wire:
    """A connection on which anything can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, page: Page) -> None:
        self._reader = reader
        self._writer = writer
        self._page = page

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def begin(self, path: str, *headers: str) -> None:
        """The head of a POST, as it should be."""
        token = f"authorization: Bearer {self._page.token}"
        head = [f"POST {path} HTTP/1.1", f"host: {urlsplit(self._page.url).netloc}", token, *headers, "", ""]
        await self.send("\r\n".join(head).encode())

    async def rest(self) -> tuple[int, str, Any]:
        """The status, the headers and the body of what is answered before the connection ends."""
        async with asyncio.timeout(SECONDS):
            answer = await self._reader.read()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode().lower(), json.loads(body)


@asynccontextmanager
async def wire(page: Page) -> AsyncIterator[Wire]:
    address = urlsplit(page.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield Wire(reader, writer, page)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_body_that_does_not_come_is_told_so_and_its_connection_ends(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_request, "BODY_SECONDS", 0.2)
    async with wire(page) as line:
        await line.begin("/v1/graph/invoke", "content-type: application/json", "content-length: 1000")
        await line.send(b'{"messages": [')
        status, head, body = await line.rest()
    assert (status, body["error"]["code"]) == (408, "REQUEST_TIMEOUT")
    assert "connection: close" in head
    assert (await page.say("hello")).words == "hello"


@pytest.mark.parametrize("announced", ["content-length: 99999999999", "transfer-encoding: chunked"])
async def test_a_body_that_is_too_large_is_told_so_and_its_connection_ends(page: Page, announced: str) -> None:
    async with wire(page) as line:
        await line.begin("/v1/graph/invoke", announced)
        if "chunked" in announced:
            piece = b" " * 1024 * 1024
            for _ in range(11):
                await line.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        status, head, body = await line.rest()
    assert (status, body["error"]["code"]) == (413, "REQUEST_TOO_LARGE")
    assert "connection: close" in head


async def test_a_client_that_hangs_up_in_the_middle_leaves_nothing_behind(there: Graph, page: Page) -> None:
    for path in ("/v1/graph/invoke", "/v1/graph/stream", "/v1/graph/setup"):
        async with wire(page) as line:
            await line.begin(path, "content-length: 1000")
            await line.send(b"{")
    assert (await page.say("hello")).words == "hello"
    assert await there.gateway.journal() == []
