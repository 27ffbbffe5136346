"""A stream as a list that grows: a client that reads it later reads it from its beginning (graph.md 5.6)."""

import asyncio
from weakref import WeakSet

from handspan.gateway.graph.chunks import RunPlace, error_chunk
from handspan.gateway.http.refusals import Refusal

_REVOKED = "The token of this stream was revoked: pair anew (POST /pair with a code). The run goes on in its thread."


class Lines:
    """The lines of one stream, for as many readers as there are: one may lose its connection and ask again."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        """The hash of the token that its readers came with: they are one client."""
        self.place = RunPlace()
        """Of the run that is told."""
        self.lines: list[bytes] = []
        self.last: bytes | None = None
        """What is read in place of all that is left."""
        self.is_over = False
        self.more = asyncio.Event()
        """Set at the next change; then another one takes its place."""
        self.size = 0
        """Bytes of all lines so far."""
        self.error: Exception | None = None
        """What went wrong before there was a line, or before a line was read."""

    def put(self, line: bytes) -> None:
        """One more."""
        if self.last is None:
            self.lines.append(line + b"\n")
            self.size += len(line) + 1
            self.wake()

    def end(self) -> None:
        """There are no more."""
        self.is_over = True
        self.wake()

    def cut(self, error: Exception, line: bytes) -> None:
        """Let its readers hear nothing but this any more, whatever comes or has not been read yet."""
        self.error = self.error or error
        self.last = line + b"\n"
        self.end()

    def wake(self) -> None:
        """Let every reader look again."""
        self.more.set()
        self.more = asyncio.Event()

    async def begun(self) -> None:
        """Wait for the first line; raises what happened instead."""
        while not self.lines and not self.is_over:
            await self.more.wait()
        self.refuse()

    def refuse(self) -> None:
        """Raise what went wrong, if something has."""
        if self.error is not None:
            raise self.error


class LineReader:
    """Reads all lines of a stream, those that come later too."""

    def __init__(self, of: Lines) -> None:
        self._of = of
        self._count = 0
        self._is_over = False

    async def next(self) -> bytes | None:
        """The lines that were not read yet, once there are some; None at the end."""
        of = self._of
        while not self._is_over:
            if of.last is not None:
                self._is_over = True
                return of.last
            if self._count < len(of.lines):
                piece = b"".join(of.lines[self._count :])
                self._count = len(of.lines)
                return piece
            if of.is_over:
                break
            await of.more.wait()
        return None

    def end(self) -> None:
        """The client went away."""
        self._is_over = True
        self._of.wake()


class OpenStreams:
    """The streams that a client may read, for as long as anything refers to them."""

    def __init__(self) -> None:
        self._open: WeakSet[Lines] = WeakSet()

    def open(self, token: str) -> Lines:
        """A new one, for a client that came with this token (its hash)."""
        lines = Lines(token)
        self._open.add(lines)
        return lines

    def revoke(self, token: str) -> None:
        """The token was revoked: its clients hear that, and nothing more. The runs go on (graph.md 7.9)."""
        for lines in tuple(self._open):
            if lines.token == token:
                error = Refusal(401, "unauthorized", _REVOKED)
                lines.cut(error, error_chunk(error, lines.place))
