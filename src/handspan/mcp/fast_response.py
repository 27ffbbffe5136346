"""The response to one call over HTTP, for the short way of plain calls; and the watch over its client."""

import asyncio
from collections.abc import Callable
from typing import Final

from handspan.core.tasks import Tasks
from handspan.mcp.asgi import Receive, Send

_WATCH_SECONDS: Final = 0.05
"""How long a call runs before its client is watched."""
_PING_SECONDS: Final = 15.0
"""Silence after which the response becomes an event stream with pings: a proxy would cut off a longer silence."""
_JSON: Final = [(b"content-type", b"application/json")]
_EVENTS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]


class PlainResponse:
    """One message: as JSON, or as the last event of a stream if it took long."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_stream = False

    async def ping(self) -> None:
        """Show that the request is alive."""
        if not self._is_stream:
            self._is_stream = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})

    async def end(self, body: bytes) -> None:
        """Write the message."""
        if self._is_stream:
            body = b"event: message\r\ndata: %b\r\n\r\n" % body
        else:
            head = [*_JSON, (b"content-length", b"%d" % len(body))]
            await self._send({"type": "http.response.start", "status": 200, "headers": head})
        await self._send({"type": "http.response.body", "body": body})


class ClientWatch:
    """Watches over the client of a call that takes long: shows the client that the call is alive, and sees it leave.

    The watch begins after a moment: most calls are over before, and a task for each would cost more than the call.
    """

    def __init__(self, response: PlainResponse, receive: Receive, leave: Callable[[], object]) -> None:
        """`receive` gets the messages of the client. When it has left, `leave` is called."""
        self._response = response
        self._receive = receive
        self._leave = leave
        self.has_left = False
        self._tasks = Tasks()
        self._timer = asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._begin)

    def end(self) -> None:
        """Stop: the call is over."""
        self._timer.cancel()
        self._tasks.cancel()

    def _begin(self) -> None:
        self._tasks.start(self._ping())
        self._tasks.start(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self._leave()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            await self._response.ping()
