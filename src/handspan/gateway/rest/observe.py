"""What is going on: live updates, metrics, and the contract itself."""

from typing import Final

from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import EVENTS, STILL_HERE, Streamed, piece_of
from handspan.gateway.live import Stream, TooManyListeners
from handspan.gateway.metrics import CONTENT_TYPE
from handspan.gateway.rest.route import Family, Visit

family: Final = Family("observe")
_HEARTBEAT: Final = 15.0


class LiveUpdates:
    """A stream of updates as server-sent events, numbered, with a sign of life where nothing happens."""

    def __init__(self, stream: Stream, heartbeat: float = _HEARTBEAT) -> None:
        self._stream = stream
        self._heartbeat = heartbeat
        self._is_ready = False
        self._number = 0

    async def next(self) -> bytes | None:
        """The next event: `ready` first, then what happens."""
        if not self._is_ready:
            self._is_ready = True
            return piece_of(EVENTS, "ready", b"{}")
        update = await self._stream.next(self._heartbeat)
        if update is None:
            return None if self._stream.is_over else STILL_HERE
        self._number += 1
        return b"id: %d\n" % self._number + piece_of(EVENTS, update.topic, update.encoded)

    def end(self) -> None:
        """Nobody listens any more."""
        self._stream.end()


@family.get("/api/live", media_type=EVENTS)
async def live(visit: Visit) -> AsgiResponse:
    """Live updates of lists, as server-sent events: the event is the list, the data says what changed.

    After a reconnect read the lists anew: what happened meanwhile is not told again.
    """
    assert visit.admitted is not None
    try:
        stream = visit.doors.live.subscribe(visit.owner, visit.admitted.token)
    except TooManyListeners as error:
        raise Refusal(429, "too_many_streams", str(error)) from None
    return Streamed(LiveUpdates(stream), EVENTS, PRIVATE)


@family.get("/metrics", media_type="text/plain")
async def metrics(visit: Visit) -> AsgiResponse:
    """Figures for Prometheus."""
    text = await visit.doors.metrics.text()
    return AsgiResponse(text, headers={**PRIVATE, "content-type": CONTENT_TYPE})


@family.get("/openapi.json")
async def contract(visit: Visit) -> AsgiResponse:
    """This document."""
    # Loaded and made when somebody first asks: start-up counts.
    from handspan.gateway.rest.door import operations  # noqa: PLC0415 - it lists this very module
    from handspan.gateway.rest.openapi import encoded_document  # noqa: PLC0415 - see above

    prefix = visit.request.scope.get("root_path", "")
    return AsgiResponse(encoded_document(tuple(operations()), prefix), headers=PRIVATE, media_type="application/json")
