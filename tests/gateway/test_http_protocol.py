"""What comes before the body of a request is bounded: nobody has shown a token by then (SPEC S5)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.gateway.http_protocol import MOST_HEAD_BYTES
from handspan.testing.gateway import RunningGateway, running_gateway

pytestmark = pytest.mark.anyio


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path) as gateway:
        yield gateway


async def said(gateway: RunningGateway, *pieces: bytes) -> bytes:
    """All that it answers to these bytes, until it closes the connection."""
    port = int(gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        async with asyncio.timeout(10):
            try:
                return await reader.read()
            except ConnectionResetError:  # it was cut off while it still sent
                return b""
    finally:
        writer.close()


def head(gateway: RunningGateway, *more: bytes) -> bytes:
    host = gateway.url.removeprefix("http://").encode()
    return b"\r\n".join((b"GET /health HTTP/1.1", b"host: " + host, *more))


@pytest.mark.parametrize("kind", ["one header", "many headers", "one address"])
async def test_a_head_without_end_is_refused_and_the_connection_ends(gateway: RunningGateway, kind: str) -> None:
    begin = head(gateway, b"x-a: ") if kind != "one address" else b"GET /"
    piece = b"b: c\r\n" * 4096 if kind == "many headers" else b"a" * 24_576
    answer = await said(gateway, begin, *([piece] * 40))
    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""
    async with asyncio.timeout(10):
        assert b"200 OK" in await said(gateway, head(gateway, b"connection: close", b"", b""))


async def test_who_stops_in_time_hears_why(gateway: RunningGateway) -> None:
    answer = await said(gateway, head(gateway, b"x-a: " + b"a" * (MOST_HEAD_BYTES + 1000)))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"Send less." in answer


async def test_what_is_a_little_below_the_limit_is_taken(gateway: RunningGateway) -> None:
    large = b"x-a: " + b"a" * (MOST_HEAD_BYTES - 500)
    answer = await said(gateway, head(gateway, large), b"\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_body_does_not_count(gateway: RunningGateway) -> None:
    host = gateway.url.removeprefix("http://").encode()
    body = b"x" * 300_000
    post = b"POST /pair HTTP/1.1\r\nhost: %b\r\ncontent-length: %d\r\n\r\n" % (host, len(body))
    answer = await said(gateway, post, body[:100_000], body[100_000:], head(gateway, b"connection: close", b"", b""))
    assert b"431" not in answer
    assert answer.startswith(b"HTTP/1.1 4")


async def test_trailers_without_end_are_refused_too(gateway: RunningGateway) -> None:
    host = gateway.url.removeprefix("http://").encode()
    post = b"POST /pair HTTP/1.1\r\nhost: %b\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" % host
    answer = await said(gateway, post, *([b"b: c\r\n" * 4096] * 40))
    assert b"HTTP/1.1 431 " in answer or answer == b""


async def test_a_body_in_many_small_pieces_does_not_count(gateway: RunningGateway) -> None:
    host = gateway.url.removeprefix("http://").encode()
    post = b"POST /pair HTTP/1.1\r\nhost: %b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n" % host
    answer = await said(gateway, post, *([b"1\r\nx\r\n" * 4096] * 20), b"0\r\n\r\n")
    assert b"431" not in answer
    assert answer.startswith(b"HTTP/1.1 4")
