"""A stream as a list that grows: whoever reads it later reads it from its beginning (http.md 5.6)."""

import asyncio
from collections.abc import AsyncIterator


class Lines:
    """The lines of one stream, for as many readers as there are: one may lose its connection and ask again."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._is_over = False
        self._more = asyncio.Event()
        self.size = 0
        """Bytes of all lines so far."""
        self.error: Exception | None = None
        """What went wrong before there was a line."""

    def put(self, line: bytes) -> None:
        """One more."""
        self._lines.append(line + b"\n")
        self.size += len(line) + 1
        self._wake()

    def end(self) -> None:
        """There are no more."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    async def begun(self) -> None:
        """Wait for the first line; raises what happened instead."""
        while not self._lines and not self._is_over:
            await self._more.wait()
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """All of them, those that come later too."""
        read = 0
        while True:
            more = self._more
            if read < len(self._lines):
                yield b"".join(self._lines[read:])
                read = len(self._lines)
            elif self._is_over:
                return
            else:
                await more.wait()
