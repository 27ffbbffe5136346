"""Live updates and metrics."""

from typing import Final

from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import EVENTS, HEARTBEAT_SECONDS, StreamedResponse, piece_of
from handspan.gateway.live import Stream, TooManyListeners
from handspan.gateway.metrics import CONTENT_TYPE
from handspan.gateway.rest.route import Family, RestRequest

family: Final = Family("observe")


class LiveUpdates:
    """Live updates as numbered server-sent events."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._is_ready = False
        self._number = 0

    async def next(self) -> bytes | None:
        """Return the next event: `ready` first, then updates. None after the last one."""
        if not self._is_ready:
            self._is_ready = True
            return piece_of(EVENTS, "ready", b"{}")
        update = await self._stream.next()
        if update is None:
            return None
        self._number += 1
        return b"id: %d\n" % self._number + piece_of(EVENTS, update.topic, update.encoded)

    def end(self) -> None:
        """End the stream: the client is gone."""
        self._stream.end()


@family.get("/api/live", media_type=EVENTS)
async def live(request: RestRequest) -> AsgiResponse:
    """Live updates as server-sent events: the event names a list, the data says what changed.

    Read the lists again after a reconnect: missed updates are not sent again.
    """
    try:
        stream = request.parts.live.subscribe(request.owner, request.token_hash)
    except TooManyListeners as error:
        raise Refusal(429, "too_many_streams", str(error)) from None
    return StreamedResponse(LiveUpdates(stream), EVENTS, PRIVATE, heartbeat=HEARTBEAT_SECONDS)


@family.get("/metrics", media_type="text/plain")
async def metrics(request: RestRequest) -> AsgiResponse:
    """Metrics for Prometheus."""
    text = await request.parts.metrics.text()
    return AsgiResponse(text, headers={**PRIVATE, "content-type": CONTENT_TYPE})
