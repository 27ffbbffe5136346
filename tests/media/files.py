"""Images and PDF for tests: a photo as a phone takes it, and files that want to harm."""

import struct
import zlib
from functools import cache
from io import BytesIO
from typing import Any

from PIL import Image, ImageDraw
from pypdf import PdfReader, PdfWriter

PHOTO_SIZE = (4032, 3024)


@cache
def photo() -> bytes:
    """A JPEG of 12 megapixels and more than 5 MB, lying on its side as the EXIF of a phone says."""
    width, height = PHOTO_SIZE
    tile = Image.effect_noise((width // 4, height // 4), 60)
    grain = Image.new("L", PHOTO_SIZE)
    for place in range(16):
        grain.paste(tile, (place % 4 * width // 4, place // 4 * height // 4))
    sky = Image.linear_gradient("L").resize(PHOTO_SIZE)
    image = Image.merge("RGB", (grain, sky, grain))
    ImageDraw.Draw(image).rectangle((0, 0, 1600, 1200), "red")
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    exif[0x010F] = "A phone"
    return _saved(image, "JPEG", quality=90, exif=exif)


def picture(kind: str, size: tuple[int, int] = (8, 8), colour: str = "red", mode: str = "RGB") -> bytes:
    """A small image of one colour."""
    return _saved(Image.new(mode, size, colour), kind)


def opened(data: bytes) -> Image.Image:
    """The image as Pillow reads it."""
    return Image.open(BytesIO(data))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that says it has this many pixels, and holds some of them."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(min(3 * width * height, 5_000_000)))
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", rows), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def pdf(pages: list[list[str]]) -> bytes:
    """A PDF with these lines on its pages."""
    contents = [_content(lines) for lines in pages]
    return _pdf(contents, range(len(contents)))


def long_pdf(pages: int) -> bytes:
    """A PDF whose pages all show the same line."""
    return _pdf([_content(["the same line"])], [0] * pages)


def pdf_of(content: bytes) -> bytes:
    """A PDF with one page of this content stream."""
    return _pdf([content], [0])


def locked_pdf(password: str) -> bytes:
    """An encrypted PDF."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf([["secret"]]))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    written = BytesIO()
    writer.write(written)
    return written.getvalue()


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    written = BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _content(lines: list[str]) -> bytes:
    shown = "".join(f"({line}) Tj T*\n" for line in lines)
    return f"BT /F1 12 Tf 14 TL 50 780 Td\n{shown}ET".encode()


def _pdf(contents: list[bytes], shown: "range | list[int]") -> bytes:
    """The file: catalog, pages, font, the contents, and one page for each entry of `shown`."""
    first = 4 + len(contents)
    kids = " ".join(f"{first + number} 0 R" for number in range(len(shown)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(shown)}/Kids[{kids}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *(b"<</Length %d>>stream\n%b\nendstream" % (len(content), content) for content in contents),
    ]
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>/Contents {} 0 R>>"
    objects += [page.format(4 + place).encode() for place in shown]
    body, places = bytearray(b"%PDF-1.4\n"), []
    for number, item in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%b\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(body))
    return bytes(body) + head + table + end
