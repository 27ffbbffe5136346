"""A load balancer without stickiness, for MCP clients: each request goes to another node than the one before it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mcp import Client as McpClient
from tests.waiting import WAIT


class Balancer(httpx2.AsyncBaseTransport):
    """Sends each request to the next of these addresses."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = cycle(urls)
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        address = httpx2.URL(next(self._urls))
        request.url = request.url.copy_with(host=address.host, port=address.port)
        request.headers["host"] = f"{address.host}:{address.port}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


@asynccontextmanager
async def balanced_client(urls: Sequence[str], token: str, mode: str, **options: Any) -> AsyncIterator[McpClient]:
    """An official client behind a load balancer."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(transport=Balancer(urls), headers=headers, timeout=WAIT) as http:
        transport = streamable_http_client("http://balancer/mcp", http_client=http)
        async with McpClient(transport, mode=mode, cache=None, **options) as client:
            yield client
