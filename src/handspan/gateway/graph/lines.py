"""A stream as a list that grows: whoever reads it later reads it from its beginning (http.md 5.6)."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakSet

from handspan.gateway.entry.refusals import Refused
from handspan.gateway.graph.chunks import Place, error_chunk

_REVOKED = "The token of this stream was revoked: pair anew (POST /pair with a code). The run goes on in its thread."


class Lines:
    """The lines of one stream, for as many readers as there are: one may lose its connection and ask again."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        """The hash of the token that its readers came with: they are one client."""
        self.place = Place()
        """Of the run that is told."""
        self._lines: list[bytes] = []
        self._last: bytes | None = None
        """What is read in place of all that is left."""
        self._is_over = False
        self._more = asyncio.Event()
        self.size = 0
        """Bytes of all lines so far."""
        self.error: Exception | None = None
        """What went wrong before there was a line, or somebody read one."""

    def put(self, line: bytes) -> None:
        """One more."""
        if self._last is None:
            self._lines.append(line + b"\n")
            self.size += len(line) + 1
            self._wake()

    def end(self) -> None:
        """There are no more."""
        self._is_over = True
        self._wake()

    def cut(self, error: Exception, line: bytes) -> None:
        """Let its readers hear nothing but this any more, whatever comes or has not been read yet."""
        self.error = self.error or error
        self._last = line + b"\n"
        self.end()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    async def begun(self) -> None:
        """Wait for the first line; raises what happened instead."""
        while not self._lines and not self._is_over:
            await self._more.wait()
        self.refuse()

    def refuse(self) -> None:
        """Raise what went wrong, if something has."""
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """All of them, those that come later too."""
        read = 0
        while self._last is None:
            more = self._more
            if read < len(self._lines):
                piece = b"".join(self._lines[read:])
                read = len(self._lines)
                yield piece
            elif self._is_over:
                return
            else:
                await more.wait()
        yield self._last


class OpenStreams:
    """The streams that somebody may read, for as long as anybody has them."""

    def __init__(self) -> None:
        self._open: WeakSet[Lines] = WeakSet()

    def open(self, token: str) -> Lines:
        """A new one, for who came with this token (its hash)."""
        lines = Lines(token)
        self._open.add(lines)
        return lines

    def revoke(self, token: str) -> None:
        """The token was revoked: whoever came with it hears that, and nothing more. The runs go on (http.md 7.9)."""
        for lines in tuple(self._open):
            if lines.token == token:
                error = Refused(401, "unauthorized", _REVOKED)
                lines.cut(error, error_chunk(error, lines.place))
