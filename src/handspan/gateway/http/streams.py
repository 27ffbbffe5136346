"""Answers that are sent piece by piece: server-sent events, or one line of JSON for each event."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol, TypeAlias

from starlette.types import Receive, Scope, Send

from handspan.gateway.http.message import AsgiResponse

StreamKind: TypeAlias = Literal["text/event-stream", "application/x-ndjson"]
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
STREAM_KINDS: Final[tuple[StreamKind, ...]] = (EVENTS, LINES)
HEARTBEAT_SECONDS: Final = 15.0
"""Silence after which a stream of server-sent events gets a comment: a proxy would cut off a longer silence."""
_STILL_HERE: Final = b": still here\n\n"
_SECONDS_TO_TAKE: Final = 30.0
"""The timeout for sending one piece to a client that does not read."""


class PieceSource(Protocol):
    """The source of the pieces of an answer."""

    async def next(self) -> bytes | None:
        """Wait for the next piece and return it; None after the last one, or after `end`.

        A caller that is cancelled meanwhile gets the same piece with its next call.
        """

    def end(self) -> None:
        """Stop: the client does not read any more."""


class StreamedResponse(AsgiResponse):
    """An answer that lasts until its pieces end, the client leaves, or the client stops reading."""

    def __init__(
        self,
        pieces: PieceSource,
        kind: str,
        headers: Mapping[str, str],
        piece_seconds: float | None = _SECONDS_TO_TAKE,
        status: int = 200,
        on_leave: Callable[[], object] | None = None,
        heartbeat: float | None = None,
    ) -> None:
        """`piece_seconds`: seconds that the client may take for one piece; None for no limit.

        `heartbeat`: seconds without a piece after which a comment is sent; only for server-sent events.

        `on_leave` is called when the client disconnects before the end.
        """
        super().__init__(None, status, headers, kind)
        if kind in STREAM_KINDS:  # a proxy passes each event on as it comes
            self.headers.setdefault("x-accel-buffering", "no")
        self._pieces = pieces
        self._piece_seconds = piece_seconds
        self._on_leave = on_leave
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces as they arrive."""
        watching = asyncio.create_task(self._watch(receive))
        try:
            await self.start(send)
            with contextlib.suppress(TimeoutError):  # the client has stopped reading
                while scope["method"] != "HEAD" and (piece := await self._next()) is not None:
                    await self._send(send, piece)
            watching.cancel()  # a disconnect after the last piece does not count as leaving
            with contextlib.suppress(TimeoutError):
                await self._send(send, b"", more=False)
        finally:
            self._pieces.end()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._heartbeat):
                return await self._pieces.next()
        except TimeoutError:
            return _STILL_HERE

    async def _watch(self, receive: Receive) -> None:
        """End the pieces when the client disconnects."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._pieces.end()
        if self._on_leave is not None:
            self._on_leave()

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._piece_seconds):
            await send({"type": "http.response.body", "body": data, "more_body": more})


def piece_of(kind: StreamKind, event: str, data: bytes) -> bytes:
    """Return one event with its data, JSON on one line. In a stream of lines, the data itself has the event's name."""
    return data + b"\n" if kind == LINES else b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def preferred_stream(accept: str) -> StreamKind | None:
    """Return the kind of stream that `Accept` prefers to a whole answer; None when it prefers none."""
    offers = sorted((_offer(part) for part in accept.split(",")), key=lambda offer: -offer[1])
    for name, quality in offers:
        if quality <= 0 or name in ("application/json", "application/*", "*/*"):
            return None
        for kind in STREAM_KINDS:
            if name == kind:
                return kind
    return None


def _offer(part: str) -> tuple[str, float]:
    name, *parameters = (word.strip().lower() for word in part.split(";"))
    quality = next((word[2:] for word in parameters if word.startswith("q=")), "1")
    try:
        return name, min(1.0, max(0.0, float(quality)))
    except ValueError:
        return name, 0.0
