"""What is going on: live updates, metrics, and the contract itself."""

import asyncio
import contextlib
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from handspan.gateway.live import Stream, TooManyListeners
from handspan.gateway.metrics import CONTENT_TYPE
from handspan.gateway.rest.errors import PRIVATE, Problem
from handspan.gateway.rest.route import Family, Visit

family: Final = Family("observe")
_HEARTBEAT: Final = 15.0
_SECONDS_TO_TAKE: Final = 30.0
"""For one update, by a client that does not read."""


class EventStream(Response):
    """Server-sent events, until the client goes, the stream is ended, or nobody reads."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, heartbeat: float = _HEARTBEAT) -> None:
        super().__init__(headers={**PRIVATE, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._stream = stream
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send updates as they come."""
        watching = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._send_all(send)
            with contextlib.suppress(TimeoutError):
                await _take(send, b"", more=False)
        finally:
            self._stream.end()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _send_all(self, send: Send) -> None:
        number = 0
        with contextlib.suppress(TimeoutError):
            await _take(send, b"event: ready\ndata: {}\n\n")
            while not self._stream.is_over:
                update = await self._stream.next(self._heartbeat)
                if update is not None:
                    number += 1
                    await _take(
                        send, b"id: %d\nevent: %b\ndata: %b\n\n" % (number, update.topic.encode(), update.encoded)
                    )
                elif not self._stream.is_over:
                    await _take(send, b": still here\n\n")

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._stream.end()


async def _take(send: Send, data: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(_SECONDS_TO_TAKE):
        await send({"type": "http.response.body", "body": data, "more_body": more})


@family.get("/api/live", media_type="text/event-stream", also_refuses=(429,))
async def live(visit: Visit) -> Response:
    """Live updates of lists, as server-sent events: the event is the list, the data says what changed.

    After a reconnect read the lists anew: what happened meanwhile is not told again.
    """
    assert visit.admitted is not None
    try:
        stream = visit.doors.live.subscribe(visit.owner, visit.admitted.token)
    except TooManyListeners as error:
        raise Problem(429, "too_many_streams", str(error)) from None
    return EventStream(stream)


@family.get("/metrics", media_type="text/plain")
async def metrics(visit: Visit) -> Response:
    """Figures for Prometheus."""
    text = await visit.doors.metrics.text()
    return Response(text, headers={**PRIVATE, "content-type": CONTENT_TYPE})


@family.get("/openapi.json")
async def contract(visit: Visit) -> Response:
    """This document."""
    # Loaded and made when somebody first asks: start-up counts.
    from handspan.gateway.rest.openapi import encoded_document  # noqa: PLC0415 - see above
    from handspan.gateway.rest.routes import operations  # noqa: PLC0415 - it lists this very module

    prefix = visit.request.scope.get("root_path", "")
    return Response(encoded_document(tuple(operations()), prefix), headers=PRIVATE, media_type="application/json")
