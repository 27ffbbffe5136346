"""Reads and writes whole text messages of WebSocket (RFC 6455, 5.2) without the library (a speed trick).

Nearly all frames between the gateway and its clients are such messages. The library reads everything else: fragments,
control frames, wrong masks, sizes above the limit. No sockets here.
"""

from typing import Final

try:
    from websockets.speedups import apply_mask
except ImportError:  # pragma: no cover - where the library has no compiled part
    from websockets.utils import apply_mask

_WHOLE_TEXT: Final = 0x81
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_SHORT: Final = 126
"""A smaller size is in the header itself. 126 means that the next two bytes have the size; 127, the next eight."""
_ENDLESS: Final = 1 << 64


def text_frame(data: bytes) -> bytes:
    """The frame of a text message from the gateway."""
    size = len(data)
    if size < _SHORT:
        return bytes((_WHOLE_TEXT, size)) + data
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data


def masked_text(data: bytes, mask: bytes) -> bytes:
    """The frame of a text message from a client, masked with four random bytes."""
    size = len(data)
    if size < _SHORT:
        header = bytes((_WHOLE_TEXT, _MASKED | size))
    elif size < 65536:
        header = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        header = b"\x81\xff" + size.to_bytes(8, "big")
    return header + mask + apply_mask(data, mask)


def split_masked_texts(data: bytes, limit: int) -> tuple[list[bytes], int]:
    """The whole text messages at the beginning of these bytes, and the place where the rest begins.

    The rest is for a `FrameSplitter`.
    """
    messages: list[bytes] = []
    at, end = 0, len(data)
    while end - at >= 6 and data[at] == _WHOLE_TEXT:
        size, begins = data[at + 1] - _MASKED, at + 6
        if size == _SHORT:
            size, begins = int.from_bytes(data[at + 2 : at + 4], "big"), at + 8
        if not 0 <= size <= limit or begins + size > end or data[at + 1] == 0xFF:
            break
        messages.append(apply_mask(data[begins : begins + size], data[begins - 4 : begins]))
        at = begins + size
    return messages, at


class FrameSplitter:
    """Splits received bytes into whole text messages and bytes for the library.

    The library gets its frames whole, from the first byte to the last. It gets the bytes of a large frame as they
    come, so no large frame is held in memory here.
    """

    __slots__ = ("_header", "_is_in_message", "_limit", "_mask", "_missing")

    def __init__(self, limit: int, *, masked: bool = False) -> None:
        """`limit`: bytes of a message; larger ones go to the library. `masked`: the sender is a client."""
        self._limit = limit
        self._mask = 4 if masked else 0
        self._header = b""
        """The first bytes of an incomplete header."""
        self._missing = 0
        """Bytes of the library's frame that have not come yet."""
        self._is_in_message = False
        """A fragmented message has begun. A whole message before its end would be an error."""

    @property
    def is_between_messages(self) -> bool:
        """Whether no frame and no message is incomplete."""
        return not self._header and not self._missing and not self._is_in_message

    def split(self, data: bytes) -> list[tuple[bool, bytes]]:
        """The pieces, in order: True with a message, False with bytes for the library."""
        pieces: list[tuple[bool, bytes]] = []
        if self._header:
            data, self._header = self._header + data, b""
        at, end = 0, len(data)
        if self._missing:
            at = min(self._missing, end)
            self._missing -= at
            pieces.append((False, data[:at]))
        while at < end:
            begins, size = _measure(data, at, self._mask)
            if not begins:
                self._header = data[at:]
                break
            ends = begins + size
            if data[at] == _WHOLE_TEXT and ends <= end and size <= self._limit and not self._is_in_message:
                payload = data[begins:ends]
                pieces.append((True, apply_mask(payload, data[begins - 4 : begins]) if self._mask else payload))
            else:
                pieces.append((False, data[at:ends]))
                self._missing = max(0, ends - end)
                self._note_fragment(data[at])
            at = ends
        return pieces

    def _note_fragment(self, first: int) -> None:
        """Notes whether the frame's message continues. Control frames may come between fragments."""
        if first & 0x0F < 8:
            self._is_in_message = not first & _FINAL


def _measure(data: bytes, at: int, mask: int) -> tuple[int, int]:
    """The place and the size of the payload of the frame at `at`. The place is 0 when the header is incomplete.

    A frame with a wrong mask gets an endless size: then the library reads the rest of the connection, and refuses it.
    """
    if at + 1 == len(data):
        return 0, 0
    size = data[at + 1]
    if bool(size & _MASKED) is not bool(mask):
        return at + 2, _ENDLESS
    size &= ~_MASKED
    begins = at + 2
    if size >= _SHORT:
        begins = at + (4 if size == _SHORT else 10)
        size = int.from_bytes(data[at + 2 : begins], "big")
    begins += mask
    return (begins, size) if begins <= len(data) else (0, 0)
