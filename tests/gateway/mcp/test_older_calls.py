"""Calls of a client of the older era, which has a session with the MCP SDK."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.function_tool import tool
from handspan.core.principals import OPERATOR
from handspan.core.results import Success
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.gateway.mcp.test_door import add_blocking_tool, codes
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Session:
    """A client of the older era, message by message."""

    def __init__(self, gateway: RunningGateway, http: httpx2.AsyncClient, token: str) -> None:
        self._gateway = gateway
        self._http = http
        self.headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }

    async def post(
        self, method: str, params: Any = None, number: int | None = 7, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        sent = message if number is None else {**message, "id": number}
        return await self._http.post(f"{self._gateway.url}/mcp", json=sent, headers={**self.headers, **(headers or {})})

    async def open(self, capabilities: dict[str, Any]) -> None:
        """Open the session, and list the tools: as every client does."""
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await self.post("initialize", about)
        self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = "2025-11-25"
        assert (await self.post("notifications/initialized", number=None)).status_code == 202
        assert (await self.post("tools/list")).status_code == 200

    async def end(self) -> httpx2.Response:
        return await self._http.request("DELETE", f"{self._gateway.url}/mcp", headers=self.headers)


@asynccontextmanager
async def session(gateway: RunningGateway, **capabilities: Any) -> AsyncIterator[Session]:
    async with httpx2.AsyncClient(timeout=60) as http:
        opened = Session(gateway, http, gateway.token)
        await opened.open(capabilities)
        yield opened


def read(response: httpx2.Response) -> Any:
    """The one message of a response: of its body, or of its stream of events."""
    if response.headers.get("content-type") != "text/event-stream":
        return response.json()
    [event] = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(event.removeprefix("data: "))


async def test_a_notification_cancels_a_call(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, session(gateway) as client:
        began = add_blocking_tool(gateway)
        calling = asyncio.create_task(client.post("tools/call", {"name": "block", "arguments": {}}, 9))
        await until(began.is_set)
        unknown = await client.post("notifications/cancelled", {"requestId": 8}, None)
        cancelled = await client.post("notifications/cancelled", {"requestId": 9}, None)
        assert unknown.status_code == cancelled.status_code == 202
        answer = read(await calling)
        assert answer["id"] == 9 and answer["error"] == {"code": -32800, "message": "Request cancelled"}

        async def is_over() -> bool:
            return await codes(gateway) == ["cancelled"]

        await until(is_over)  # the library answers before the call has ended
        assert read(await client.post("tools/call", {"name": "list_directory", "arguments": {"path": "."}}))["result"]


async def test_a_call_goes_on_when_its_connection_breaks(tmp_path: Path) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for the test."""
        began.set()
        await may_end.wait()
        return "hello"

    async with running_gateway(tmp_path) as gateway, session(gateway) as client:
        gateway.gateway.parts.app.registry.register(wait)
        message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "wait"}}
        async with (
            httpx2.AsyncClient(timeout=60) as http,
            http.stream("POST", f"{gateway.url}/mcp", json=message, headers=client.headers) as response,
        ):
            assert response.status_code == 200
            await until(began.is_set)
        may_end.set()

        async def is_over() -> bool:
            results = [record.result for record in await gateway.journal()]
            return [result.value for result in results if isinstance(result, Success)] == ["hello"]

        await until(is_over)


async def test_a_session_that_is_over_or_another_client_s_is_not_found(tmp_path: Path) -> None:
    call = {"name": "list_directory", "arguments": {"path": "."}}
    async with running_gateway(tmp_path) as gateway, session(gateway) as client:
        assert read(await client.post("tools/call", call))["result"]["isError"] is False
        other = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools",), "other")
        stolen = await client.post("tools/call", call, headers={"authorization": f"Bearer {other}"})
        assert stolen.status_code == 404 and "Session not found" in stolen.text
        await client.end()
        assert (await client.post("tools/call", call)).status_code == 404
