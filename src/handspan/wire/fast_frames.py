"""Whole text messages of WebSocket (RFC 6455, 5.2), read and written without the library (a speed trick).

Nearly all that the gateway and its clients send to each other are such frames. Everything else, and everything odd, is
left to the library: fragments, control frames, wrong masks, sizes above the limit. No sockets here.
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
"""Sizes below it stand in the header themselves; this one says that two more bytes have it, the next one eight."""
_ENDLESS: Final = 1 << 64


def text_frame(data: bytes) -> bytes:
    """A text message as the gateway sends it."""
    size = len(data)
    if size < _SHORT:
        return bytes((_WHOLE_TEXT, size)) + data
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data


def masked_text(data: bytes, mask: bytes) -> bytes:
    """A text message as a client sends it: masked, with four bytes that no one can guess."""
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
    """Cuts what comes from the other end into whole text messages and what the library has to read.

    The library gets every frame from its first byte to its last, so it never stands in the middle of one that is read
    here; and of a large one it gets what there is, so nothing large is kept here.
    """

    __slots__ = ("_begun", "_is_in_message", "_limit", "_mask", "_owed")

    def __init__(self, limit: int, *, masked: bool = False) -> None:
        """`limit`: bytes of a message; the library judges larger ones. `masked`: the other end is a client."""
        self._limit = limit
        self._mask = 4 if masked else 0
        self._begun = b""
        """The first bytes of a header that has not come whole."""
        self._owed = 0
        """Bytes that are still missing of the frame that the library reads."""
        self._is_in_message = False
        """A fragmented message has begun, so a whole one would be wrong now."""

    @property
    def is_between_messages(self) -> bool:
        """Whether all that came was whole."""
        return not self._begun and not self._owed and not self._is_in_message

    def split(self, data: bytes) -> list[tuple[bool, bytes]]:
        """The pieces, in order: True with a message, False with bytes for the library."""
        pieces: list[tuple[bool, bytes]] = []
        if self._begun:
            data, self._begun = self._begun + data, b""
        at, end = 0, len(data)
        if self._owed:
            at = min(self._owed, end)
            self._owed -= at
            pieces.append((False, data[:at]))
        while at < end:
            begins, size = _measure(data, at, self._mask)
            if not begins:
                self._begun = data[at:]
                break
            ends = begins + size
            if data[at] == _WHOLE_TEXT and ends <= end and size <= self._limit and not self._is_in_message:
                payload = data[begins:ends]
                pieces.append((True, apply_mask(payload, data[begins - 4 : begins]) if self._mask else payload))
            else:
                pieces.append((False, data[at:ends]))
                self._owed = max(0, ends - end)
                self._note(data[at])
            at = ends
        return pieces

    def _note(self, first: int) -> None:
        """Whether the message that this frame belongs to goes on. Control frames stand between its fragments."""
        if first & 0x0F < 8:
            self._is_in_message = not first & _FINAL


def _measure(data: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return where the payload of the frame at this place begins, and its size; 0 when the header is not all there.

    A frame with the wrong kind of mask is measured as if the rest of the connection belonged to it: the library
    refuses it.
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
