"""`handspan mcp serve` at work: an MCP client at standard input and output, and the MCP door of a gateway."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2

from handspan.cli import late
from handspan.cli.mcp_relay import RelayResponse, SendToDoor, relay_stdio
from handspan.cli.remote import Remote
from handspan.client.errors import GatewayUnreachable
from handspan.net.exchange import describe_http_error
from handspan.net.guard import NetGuard


async def serve_stdio(remote: Remote | None, path: str) -> None:
    """Connect the client to the door at this path, of this gateway or of one inside this process, until it leaves."""
    async with AsyncExitStack() as stack:
        await relay_stdio(await (_to_process(path, stack) if remote is None else _to_gateway(remote, path, stack)))


async def _to_process(path: str, stack: AsyncExitStack) -> SendToDoor:
    """Return what sends requests to a gateway inside this process; `stack` closes that gateway."""
    inside = late.inside.make_inside()
    await inside.open()
    stack.push_async_callback(inside.close)
    return lambda method, headers, body: inside.stream(method, path, headers, body)


async def _to_gateway(remote: Remote, path: str, stack: AsyncExitStack) -> SendToDoor:
    """Return what sends requests to this gateway; `stack` closes the connection."""
    guard = NetGuard(tls=remote.tls).trust(remote.url)
    # No limit on silence: a call may take long and say nothing.
    client = guard.client(headers={"Authorization": f"Bearer {remote.token}"}, timeout=None)
    http = await stack.enter_async_context(client)

    @asynccontextmanager
    async def send(method: str, headers: Mapping[str, str], body: bytes) -> AsyncGenerator[RelayResponse]:
        try:
            async with http.stream(method, remote.url + path, headers=dict(headers), content=body) as response:
                yield _HttpResponse(response)
        except httpx2.RequestError as error:
            text = f"The gateway does not answer: {describe_http_error(error)} Is it running (`handspan serve`)?"
            raise GatewayUnreachable(text) from None

    return send


class _HttpResponse:
    """A response over HTTP, as the relay reads it."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def lines(self) -> AsyncIterator[str]:
        return self._response.aiter_lines()
