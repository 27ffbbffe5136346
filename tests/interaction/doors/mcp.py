"""`/mcp`: a client of the newer era, one request a call."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope
from tests.interaction.doors.rest import http_client

_VERSION: Final = "2026-07-28"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "table", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS: Final = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": _VERSION,
    "mcp-method": "tools/call",
}


class McpClientDoor:
    """Posts calls to the agent that each names."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, *calls: Asked) -> list[Envelope]:
        return await asyncio.gather(*map(self._call, calls))

    async def stop(self, asked: Asked, runs: asyncio.Event) -> None:
        running = asyncio.create_task(self._call(asked))
        await runs.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def _call(self, asked: Asked) -> Envelope:
        params = {"name": asked.tool, "arguments": dict(asked.arguments), "_meta": _META}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self._http.post(f"/mcp/{asked.agent}", json=body, headers={**_HEADERS, "mcp-name": asked.tool})
        assert answer.status_code == 200, answer.text
        return _envelope(answer.json()["result"])


def _envelope(result: dict[str, Any]) -> Envelope:
    """The envelope in what a client reads."""
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    if result["isError"]:
        meta = result["_meta"]
        codes = {"error_type": meta["handspan/error_type"], "code": meta["handspan/code"]}
        return {"status": "error", **codes, "message": texts[0]}
    text = None if texts == ["null"] else texts[0]  # there the word and the value are the same
    envelope = {"status": "success", "result": result.get("structuredContent", text)}
    images = [
        {"kind": "image", "media_type": block["mimeType"], "bytes": len(base64.b64decode(block["data"]))}
        for block in result["content"]
        if block["type"] == "image"
    ]
    return {**envelope, "attachments": images} if images else envelope


@asynccontextmanager
async def open_mcp(gateway: RunningGateway) -> AsyncIterator[McpClientDoor]:
    async with http_client(gateway) as http:
        yield McpClientDoor(http)
