"""What comes before the body of a request is bounded: nobody has shown a token by then (SPEC S5). Refusals are JSON."""

import asyncio
import contextlib
import json
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan.gateway.serving.protocol_config import ProtocolConfig
from handspan.gateway.serving.request_heads import MAX_ADDRESS_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, MAX_LIST_BYTES
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.gateway.serving.test_server import ask, served

pytestmark = pytest.mark.anyio


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path) as gateway:
        yield gateway


@contextlib.asynccontextmanager
async def connection(gateway: RunningGateway) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    port = int(gateway.url.rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()


async def said(gateway: RunningGateway, *pieces: bytes) -> bytes:
    """All that it answers to these bytes, until it closes the connection."""
    async with connection(gateway) as (reader, writer):
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        try:
            return await reader.read()
        except ConnectionResetError:  # it was cut off while it still sent
            return b""


async def one_after_the_other(gateway: RunningGateway, first: bytes, second: bytes) -> tuple[bytes, bytes]:
    """The answer to the first, which has a length, and all that comes after the second."""
    async with connection(gateway) as (reader, writer):
        writer.write(first)
        top = await reader.readuntil(b"\r\n\r\n")
        (length,) = [line for line in top.split(b"\r\n") if line.startswith(b"content-length: ")]
        answer = top + await reader.readexactly(int(length.partition(b": ")[2]))
        writer.write(second)
        return answer, await reader.read()


def request(gateway: RunningGateway, path: bytes, *headers: bytes, method: bytes = b"GET") -> bytes:
    """A request up to its body."""
    host = gateway.url.removeprefix("http://").encode()
    lines = (b"%b %b HTTP/1.1" % (method, path), b"host: " + host, *headers)
    return b"\r\n".join((*lines, b"", b""))


def head(gateway: RunningGateway, *more: bytes) -> bytes:
    host = gateway.url.removeprefix("http://").encode()
    return b"\r\n".join((b"GET /health HTTP/1.1", b"host: " + host, *more))


def post_of_agent(gateway: RunningGateway, *headers: bytes) -> bytes:
    """The head of a request whose body may be large: one that is too large might be answered before it has come."""
    about = (b"authorization: Bearer " + gateway.token.encode(), b"content-type: application/json")
    return request(gateway, b"/api/agents", *about, *headers, method=b"POST")


@pytest.mark.parametrize("kind", ["one header", "many headers", "one address"])
async def test_a_head_without_end_is_refused_and_the_connection_ends(gateway: RunningGateway, kind: str) -> None:
    begin = head(gateway, b"x-a: ") if kind != "one address" else b"GET /"
    piece = b"b: c\r\n" * 4096 if kind == "many headers" else b"a" * 24_576
    answer = await said(gateway, begin, *([piece] * 40))
    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""
    async with asyncio.timeout(60):
        assert b"200 OK" in await said(gateway, head(gateway, b"connection: close", b"", b""))


async def test_who_stops_in_time_hears_why(gateway: RunningGateway) -> None:
    answer = await said(gateway, head(gateway, b"x-a: " + b"a" * (MAX_HEAD_BYTES + 1000)))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"Send less." in answer


async def test_what_is_a_little_below_the_limit_is_taken(gateway: RunningGateway) -> None:
    large = b"x-a: " + b"a" * (MAX_HEAD_BYTES - 500)
    answer = await said(gateway, head(gateway, large), b"\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_body_does_not_count(gateway: RunningGateway) -> None:
    body = b"x" * 300_000
    post = post_of_agent(gateway, b"content-length: %d" % len(body))
    answer = await said(gateway, post, body[:100_000], body[100_000:], head(gateway, b"connection: close", b"", b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and b"200 OK" in answer


async def test_trailers_without_end_are_refused_too(gateway: RunningGateway) -> None:
    host = gateway.url.removeprefix("http://").encode()
    post = b"POST /pair HTTP/1.1\r\nhost: %b\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" % host
    answer = await said(gateway, post, *([b"b: c\r\n" * 4096] * 40))
    assert b"HTTP/1.1 431 " in answer or answer == b""


async def test_a_body_in_many_small_pieces_does_not_count(gateway: RunningGateway) -> None:
    post = post_of_agent(gateway, b"transfer-encoding: chunked", b"connection: close")
    answer = await said(gateway, post, *([b"1\r\nx\r\n" * 4096] * 20), b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("length", ["content-length: 3000000", "transfer-encoding: chunked"])
async def test_an_answer_before_the_end_of_its_body_is_not_lost_with_the_connection(
    gateway: RunningGateway, length: str
) -> None:
    headers = (b"authorization: Bearer wrong", b"content-type: application/json", b"connection: close")
    pieces = [b"x" * 100_000] * 30
    if "chunked" in length:
        pieces = [*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]
    begin = request(gateway, b"/api/agents", *headers, length.encode(), method=b"POST")
    answer = await said(gateway, begin, *pieces)
    assert answer.startswith(b"HTTP/1.1 401 ") and answer.endswith(b"}")


async def test_the_rest_of_a_body_that_never_comes_holds_no_connection(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProtocolConfig, "timeout_keep_alive", 0.05)
    headers = (b"authorization: Bearer wrong", b"content-length: 3000000", b"connection: close")
    answer = await said(gateway, request(gateway, b"/api/agents", *headers, method=b"POST"), b"{")
    assert answer.startswith(b"HTTP/1.1 401 ") and answer.endswith(b"}")


# What the server itself refuses has a body that programs can read (graph.md 1.2, 1.6).


def told(answer: bytes) -> dict[str, Any]:
    """The JSON of the one answer in this; it says its length and kind."""
    top, _, body = answer.partition(b"\r\n\r\n")
    headers = dict(line.split(b": ", 1) for line in top.split(b"\r\n")[1:])
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(body)
    assert headers[b"connection"] == b"close"
    found: dict[str, Any] = json.loads(body)
    return found


def code_of(answer: bytes) -> str:
    """The code, in the one form or the other; nothing may be missing of it."""
    found = told(answer)
    if "metadata" not in found:
        assert set(found) == {"error", "code"}
        assert found["error"]
        return str(found["code"])
    assert set(found) == {"error", "metadata"}
    assert set(found["error"]) == {"code", "message", "details"}
    assert set(found["metadata"]) == {"request_id", "timestamp", "message"}
    assert found["error"]["message"]
    return str(found["error"]["code"])


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\x16\x03\x01\x02\x00", "bad_request"),
        (b"nonsense\r\n\r\n", "bad_request"),
        (b"GET /health\x01 HTTP/1.1\r\n\r\n", "bad_request"),
        (b"GET /health HTTP/1.1\r\nno header\r\n\r\n", "bad_request"),
        (b"GET /v1x HTTP/1.1\r\nno header\r\n\r\n", "bad_request"),
        (b"GET http://[ HTTP/1.1\r\nhost: a\r\n\r\n", "bad_request"),
        (b"GET /v1 HTTP/1.1\r\nno header\r\n\r\n", "VALIDATION_ERROR"),
        (b"GET /ping?a=b HTTP/1.1\r\nno header\r\n\r\n", "VALIDATION_ERROR"),
        (b"GET /v1/threads HTTP/9.9\r\nhost: a\r\n\r\n", "VALIDATION_ERROR"),
        (b"GET /%761/threads HTTP/1.1\r\nno header\r\n\r\n", "VALIDATION_ERROR"),
        (b"GET http://a.example/v1/threads HTTP/1.1\r\nno header\r\n\r\n", "VALIDATION_ERROR"),
        (b"POST /v1/graph/invoke HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", "VALIDATION_ERROR"),
    ],
)
async def test_what_is_no_http_is_refused_in_json(gateway: RunningGateway, request_: bytes, code: str) -> None:
    answer = await said(gateway, request_)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert code_of(answer) == code


@pytest.mark.parametrize(
    ("begin", "code"),
    [
        (b"GET /health HTTP/1.1\r\nx-a: ", "too_large"),
        (b"GET /", "too_large"),
        (b"GET /v1/threads HTTP/1.1\r\nx-a: ", "VALIDATION_ERROR"),
        (b"GET /v1/threads?search=", "VALIDATION_ERROR"),
    ],
)
async def test_a_head_that_is_too_large_is_refused_in_json(gateway: RunningGateway, begin: bytes, code: str) -> None:
    answer = await said(gateway, begin + b"a" * (MAX_HEAD_BYTES + 1000))
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert code_of(answer) == code


async def test_as_many_headers_as_the_limit_are_taken_and_one_more_is_refused(gateway: RunningGateway) -> None:
    last = b"connection: close"
    most = request(gateway, b"/health", *[b"x: y"] * (MAX_HEADERS - 2), last)  # beside its host
    assert (await said(gateway, most)).startswith(b"HTTP/1.1 200 ")
    more = request(gateway, b"/health", *[b"x: y"] * (MAX_HEADERS - 1), last)
    assert (await said(gateway, more)).startswith(b"HTTP/1.1 431 ")
    few_bytes_each = b"GET /v1/threads HTTP/1.1\r\n" + b"a:\r\n" * 1000  # they are refused before they end
    answer = await said(gateway, few_bytes_each)
    assert answer.startswith(b"HTTP/1.1 431 ") and code_of(answer) == "VALIDATION_ERROR"


async def test_trailers_count_as_headers(gateway: RunningGateway) -> None:
    token = f"authorization: Bearer {gateway.token}".encode()
    post = request(gateway, b"/v1/graph/stop", token, b"transfer-encoding: chunked", method=b"POST")
    answer = await said(gateway, post + b"0\r\n" + b"x: y\r\n" * MAX_HEADERS)
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(("begin", "code"), [(b"/health?", "too_large"), (b"/v1/threads?", "VALIDATION_ERROR")])
async def test_an_address_that_is_too_long_is_refused(gateway: RunningGateway, begin: bytes, code: str) -> None:
    address = begin + b"%41" * 3000
    longest = request(gateway, address[:MAX_ADDRESS_BYTES], b"connection: close")
    assert re.match(rb"HTTP/1.1 (200|401) ", await said(gateway, longest))
    answer = await said(gateway, request(gateway, address))
    assert answer.startswith(b"HTTP/1.1 414 URI Too Long\r\n") and code_of(answer) == code


@pytest.mark.parametrize("name", [b"connection", b"sec-websocket-protocol", b"sec-websocket-extensions", b"upgrade"])
async def test_an_upgrade_with_long_lists_is_refused_before_they_are_taken_apart(
    gateway: RunningGateway, name: bytes
) -> None:
    upgrade = (b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-version: 13")
    key = b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="
    more = name + b": " + b"a," * (MAX_LIST_BYTES // 2) + b"a"
    answer = await said(gateway, request(gateway, b"/ws/chat", *upgrade, key, more))
    assert answer.startswith(b"HTTP/1.1 431 ") and code_of(answer) == "too_large"


@pytest.mark.parametrize(
    "lines",
    [(b"cookie: " + b"a" * 9000,), (b"x: y",) * 200, (b"content-length: 5",)],
    ids=["long line", "many headers", "body"],
)
async def test_an_upgrade_that_cannot_be_read_is_answered_and_ends_the_connection(
    gateway: RunningGateway, lines: tuple[bytes, ...]
) -> None:
    upgrade = (b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-version: 13")
    key = b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="
    answer = await said(gateway, request(gateway, b"/ws/chat", *upgrade, key, *lines))
    assert re.match(rb"HTTP/1.1 4\d\d ", answer)
    assert code_of(answer) in ("bad_request", "too_large")


@pytest.mark.parametrize("is_socket", [False, True], ids=["request", "socket"])
async def test_the_host_of_a_whole_address_counts_as_the_header_does(gateway: RunningGateway, is_socket: bool) -> None:
    host = gateway.url.removeprefix("http://").encode()
    upgrade = (b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-version: 13")
    key = b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="
    path, more = (b"/ws/chat", (*upgrade, key)) if is_socket else (b"/health", (b"connection: close",))
    for other in (b"evil.example", b"me@" + host, host + b".evil.example", b"evil.example\\@" + host, b""):
        answer = await said(gateway, request(gateway, b"http://" + other + path, *more))
        assert answer.startswith(b"HTTP/1.1 400 ") and code_of(answer) == "bad_request", other
    fits = await said(gateway, request(gateway, b"HTTP://" + host.upper() + path, *more))
    assert fits.startswith(b"HTTP/1.1 404 " if is_socket else b"HTTP/1.1 200 "), "no client opens a socket this way"
    unknown = b"GET http://evil.example/health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    assert (await said(gateway, unknown)).startswith(b"HTTP/1.1 403 ")


async def test_below_a_prefix_it_is_the_path_behind_it_that_counts(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, gateway={"path_prefix": "/here"}) as gateway:
        for path, code in (("/here/v1/threads", "VALIDATION_ERROR"), ("/here/v1x", "bad_request")):
            answer = await said(gateway, f"GET {path} HTTP/1.1\r\nno header\r\n\r\n".encode())
            assert code_of(answer) == code, path


async def test_a_second_request_is_judged_by_its_own_path(gateway: RunningGateway) -> None:
    first = request(gateway, b"/v1/threads")
    for second, code in ((b"nonsense\r\n\r\n", "bad_request"), (b"GET /v1 HTTP/1.1\r\nx\r\n\r\n", "VALIDATION_ERROR")):
        _, answer = await one_after_the_other(gateway, first, second)
        assert code_of(answer) == code


async def test_a_body_that_is_no_body_is_told_in_place_of_the_answer(gateway: RunningGateway) -> None:
    token = f"authorization: Bearer {gateway.token}".encode()
    post = request(gateway, b"/v1/graph/invoke", token, b"transfer-encoding: chunked", method=b"POST")
    answer = await said(gateway, post + b"zz\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert code_of(answer) == "VALIDATION_ERROR"


async def test_a_body_that_is_no_body_behind_its_answer_only_ends_the_connection(gateway: RunningGateway) -> None:
    post = request(gateway, b"/v1/graph/invoke", b"transfer-encoding: chunked", method=b"POST")
    first, rest = await one_after_the_other(gateway, post, b"zz\r\n")
    assert first.startswith(b"HTTP/1.1 401 ")
    assert rest == b""


@pytest.mark.parametrize("garbage", [b"nonsense\r\n\r\n", b"x: " + b"a" * (MAX_HEAD_BYTES + 1000)])
async def test_garbage_behind_a_request_does_not_spoil_its_answer(gateway: RunningGateway, garbage: bytes) -> None:
    token = f"authorization: Bearer {gateway.token}".encode()
    answer = await said(gateway, request(gateway, b"/v1/threads", token) + garbage)
    top, _, body = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body)["data"] == {"threads": []}


async def test_a_body_that_is_no_body_does_not_spoil_the_answers_before_it(gateway: RunningGateway) -> None:
    token = f"authorization: Bearer {gateway.token}".encode()
    good = request(gateway, b"/v1/threads", token)
    bad = request(gateway, b"/v1/graph/stop", token, b"transfer-encoding: chunked", method=b"POST") + b"zz\r\n"
    for count in (1, 3):
        answer = await said(gateway, good * count + bad)
        assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200"] * count + [b"400"]
        assert answer.count(b'"threads":[]') == count


async def test_more_garbage_does_not_either_while_the_answer_takes_its_time(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as (small, server), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        token = small.auth.operator_token
        writer.write(
            f"GET /work HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nauthorization: Bearer {token}\r\n\r\n".encode()
        )
        for _ in range(20):
            writer.write(b"nonsense\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)  # so that they come one by one; nothing waits for it
        await small.drain(0)
        answer = await reader.read()
        writer.close()
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b"\r\n\r\ndone")


async def test_an_application_that_fails_is_told_in_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path / "state") as (small, server):
        token = f"Authorization: Bearer {small.auth.operator_token}"
        for path, code in (("/fail", "internal_error"), ("/v1/fail", "GRAPH_ERROR")):
            status, answer = await ask(server.port, f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", token)
            assert status == 500
            assert code_of(answer.encode("latin-1")) == code
    assert "a fault" in caplog.text


async def test_an_application_that_fails_in_its_answer_ends_the_connection(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as (small, server):
        token = f"Authorization: Bearer {small.auth.operator_token}"
        status, answer = await ask(server.port, "GET /fail/late HTTP/1.1", f"Host: 127.0.0.1:{server.port}", token)
        assert status == 200
        assert answer.endswith("begun\r\n")


async def test_who_still_sends_when_the_gateway_ends_hears_why(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        token = f"authorization: Bearer {gateway.token}".encode()
        post = request(
            gateway, b"/v1/graph/invoke", token, b"content-length: 100", b"expect: 100-continue", method=b"POST"
        )
        async with connection(gateway) as (reader, writer):
            writer.write(post)
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"  # it waits for the body
            await gateway.close()
            answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert code_of(answer) == "STORAGE_ERROR"
