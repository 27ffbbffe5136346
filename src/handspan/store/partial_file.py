"""A file that arrives in pieces: it is never whole in memory, and is removed when the pieces break off."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Final

from handspan.config.private_files import make_private
from handspan.core.errors import ToolError
from handspan.core.finishing import finish

_CHUNK: Final = 256 * 1024
"""Bytes that are collected before a thread writes them."""


_PARTIAL: Final = ".part"
_ABANDONED_AFTER: Final = 3600.0
"""Seconds without a write after which the process that received a partial file counts as gone."""


class PartialFile:
    """Writes pieces to a file that no reader knows yet. Always call `discard`: a file that was renamed stays."""

    def __init__(self, folder: Path, name: str, limit: int) -> None:
        self.path = folder / f"{name}{_PARTIAL}"
        self.size = 0
        self._limit = limit
        self._file: IO[bytes] | None = None
        self._is_over = False
        """Whether `discard` was called: then nothing is written any more."""
        self._lock = threading.Lock()

    async def write(self, pieces: AsyncIterator[bytes]) -> None:
        """Write all pieces to the disk. Raises `ToolError` when they are too large, `OSError` when the disk fails."""
        collected = bytearray()
        async for piece in pieces:
            self.size += len(piece)
            if self.size > self._limit:
                raise too_large(f"More than {self._limit}", self._limit)
            collected += piece
            if len(collected) >= _CHUNK:
                await asyncio.to_thread(self._write, bytes(collected))
                collected.clear()
        await asyncio.to_thread(self._write, bytes(collected), is_last=True)

    async def discard(self) -> None:
        """Remove the file, after the end of a thread that still writes. A cancelled caller waits for that, too."""
        await finish(asyncio.to_thread(self._discard))  # a loop that ends now would leave the file open

    def _write(self, data: bytes, *, is_last: bool = False) -> None:
        with self._lock:
            if self._is_over:  # the caller was cancelled before this thread began
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
        with self._lock:
            self._is_over = True
            if self._file is not None:
                with contextlib.suppress(OSError):  # the last bytes may not fit on the disk; they are not needed
                    self._file.close()
                self.path.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Remove partial files that were not written for an hour: their process has ended."""
    for path in folder.glob(f"*{_PARTIAL}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _ABANDONED_AFTER:
                path.unlink()


def too_large(size: str, limit: int) -> ToolError:
    """Return the error for a file above the limit of one artifact."""
    return ToolError("file_too_large", f"{size} bytes are more than an artifact may have ({limit}). Ask for less.")
