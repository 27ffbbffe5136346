"""The short way of plain calls answers as the library does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import HEADER_MISMATCH

from handspan.core.context import ToolContext
from handspan.core.function_tool import tool
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Arguments, Json
from handspan.mcp import fast_calls, fast_response
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.gateway.mcp.test_door import add_blocking_tool, codes, phone
from tests.waiting import until

pytestmark = pytest.mark.anyio

VERSION = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(name: str, arguments: Any, meta: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """What httpx2 needs to post this call."""
    given = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": name,
        **headers,
    }
    params = {"name": name, "arguments": arguments, "_meta": {**META, **meta}}
    return {"json": {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}, "headers": given}


async def post(gateway: RunningGateway, sent: dict[str, Any]) -> httpx2.Response:
    headers = {"authorization": f"Bearer {gateway.token}", **sent["headers"]}
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.post(f"{gateway.url}/mcp", json=sent["json"], headers=headers)


@tool
async def give(value: Any) -> Any:
    """Give the value back."""
    return value


class Route:
    """A tool whose argument a header repeats."""

    spec = ToolSpec(
        "route",
        "Route it.",
        {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
        annotations=READ_ONLY,
    )

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        """Return the region."""
        return arguments.get("region")


HEADERS: list[tuple[Any, dict[str, str], int]] = [
    ({"region": "eu"}, {"mcp-param-region": "eu"}, 200),
    ({"region": "é"}, {"mcp-param-region": "=?base64?w6k=?="}, 200),
    ({}, {}, 200),
    ({"region": "eu"}, {"mcp-param-region": "us"}, 400),
    ({"region": "eu"}, {}, 400),
    ({}, {"mcp-param-region": "eu"}, 400),
]
CASES: list[tuple[str, Any, dict[str, Any], dict[str, str]]] = [
    ("read_file", {"path": "a.txt"}, {}, {}),
    ("list_directory", {"path": "."}, {}, {}),
    ("read_file", {"path": "missing.txt"}, {}, {}),
    ("phone__camera", {}, {}, {}),
    *(("give", {"value": value}, {}, {}) for value in (None, 0, False, "", [1, {"a": None}], {"a": 1})),
    ("no_such_tool", {}, {}, {}),
    ("no_such_tool", {"a": 1}, {}, {"mcp-param-a": "2"}),
    ("read_file", {"path": 1}, {}, {}),
    ("read_file", [], {}, {}),
    ("read_file", {"path": "a.txt"}, {}, {"mcp-name": "other"}),
    ("read_file", {"path": "a.txt"}, {}, {"mcp-protocol-version": "2031-01-01"}),
    ("read_file", {"path": "a.txt"}, {}, {"accept": "application/json"}),
    ("read_file", {"path": "a.txt"}, {}, {"content-type": "text/plain"}),
    ("read_file", {"path": "a.txt"}, {"io.modelcontextprotocol/protocolVersion": 1}, {}),
    ("read_file", {"path": "a.txt"}, {"io.modelcontextprotocol/clientInfo": "?"}, {}),
    ("read_file", {"path": "a.txt"}, {"io.modelcontextprotocol/clientCapabilities": None}, {}),
    ("read_file", {"path": "a.txt"}, {"progressToken": 1}, {}),
]


async def test_both_ways_give_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_gateway(tmp_path) as gateway, phone(gateway):
        gateway.gateway.parts.app.registry.register(give)
        (gateway.gateway.settings.workspace / "a.txt").write_text("hällo")
        for case in CASES:
            answers = []
            for is_fast in (True, False):
                monkeypatch.setattr(fast_calls, "IS_FAST", is_fast)
                answers.append(await post(gateway, request(*case)))
            short, library = answers
            assert short.status_code == library.status_code, case
            assert short.headers.get("content-type") == library.headers.get("content-type"), case
            is_json = short.headers.get("content-type") == "application/json"
            assert (short.json() if is_json else short.text) == (library.json() if is_json else library.text), case


@pytest.mark.parametrize("is_fast", [True, False])
async def test_a_header_that_repeats_an_argument_has_to_agree_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_fast: bool
) -> None:
    monkeypatch.setattr(fast_calls, "IS_FAST", is_fast)
    async with running_gateway(tmp_path) as gateway:
        gateway.gateway.parts.app.registry.register(Route())
        for arguments, headers, status in HEADERS:
            answer = await post(gateway, request("route", arguments, {}, headers))
            assert answer.status_code == status, (arguments, headers, answer.text)
            if status == 400:
                assert answer.json()["error"]["code"] == HEADER_MISMATCH
        assert len(await gateway.journal()) == 3, "a refused request runs nothing"


@asynccontextmanager
async def stream(gateway: RunningGateway, name: str) -> AsyncIterator[httpx2.Response]:
    sent = request(name, {}, {}, {})
    headers = {"authorization": f"Bearer {gateway.token}", **sent["headers"]}
    async with (
        httpx2.AsyncClient(timeout=60) as http,
        http.stream("POST", f"{gateway.url}/mcp", json=sent["json"], headers=headers) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        yield response


async def test_a_long_call_becomes_a_stream_and_ends_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_response, "_PING_SECONDS", 0.01)
    async with running_gateway(tmp_path) as gateway:
        began = add_blocking_tool(gateway)
        async with stream(gateway, "block") as response:
            assert await anext(aiter(response.aiter_lines())) == ": ping" and began.is_set()

        async def is_over() -> bool:
            return await codes(gateway) == ["cancelled"]

        await until(is_over)


async def test_a_stream_of_pings_ends_with_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_response, "_PING_SECONDS", 0.01)
    may_end = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for the test."""
        await may_end.wait()
        return "hello"

    async with running_gateway(tmp_path) as gateway:
        gateway.gateway.parts.app.registry.register(wait)
        async with stream(gateway, "wait") as response:
            lines = response.aiter_lines()
            assert await anext(lines) == ": ping"
            may_end.set()
            [event] = [line async for line in lines if line.startswith("data: ")]
            assert "hello" in event and '"id":7' in event
