"""Sessions of MCP clients are bounded for each token, and no client locks out another one (SPEC S7)."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.principals import OPERATOR
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.gateway.mcp.test_door import mcp_client, names
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio

HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "flood", "version": "1"},
}
BOUNDS = {"sessions": 6, "sessions_by_token": 3}


async def post(gateway: RunningGateway, token: str, method: str, session: str = "") -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    if session:
        headers["mcp-session-id"] = session
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": HELLO if method == "initialize" else {}}
    async with httpx2.AsyncClient(timeout=WAIT) as http:
        return await http.post(f"{gateway.url}/mcp", json=body, headers=headers)


async def open_session(gateway: RunningGateway, token: str) -> str:
    opened = await post(gateway, token, "initialize")
    assert opened.status_code == 200, opened.text
    return opened.headers["mcp-session-id"]


async def tokens(gateway: RunningGateway, count: int) -> list[str]:
    return [await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools",)) for _ in range(count)]


async def status_of(gateway: RunningGateway, token: str, session: str) -> int:
    return (await post(gateway, token, "tools/list", session)).status_code


async def test_a_token_with_too_many_sessions_loses_its_oldest_unused_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(tmp_path, mcp=BOUNDS) as gateway:
        (flood,) = await tokens(gateway, 1)
        first, second, third = [await open_session(gateway, flood) for _ in range(3)]
        assert await status_of(gateway, flood, first) == 200  # so `second` is the oldest now
        fourth = await open_session(gateway, flood)
        found = [await status_of(gateway, flood, one) for one in (first, second, third, fourth)]
        assert found == [200, 404, 200, 200]
        assert "opens more than 3 sessions" in caplog.text


async def test_a_flood_of_one_token_locks_out_no_other_client_and_memory_stays_bounded(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, mcp=BOUNDS) as gateway:
        (flood, other) = await tokens(gateway, 2)
        kept = await open_session(gateway, other)
        answers = await asyncio.gather(*(post(gateway, flood, "initialize") for _ in range(40)))
        assert {answer.status_code for answer in answers} == {200}
        assert await status_of(gateway, other, kept) == 200
        async with mcp_client(gateway, "legacy") as operator:
            assert "read_file" in await names(operator)


async def test_where_many_tokens_have_all_sessions_the_operator_gets_in(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, mcp=BOUNDS) as gateway:
        floods = await tokens(gateway, 3)
        async with AsyncExitStack() as stack:
            for flood in floods[:2]:
                for _ in range(3):  # each client holds a stream of notifications: none of these sessions is unused
                    await stack.enter_async_context(mcp_client(gateway, "legacy", token=flood))
            assert (await post(gateway, floods[2], "initialize")).status_code == 200
            session = await open_session(gateway, gateway.token)
            assert await status_of(gateway, gateway.token, session) == 200


async def test_a_session_that_its_client_ends_counts_no_longer(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, mcp=BOUNDS) as gateway:
        (token,) = await tokens(gateway, 1)
        kept = await open_session(gateway, token)
        for _ in range(5):
            session = await open_session(gateway, token)
            headers = {"authorization": f"Bearer {token}", "mcp-session-id": session}
            async with httpx2.AsyncClient(timeout=WAIT, headers=headers) as http:
                assert (await http.delete(f"{gateway.url}/mcp")).status_code == 200
        assert await status_of(gateway, token, kept) == 200
