"""The bytes of an artifact that is being stored: in memory, in a file, or in a file that still arrives in pieces.

What arrives is never whole in memory, and is removed when the pieces break off.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Final, Protocol

from handspan.config.private_files import make_private
from handspan.core.errors import ToolError
from handspan.core.tasks import finish

PIECE: Final = 256 * 1024
_PARTIAL: Final = ".part"
_ABANDONED_AFTER: Final = 3600.0
"""Seconds without a write after which the process that received a partial file counts as gone."""


class Body(Protocol):
    """Bytes whose number is known."""

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, limit: int) -> bytes:
        """Return `limit` bytes from `offset`; fewer at the end. Raises `OSError`."""


class BytesBody:
    """A body in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    async def read(self, offset: int, limit: int) -> bytes:
        """Return a part of the bytes."""
        return self._data[offset : offset + limit]


class FileBody:
    """A body in a file, which is read on threads: a disk may be slow."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self.size = size

    async def read(self, offset: int, limit: int) -> bytes:
        """Return a part of the file."""
        return await asyncio.to_thread(self._read, offset, limit)

    def _read(self, offset: int, limit: int) -> bytes:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return os.pread(descriptor, limit, offset)
        finally:
            os.close(descriptor)


async def pieces_of(body: Body) -> AsyncIterator[bytes]:
    """Yield the body piece by piece."""
    for offset in range(0, body.size, PIECE):
        yield await body.read(offset, PIECE)


async def digest_of(body: Body) -> str:
    """Return the SHA-256 of the body in hexadecimal digits."""
    found = hashlib.sha256()
    async for piece in pieces_of(body):
        await asyncio.to_thread(found.update, piece)
    return found.hexdigest()


class PartialFile:
    """Writes pieces to a file that no reader knows yet. Always call `discard`: a file that was renamed stays."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.path = folder / f"{secrets.token_hex(16)}{_PARTIAL}"
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
            if len(collected) >= PIECE:
                await asyncio.to_thread(self._write, bytes(collected))
                collected.clear()
        await asyncio.to_thread(self._write, bytes(collected), is_last=True)

    async def discard(self) -> None:
        """Remove the file, after the end of a thread that still writes. A cancelled caller waits for that, too."""
        await finish(asyncio.to_thread(self._discard))  # a loop that ends now would leave the file open

    def _write(self, data: bytes, *, is_last: bool = False) -> None:
        """Append to the file. With the last piece, all of it is on the disk."""
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
