"""What a model API takes as an image, and who makes an attachment fit (SPEC X4)."""

from collections.abc import Set
from typing import Protocol

from msgspec import Struct

from handspan.core.results import Attachment


class ImageLimits(Struct, frozen=True):
    """The images that an API takes. A larger one is scaled down, and one of another type is converted."""

    media_types: Set[str]
    size: int
    """Bytes of one image, before base64."""
    edge: int = 2000
    """Pixels of the longer side. The APIs scale a larger image down themselves, or refuse it among many others."""


class ImageReader(Protocol):
    """Gives a model the images of one conversation, whether they came inline or as artifacts."""

    async def read_image(self, image: Attachment, limits: ImageLimits) -> Attachment:
        """Return the image with its bytes, within the limits. Raises `ToolError` when that can't be done."""
        ...
