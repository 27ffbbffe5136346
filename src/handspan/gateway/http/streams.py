"""Answers that come piece by piece, while something goes on: server-sent events, or a line of JSON for each event."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final, Literal, Protocol, TypeAlias

from starlette.types import Receive, Scope, Send

from handspan.gateway.http.message import AsgiResponse

StreamKind: TypeAlias = Literal["text/event-stream", "application/x-ndjson"]
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
STREAM_KINDS: Final[tuple[StreamKind, ...]] = (EVENTS, LINES)
STILL_HERE: Final = b": still here\n\n"
"""A comment among server-sent events: for whoever would think that nobody is there."""
_SECONDS_TO_TAKE: Final = 30.0
"""For one piece, by a client that does not read."""


class Pieces(Protocol):
    """What is sent, as it comes."""

    async def next(self) -> bytes | None:
        """The next piece, once it is there; None when it was the last one, or after `end`."""
        ...

    def end(self) -> None:
        """Nobody listens any more."""
        ...


class Streamed(AsgiResponse):
    """An answer that lasts until its pieces end, the client goes, or nobody reads."""

    def __init__(
        self,
        pieces: Pieces,
        kind: str,
        headers: Mapping[str, str],
        patience: float | None = _SECONDS_TO_TAKE,
        status: int = 200,
    ) -> None:
        """`patience`: seconds that a client may take for one piece; None where it may take its time."""
        super().__init__(None, status, headers, kind)
        if kind in STREAM_KINDS:  # a proxy passes each event on as it comes
            self.headers.setdefault("x-accel-buffering", "no")
        self._pieces = pieces
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces as they come."""
        watching = asyncio.create_task(self._watch(receive))
        try:
            await self.start(send)
            with contextlib.suppress(TimeoutError):
                while scope["method"] != "HEAD" and (piece := await self._pieces.next()) is not None:
                    await self._take(send, piece)
            with contextlib.suppress(TimeoutError):
                await self._take(send, b"", more=False)
        finally:
            self._pieces.end()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._pieces.end()

    async def _take(self, send: Send, data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._patience):
            await send({"type": "http.response.body", "body": data, "more_body": more})


def piece_of(kind: StreamKind, event: str, data: bytes) -> bytes:
    """One event, whose data is JSON on one line. A line of JSON has the event's name in it."""
    return data + b"\n" if kind == LINES else b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def wanted_stream(accept: str) -> StreamKind | None:
    """The kind of stream that a client prefers to a plain answer, by its `Accept`; None when it does not."""
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
