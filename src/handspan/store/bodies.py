"""The bytes of an artifact that is being stored, in memory or in a file. They are read in pieces, more than once."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Protocol

PIECE: Final = 256 * 1024


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
