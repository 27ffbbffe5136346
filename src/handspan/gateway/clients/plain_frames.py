"""The plainest WebSocket frames, read and written without ceremony: whole text messages (RFC 6455, 5.2).

Nearly all that clients and gateway say to each other are such frames. Everything else, and everything odd, is left to
the library: fragments, control frames, wrong masks, sizes above the limit.
"""

from typing import Final

try:
    from websockets.speedups import apply_mask
except ImportError:  # pragma: no cover - where the library has no compiled part
    from websockets.utils import apply_mask

_WHOLE_TEXT: Final = 0x81
_MASKED: Final = 0x80


def text_frame(data: bytes) -> bytes:
    """A text message as the gateway sends it."""
    size = len(data)
    if size < 126:
        return bytes((_WHOLE_TEXT, size)) + data
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data


def whole_texts(data: bytes, limit: int) -> tuple[list[bytes], int]:
    """The text messages that these bytes begin with, and where the rest begins: that is for the library."""
    messages: list[bytes] = []
    at, end = 0, len(data)
    while end - at >= 6 and data[at] == _WHOLE_TEXT:
        size, begins = data[at + 1] - _MASKED, at + 6
        if size == 126:
            size, begins = int.from_bytes(data[at + 2 : at + 4], "big"), at + 8
        if not 0 <= size <= limit or begins + size > end or data[at + 1] == 0xFF:
            break
        messages.append(apply_mask(data[begins : begins + size], data[begins - 4 : begins]))
        at = begins + size
    return messages, at
