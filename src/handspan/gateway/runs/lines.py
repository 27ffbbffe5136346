"""The stored lines of a stream. A client that reads later starts at the first line (graph.md 5.6)."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakSet

from handspan.gateway.http.refusals import Refusal

RenderError: TypeAlias = Callable[[Refusal], bytes]
"""Returns the line with which a stream ends after this error."""
_REVOKED = "The token of this stream was revoked: pair anew (POST /pair with a code). The run goes on in its thread."


class StreamLines:
    """The lines of one stream, for any number of readers: a client may lose its connection and ask again."""

    def __init__(self, token: str = "", render_error: RenderError = lambda _: b"") -> None:
        self.token = token
        """The hash of the token of its readers: all are one client."""
        self.render_error = render_error
        self.lines: list[bytes] = []
        self.last: bytes | None = None
        """A line that replaces all lines that were not read yet."""
        self.is_over = False
        self.more = asyncio.Event()
        """Set at the next change, and then replaced by a new event."""
        self.size = 0
        """Bytes of all lines so far."""
        self._error: Exception | None = None
        """What went wrong before the first line was sent."""

    def put(self, line: bytes) -> None:
        """Add a line."""
        if self.last is None:
            self.lines.append(line + b"\n")
            self.size += len(line) + 1
            self.wake()

    def refuse(self, error: Exception) -> None:
        """Note what went wrong before the first line: it is the answer."""
        self._error = error

    def end(self) -> None:
        """Say that no more lines come."""
        self.is_over = True
        self.wake()

    def break_off(self, error: Exception, line: bytes) -> None:
        """End the stream with this line. Readers get nothing else: neither lines that wait nor later ones."""
        self._error = self._error or error
        self.last = line + b"\n"
        self.end()

    def wake(self) -> None:
        """Wake every reader."""
        self.more.set()
        self.more = asyncio.Event()

    async def wait_for_last(self) -> None:
        """Wait until no more lines come."""
        while not self.is_over:
            await self.more.wait()

    async def wait_for_first(self) -> None:
        """Wait for the first line. Raises the error that came instead."""
        while not self.lines and not self.is_over:
            await self.more.wait()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._error is not None:
            raise self._error


class LineReader:
    """Reads the lines of a stream, from the first to the last. Implements `PieceSource`."""

    def __init__(self, stream: StreamLines) -> None:
        self._stream = stream
        self._count = 0
        self._is_over = False

    async def next(self) -> bytes | None:
        """Wait for unread lines and return them together. None: the stream is over."""
        stream = self._stream
        while not self._is_over:
            if stream.last is not None:
                self._is_over = True
                return stream.last
            if self._count < len(stream.lines):
                piece = b"".join(stream.lines[self._count :])
                self._count = len(stream.lines)
                return piece
            if stream.is_over:
                break
            await stream.more.wait()
        return None

    def end(self) -> None:
        """Stop reading: the client is gone."""
        self._is_over = True
        self._stream.wake()


class StreamCodec:
    """Implements `AnswerCodec` for streams: another node sends one in one piece, when it is over (SPEC K5)."""

    async def encode(self, answer: StreamLines) -> bytes | None:
        """Return all lines of a stream, when it is over; None for one that was cut off."""
        await answer.wait_for_last()
        return b"".join(answer.lines) if answer.last is None else None

    def decode(self, stored: bytes) -> StreamLines:
        """Return a stream of these lines, which is over."""
        lines = StreamLines()
        lines.lines, lines.size, lines.is_over = [stored], len(stored), True
        return lines


class OpenStreams:
    """The streams that clients may read. A stream that nothing else refers to is forgotten."""

    def __init__(self) -> None:
        self._open: WeakSet[StreamLines] = WeakSet()

    def open(self, token: str, render_error: RenderError) -> StreamLines:
        """Return a new stream for a client with this token (its hash)."""
        lines = StreamLines(token, render_error)
        self._open.add(lines)
        return lines

    def revoke(self, token: str) -> None:
        """End the streams of a revoked token with an error. Their runs go on (graph.md 7.9)."""
        for lines in tuple(self._open):
            if lines.token == token:
                error = Refusal(401, "unauthorized", _REVOKED)
                lines.break_off(error, lines.render_error(error))
