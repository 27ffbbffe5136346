"""Images, sounds and files in the OpenAI formats, and descriptions of those that the APIs can't take."""

import base64
import binascii
from typing import Final, Literal

from handspan.core.images import ImageLimits
from handspan.core.messages import Media
from handspan.core.results import Attachment
from handspan.models.json_values import unreadable_error

IMAGES: Final = ImageLimits(frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"}), 2_500_000, 20_000_000)
"""OpenAI takes more. Other servers that speak its formats take 4 MB of base64 at least."""
_WAV: Final = frozenset({"audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"})
_MP3: Final = frozenset({"audio/mpeg", "audio/mp3"})
_TEXTS: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml"})


def is_image(item: Attachment) -> bool:
    """Return whether the APIs take this image. They refuse a whole conversation with an image of another type."""
    return bool(item.data) and _type(item) in IMAGES.media_types


def is_pdf(item: Attachment) -> bool:
    """Return whether this is a PDF, the only kind of document that the APIs take."""
    return bool(item.data) and _type(item) == "application/pdf"


def audio_format(item: Attachment) -> Literal["wav", "mp3"] | None:
    """Return the name of a sound's format; None when the APIs do not take it."""
    if not item.data:
        return None
    return "wav" if _type(item) in _WAV else "mp3" if _type(item) in _MP3 else None


def read_image(media_type: str, text: str) -> Media:
    """Return an image of an answer. Raises `ModelError` when its text is not base64."""
    try:
        return Media(Attachment("image", media_type, base64.b64decode(text, validate=True)))
    except binascii.Error:
        raise unreadable_error("it holds an image that is not base64") from None


def base64_text(item: Attachment) -> str:
    """Return the bytes as base64."""
    return base64.b64encode(item.data).decode("ascii")


def data_url(item: Attachment) -> str:
    """Return the bytes as a `data:` URL."""
    return f"data:{_type(item)};base64,{base64_text(item)}"


def attachment_text(item: Attachment) -> str:
    """Return the text of a text file, else a note that says what the attachment is."""
    text = _text(item)
    if text is not None:
        return f"File {item.name or 'without a name'!r} ({_type(item)}):\n{text}"
    name = f" {item.name!r}" if item.name else ""
    if item.artifact is not None:
        size = f"{item.artifact.size} bytes, kept as artifact {item.artifact.id!r}"
    else:
        size = f"{len(item.data)} bytes"
    return f"[{item.kind}{name}, {item.media_type}, {size}; it can't be shown here]"


def is_readable(item: Attachment) -> bool:
    """Return whether this is a text file, so that `attachment_text` holds all of it."""
    return _text(item) is not None


def _text(item: Attachment) -> str | None:
    if not item.data or not (_type(item).startswith("text/") or _type(item) in _TEXTS):
        return None
    try:
        return item.data.decode()
    except UnicodeDecodeError:
        return None


def _type(item: Attachment) -> str:
    return item.media_type.partition(";")[0].strip().lower()
