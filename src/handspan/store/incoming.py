"""A file that is still coming, piece by piece: never whole in memory, and gone when it breaks off."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Final

from handspan.config.private_files import make_private
from handspan.core.errors import ToolError

_AT_ONCE: Final = 256 * 1024
"""Bytes that are gathered before a thread writes them."""


class Incoming:
    """Writes pieces to a file that nobody looks at yet. `discard` in any case: what was moved away meanwhile stays."""

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self.size = 0
        self._most = most
        self._file: IO[bytes] | None = None
        self._is_over = False
        self._turn = threading.Lock()

    async def write(self, pieces: AsyncIterator[bytes]) -> None:
        """Take them all; then they are on the disk. `ToolError` as soon as there are more than fit, `OSError`."""
        gathered = bytearray()
        async for piece in pieces:
            self.size += len(piece)
            if self.size > self._most:
                raise too_large(f"More than {self._most}", self._most)
            gathered += piece
            if len(gathered) >= _AT_ONCE:
                await asyncio.to_thread(self._write, bytes(gathered))
                gathered.clear()
        await asyncio.to_thread(self._write, bytes(gathered), is_last=True)

    async def discard(self) -> None:
        """Let go of it. This is done even if somebody cancels it, and after a thread that still writes."""
        await asyncio.shield(asyncio.to_thread(self._discard))

    def _write(self, data: bytes, *, is_last: bool = False) -> None:
        with self._turn:
            if self._is_over:  # whoever wanted it was cancelled while this thread was about to begin
                return
            file = self._file = self._file or self._open()
            file.write(data)
            if is_last:
                file.flush()
                os.fsync(file.fileno())

    def _open(self) -> IO[bytes]:
        make_private(self.path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.fdopen(os.open(self.path, flags, 0o600), "wb")

    def _discard(self) -> None:
        with self._turn:
            self._is_over = True
            if self._file is not None:
                with contextlib.suppress(OSError):  # what it still holds does not fit on the disk; nobody wants it
                    self._file.close()
                self.path.unlink(missing_ok=True)


def too_large(size: str, most: int) -> ToolError:
    """There is a limit for one artifact."""
    return ToolError("file_too_large", f"{size} bytes are more than an artifact may have ({most}). Ask for less.")
