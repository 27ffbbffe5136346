"""A photo: a real PNG, drawn."""

import struct
import zlib


def photo(width: int, height: int) -> bytes:
    """An evening sky of this size."""
    rows = (b"\x00" + b"".join(_sky(x, y, width, height) for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _sky(x: int, y: int, width: int, height: int) -> bytes:
    """Blue above, orange below, and a sun."""
    if (x - width * 0.7) ** 2 + (y - height * 0.6) ** 2 < (height * 0.12) ** 2:
        return bytes((255, 230, 150))
    fall = y / height
    return bytes((int(40 + 200 * fall), int(60 + 70 * fall), int(140 - 60 * fall)))
