"""Servers at an address that answer too much, too late or never (SPEC C4, S7)."""

import asyncio
from pathlib import Path

import pytest

from handspan.config.tool_settings import McpServer
from handspan.core.results import Failure, Success
from handspan.sources.mcp import http_limits
from tests.sources.mcp.http_server import Exchange, http_server
from tests.sources.mcp.serving import app_with, call, ready
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


def at(url: str, timeout: float = 30.0) -> McpServer:
    return McpServer(url=url, internal_only=False, timeout=timeout)


@pytest.mark.parametrize("is_event", [True, False])
async def test_a_large_image_comes_as_an_event_and_as_json(tmp_path: Path, is_event: bool) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA" * 1_000_000}

    async def answer(exchange: Exchange) -> bool:
        if exchange.method != "tools/call":
            return False
        await exchange.result({"content": [image]}, is_event=is_event)
        return True

    async with http_server(answer) as url, app_with(tmp_path, bad=at(url)) as app:
        await ready(app)
        result = await call(app, "bad__echo")
        assert isinstance(result, Success) and len(result.attachments[0].data) == 3_000_000


async def test_an_answer_without_end_is_cut_off_and_the_call_gets_its_result(tmp_path: Path) -> None:
    sent = 0

    async def answer(exchange: Exchange) -> bool:
        nonlocal sent
        if exchange.method != "tools/call":
            return False
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while True:  # until the connection is closed
            exchange.writer.write(b" " * 2**20)
            await exchange.writer.drain()
            sent += 1

    async with http_server(answer) as url, app_with(tmp_path, bad=at(url, timeout=600.0)) as app:
        await ready(app)
        result = await soon(call(app, "bad__echo"))
        assert isinstance(result, Failure) and "more than 33554432 bytes" in result.message
    assert sent < 100


async def test_a_server_that_floods_us_with_requests_is_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(exchange: Exchange) -> bool:
        if exchange.method == "POST":  # our answer to a request of the server
            await asyncio.Event().wait()
        if exchange.method != "tools/call":
            return False
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while True:  # until the connection is closed
            exchange.writer.write(b'data: {"jsonrpc": "2.0", "id": 1, "method": "ping"}\r\n\r\n')
            await exchange.writer.drain()

    async with http_server(answer) as url, app_with(tmp_path, bad=at(url, timeout=600.0)) as app:
        await ready(app)
        result = await soon(call(app, "bad__echo"))
        assert isinstance(result, Failure) and result.code == "unknown_outcome"
        await until(lambda: "it sent more than 100 requests without waiting" in caplog.text)


async def test_a_server_that_does_not_hear_our_leave_holds_up_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "_LEAVE_SECONDS", 0.1)

    async def answer(exchange: Exchange) -> bool:
        if exchange.method == "DELETE":
            await asyncio.Event().wait()
        return False

    async def use(url: str) -> None:
        async with app_with(tmp_path, bad=at(url)) as app:
            await ready(app)

    async with http_server(answer) as url:
        await soon(use(url))


async def test_a_server_that_does_not_take_a_cancellation_is_connected_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "_ACCEPT_SECONDS", 0.1)
    opened = 0

    async def answer(exchange: Exchange) -> bool:
        nonlocal opened
        opened += exchange.method == "initialize"
        is_hanging = exchange.method == "tools/call" and exchange.message["params"]["arguments"]
        if is_hanging or exchange.method == "notifications/cancelled":
            await asyncio.Event().wait()
        return False

    async with http_server(answer) as url, app_with(tmp_path, bad=at(url, timeout=0.5)) as app:
        await ready(app)
        late = await call(app, "bad__echo", hang=True)
        assert isinstance(late, Failure) and late.code == "timeout"
        await until(lambda: opened == 2)
        await ready(app)
        assert isinstance(await soon(call(app, "bad__echo")), Success)
