"""Makes a photo fit for a model's API: resized, upright, in a type that it takes. It runs in a process of its own."""

import contextlib
import warnings
from io import BytesIO
from math import ceil
from typing import Final
from zlib import crc32

from msgspec import structs
from PIL import Image, ImageOps, UnidentifiedImageError

from handspan.core.errors import ToolError
from handspan.media.child import serve
from handspan.media.jobs import FittedImage, ImageJob

_FORMATS: Final = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
_TYPES: Final = {"MPO": "image/jpeg"}
"""A phone's photo may hold a second image; its first one is a JPEG."""
_LOSSLESS: Final = frozenset(("BMP", "GIF", "PNG", "TIFF"))
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_CHUNK_FRAME: Final = 12
"""Bytes of a chunk of a PNG beside its body: length, kind, checksum."""
_QUALITIES: Final = (85, 70, 50)
_SMALLEST_EDGE: Final = 64


def fit_image(job: ImageJob) -> FittedImage:
    """Return the image within the limits: a larger one is made smaller. Raises `ToolError` when it can't be read."""
    job = structs.replace(job, data=drop_broken_chunks(job.data))
    image = _open(job)
    original = image.size
    media_type = _TYPES.get(image.format or "") or Image.MIME.get(image.format or "", "")
    fits = media_type in job.media_types and len(job.data) <= job.size and max(original) <= job.edge
    if fits:
        image.load()  # an API would refuse a damaged image, and with it the whole conversation
        return FittedImage(job.data, media_type, original, original)
    is_lossless = image.format in _LOSSLESS
    return _encode(_scale(image, job.edge), job, original, is_lossless=is_lossless)


def drop_broken_chunks(data: bytes) -> bytes:
    """Return a PNG without the ancillary chunks whose checksum is wrong, as browsers show it; other data as it is.

    An image can be shown without such a chunk. A wrong checksum of any other chunk stays: that image is damaged.
    """
    if not data.startswith(_PNG):
        return data
    kept, at = [_PNG], len(_PNG)
    while at + _CHUNK_FRAME <= len(data):
        end = at + _CHUNK_FRAME + int.from_bytes(data[at : at + 4])
        kind_and_body, checksum = data[at + 4 : end - 4], data[end - 4 : end]
        is_ancillary = bool(data[at + 4] & 0x20)
        if not is_ancillary or end > len(data) or crc32(kind_and_body) == int.from_bytes(checksum):
            kept.append(data[at:end])
        at = end
        if kind_and_body.startswith(b"IEND"):
            break
    return b"".join([*kept, data[at:]])


def _open(job: ImageJob) -> Image.Image:
    """Return the image, not decoded yet. Raises `ToolError` for other data, and for too many pixels."""
    try:
        image = Image.open(BytesIO(job.data), formats=_FORMATS)
    except UnidentifiedImageError:
        raise ToolError("execution_failed", "it is no JPEG, PNG, GIF, WebP, BMP or TIFF image") from None
    width, height = image.size
    if width * height > job.pixels:
        text = f"it has {width} × {height} pixels, more than the {job.pixels} that may be decoded (tools.media.pixels)"
        raise ToolError("file_too_large", text)
    return image


def _scale(image: Image.Image, edge: int) -> Image.Image:
    """Return the image upright, with 8 bits a colour, and scaled down until no side is longer than `edge`."""
    scale = min(1.0, edge / max(image.size))
    size = (ceil(image.width * scale), ceil(image.height * scale))
    image.draft("RGB", size)  # a JPEG is decoded at a smaller scale, not below this size
    plain = _to_plain_mode(image)
    plain.thumbnail(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    return ImageOps.exif_transpose(plain)


def _to_plain_mode(image: Image.Image) -> Image.Image:
    """Return the image in grey, RGB or RGBA, with 8 bits a colour."""
    if image.mode in ("RGB", "RGBA", "L"):
        return image
    if image.mode.startswith("I;16"):  # a conversion alone would cut the values at 255
        return image.point(lambda value: value * (1 / 256)).convert("L")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _encode(image: Image.Image, job: ImageJob, original: tuple[int, int], *, is_lossless: bool) -> FittedImage:
    """Return the first form that is small enough: PNG for screenshots, then JPEG, then smaller ones."""
    if is_lossless and "image/png" in job.media_types:
        data = _save(image, "PNG")
        if len(data) <= job.size:
            return FittedImage(data, "image/png", original, image.size)
    image = _on_white(image)
    while True:
        for quality in _QUALITIES:
            data = _save(image, "JPEG", quality)
            if len(data) <= job.size:
                return FittedImage(data, "image/jpeg", original, image.size)
        if max(image.size) <= _SMALLEST_EDGE:
            raise ToolError("file_too_large", f"it can't be made smaller than {job.size} bytes")
        image = image.reduce(2)


def _on_white(image: Image.Image) -> Image.Image:
    """Return the image without transparency, which JPEG does not have."""
    if image.mode != "RGBA":
        return image
    page = Image.new("RGB", image.size, "white")
    page.paste(image, mask=image.getchannel("A"))
    return page


def _save(image: Image.Image, kind: str, quality: int = 85) -> bytes:
    written = BytesIO()
    image.save(written, kind, quality=quality)
    return written.getvalue()


def _warm_up() -> None:
    """Use all formats once. Pillow loads its parts when they are needed, and later this process can open no file."""
    for kind in _FORMATS:
        for mode in ("RGB", "P"):
            with contextlib.suppress(OSError):  # JPEG has no palette
                data = _save(Image.new(mode, (2, 2)), kind)
                fit_image(ImageJob(data, ("image/png",), len(data) * 1000, edge=1, pixels=4))


if __name__ == "__main__":
    Image.MAX_IMAGE_PIXELS = None  # `_open` checks the pixels against the setting
    warnings.simplefilter("ignore")  # what a library finds odd in a file is not for the gateway's log
    _warm_up()
    serve(ImageJob, fit_image, opens_files=False)
