"""Artifacts: data that is too large for a message, stored apart and read in parts (SPEC X3)."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct


class ArtifactRef(Struct, frozen=True):
    """The handle of an artifact."""

    id: str
    size: int
    media_type: str = "text/plain"
    name: str = ""


class StoredArtifact(Struct, frozen=True):
    """An artifact in a list."""

    ref: ArtifactRef
    session: str
    at: float
    """Seconds since 1970."""


class Artifacts(Protocol):
    """Stores large data for its owner, limited in number, size and age."""

    async def keep(
        self, data: bytes, *, owner: str, session: str = "", media_type: str = "text/plain", name: str = ""
    ) -> ArtifactRef:
        """Store these bytes. Raises `ToolError` when they are too large or can't be written."""
        ...

    async def receive(
        self,
        pieces: AsyncIterator[bytes],
        *,
        owner: str,
        session: str = "",
        media_type: str = "text/plain",
        name: str = "",
    ) -> ArtifactRef:
        """Store data that arrives in pieces, without holding all of it in memory.

        The data is on the disk when this returns. Raises `ToolError` when it is too large or can't be written. When
        the pieces break off, none of them stays on the disk, whatever is raised.
        """
        ...

    async def get(self, artifact_id: str, *, owner: str) -> ArtifactRef:
        """Return the handle. Raises `ToolError` (`file_not_found`) when the owner has no such artifact."""
        ...

    async def read(self, artifact_id: str, *, owner: str, offset: int = 0, limit: int | None = None) -> bytes:
        """Return `limit` bytes from `offset`, or all after it."""
        ...
