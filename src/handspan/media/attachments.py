"""The images of one owner's conversations, made fit for the API of a model (SPEC X4)."""

from typing import Final

from msgspec import structs

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.images import ImageLimits
from handspan.core.results import Attachment
from handspan.media.workers import MediaWorkers

_UNREADABLE: Final = frozenset(("image/heic", "image/heif"))
"""Images that Pillow can't read, and some APIs can."""


class OwnerImages:
    """Reads the images of one owner, inline ones and artifacts."""

    def __init__(self, artifacts: Artifacts, workers: MediaWorkers, owner: str) -> None:
        self._artifacts = artifacts
        self._workers = workers
        self._owner = owner

    async def read_image(self, image: Attachment, limits: ImageLimits) -> Attachment:
        """Return the image with its bytes, within the limits. Raises `ToolError` when that can't be done."""
        data = image.data or await self._load(image)
        media_type = image.media_type.partition(";")[0].strip().lower()
        if media_type in _UNREADABLE & limits.media_types and len(data) <= limits.size:
            return structs.replace(image, data=data)
        fitted = await self._workers.fit_image(data, limits)
        return structs.replace(image, data=fitted.data, media_type=fitted.media_type)

    async def _load(self, image: Attachment) -> bytes:
        if image.artifact is None:
            raise ToolError("execution_failed", "it is empty")
        return await self._artifacts.read(image.artifact.id, owner=self._owner)
