"""What is too large for a message: kept aside, read by range or search (SPEC X3)."""

from typing import Protocol

from msgspec import Struct


class ArtifactRef(Struct, frozen=True):
    """The handle of something kept aside."""

    id: str
    size: int
    media_type: str = "text/plain"
    name: str = ""


class Artifacts(Protocol):
    """Keeps large things for their owner: bounded in number, size and age."""

    async def keep(
        self, data: bytes, *, owner: str, session: str = "", media_type: str = "text/plain", name: str = ""
    ) -> ArtifactRef:
        """Keep these bytes; `ToolError` when there is no room for them."""
        ...

    async def get(self, artifact_id: str, *, owner: str) -> ArtifactRef:
        """The handle; `ToolError` (`file_not_found`) when the owner has no such artifact."""
        ...

    async def read(self, artifact_id: str, *, owner: str, offset: int = 0, limit: int | None = None) -> bytes:
        """These bytes of it."""
        ...
