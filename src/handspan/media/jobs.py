"""What the gateway and its media processes send to each other: one job, one reply, both as msgpack."""

from typing import TypeAlias

from msgspec import Struct

from handspan.core.errors import ErrorCode


class ImageJob(Struct, frozen=True, tag="image"):
    """Make this image fit these limits; `ImageLimits` explains them."""

    data: bytes
    media_types: tuple[str, ...]
    size: int
    edge: int
    pixels: int
    """The most pixels of an image that is decoded."""


class PdfJob(Struct, frozen=True, tag="pdf"):
    """Extract the text of this PDF, from a page on."""

    data: bytes
    first_page: int
    """The first page to extract; the first one of the document is 0."""
    skip: int
    """Lines to leave out, from the beginning of that page."""
    lines: int | None
    """The most lines of the reply; None for as many as fit."""
    size: int
    """The most bytes of the reply, as a text in JSON."""
    seconds: float
    """No further page is begun after this time."""


MediaJob: TypeAlias = ImageJob | PdfJob


class FittedImage(Struct, frozen=True, tag="image"):
    """The image, and its width and height before and after it was scaled."""

    data: bytes
    media_type: str
    original: tuple[int, int]
    scaled: tuple[int, int]


class PdfText(Struct, frozen=True, tag="pdf"):
    """Lines of a PDF's text."""

    lines: tuple[str, ...]
    pages: int
    """The number of all pages."""
    line_counts: tuple[int, ...]
    """The lines of each page that was extracted."""
    is_end: bool
    """Whether the document has no more text after these lines."""


class MediaFailed(Struct, frozen=True, tag="failed"):
    """The file can't be used. The message is for a model."""

    code: ErrorCode
    message: str


MediaReply: TypeAlias = FittedImage | PdfText | MediaFailed
