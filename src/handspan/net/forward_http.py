"""HTTP/1.1 on one connection of the forward proxy, and one request that it passes on."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import h11

from handspan.core.errors import ToolError
from handspan.net.dial import Streams
from handspan.net.urls import Url

CHUNK: Final = 65_536
_EVENTS_AT_ONCE: Final = 8
"""After so many events a connection waits for its turn: bodies of tiny chunks must not keep the event loop busy."""

_Headers: TypeAlias = list[tuple[bytes, bytes]]
# These are meant for the proxy alone, or for one connection. `proxy-…` is dropped, too.
_OF_ONE_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"})
_STATUSES: Final = {"policy_denied": 403, "invalid_arguments": 400}


class HttpLink:
    """One side of the proxy: events of h11 over a connection.

    `count` is called with the number of bytes that were read. `turns` lets one connection of a command go on in each
    round of the event loop.
    """

    def __init__(
        self,
        role: "type[h11.CLIENT] | type[h11.SERVER]",
        streams: Streams,
        count: Callable[[int], None],
        turns: asyncio.Lock,
    ) -> None:
        self.state = h11.Connection(role, max_incomplete_event_size=CHUNK)
        self.reader, self.writer = streams
        self._count = count
        self._turns = turns
        self._events = 0

    async def receive(self) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
        """Return the next event that the other side sends, or `PAUSED` after its request."""
        while (event := self.state.next_event()) is h11.NEED_DATA:
            data = await self.reader.read(CHUNK)
            self._count(len(data))
            self.state.receive_data(data)
        if self._events % _EVENTS_AT_ONCE == 0:
            async with self._turns:
                await asyncio.sleep(0)
        self._events += 1
        return event

    async def send(self, event: "h11.Event") -> None:
        """Send this event and wait while the other side reads too slowly."""
        self.writer.write(self.state.send(event) or b"")
        await self.writer.drain()


async def pass_request(client: HttpLink, request: "h11.Request", url: Url, upstream: HttpLink) -> None:
    """Send a request of the client to the server, and the answer back. Both bodies may flow at the same time."""
    host = url.origin.partition("://")[2].encode()
    headers = [(b"host", host), *_kept_headers(request.headers, also=b"host"), (b"connection", b"close")]
    target = f"{url.path}{url.query}".encode()
    await upstream.send(h11.Request(method=request.method, target=target, headers=headers))
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_pass_body(client, upstream))
        await _pass_response(upstream, client)
        sending.cancel()


async def refuse(client: HttpLink, error: ToolError) -> None:
    """Answer the client's request with this error."""
    text = f"{error.message}\n".encode()
    headers = [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(text)))]
    status = _STATUSES.get(error.code, 502)
    await client.send(h11.Response(status_code=status, headers=[*headers, ("connection", "close")]))
    if client.state.our_state is h11.SEND_BODY:
        await client.send(h11.Data(data=text))
        await client.send(h11.EndOfMessage())


async def _pass_response(upstream: HttpLink, client: HttpLink) -> None:
    """Pass the answer on. Raises `h11.ProtocolError` when the server breaks the answer off."""
    try:
        response = await _receive_response(upstream, client)
    except (OSError, h11.RemoteProtocolError) as error:
        await refuse(client, ToolError("network_error", f"The server sent no proper answer: {error}."))
        return
    headers = [*_kept_headers(response.headers, also=b"transfer-encoding"), (b"connection", b"close")]
    await client.send(h11.Response(status_code=response.status_code, headers=headers, reason=response.reason))
    await _pass_body(upstream, client)


async def _receive_response(upstream: HttpLink, client: HttpLink) -> "h11.Response":
    """Return the head of the answer. Pass on that the server wants the body of the request (`100 Continue`)."""
    while not isinstance(event := await upstream.receive(), h11.Response):
        if not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("it closed the connection")
        if event.status_code == 100 and client.state.they_are_waiting_for_100_continue:
            await client.send(h11.InformationalResponse(status_code=100, headers=[]))
    return event


async def _pass_body(source: HttpLink, sink: HttpLink) -> None:
    while isinstance(event := await source.receive(), h11.Data):
        await sink.send(h11.Data(data=event.data))
    if isinstance(event, h11.EndOfMessage):
        await sink.send(h11.EndOfMessage())


def _kept_headers(headers: Iterable[tuple[bytes, bytes]], *, also: bytes) -> _Headers:
    """Return the headers without those of one connection, those that `Connection` names, and `also`."""
    given = list(headers)
    named = {word.strip().lower() for name, value in given if name == b"connection" for word in value.split(b",")}
    dropped = _OF_ONE_CONNECTION | named | {also}
    return [(name, value) for name, value in given if name not in dropped and not name.startswith(b"proxy-")]
