"""What a model API takes as an image, and the reader that makes an attachment fit (SPEC X4)."""

from collections.abc import Set
from typing import Final, Protocol

from msgspec import Struct, structs

from handspan.core.results import Attachment

_SHARES: Final = 8
"""The bytes that are left are divided by this number: one image gets at most one share."""


class ImageLimits(Struct, frozen=True):
    """The images that an API takes. A larger one is scaled down, and one of another type is converted."""

    media_types: Set[str]
    size: int
    """Bytes of one image, before base64."""
    total: int
    """Bytes of all images of one request, before base64."""
    edge: int = 2000
    """Pixels of the longer side. The APIs scale a larger image down themselves, or refuse it among many others."""

    def for_next(self, count: int, used: int) -> "ImageLimits":
        """Return the limits for this many more images of a conversation whose images have `used` bytes.

        Each gets a part of what is left. So a long conversation has smaller images, and never too many for the API.
        """
        share = (self.total - used) // max(_SHARES, count)
        return structs.replace(self, size=max(0, min(self.size, share)))


class ImageReader(Protocol):
    """Gives a model the images of one conversation, whether they came inline or as artifacts."""

    async def read_image(self, image: Attachment, limits: ImageLimits) -> Attachment:
        """Return the image with its bytes, within the limits. Raises `ToolError` when that can't be done."""
        ...
