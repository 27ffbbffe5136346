"""The plainest WebSocket frames, read and written without ceremony: whole text messages (RFC 6455, 5.2).

Nearly all that the gateway and its clients say to each other are such frames. Everything else, and everything odd, is
left to the library: fragments, control frames, masks where none belong, sizes above the limit. No sockets here.
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


def masked_text(data: bytes, mask: bytes) -> bytes:
    """A text message as a client sends it: masked, with four bytes that nobody can guess."""
    size = len(data)
    if size < _SHORT:
        header = bytes((_WHOLE_TEXT, _MASKED | size))
    elif size < 65536:
        header = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        header = b"\x81\xff" + size.to_bytes(8, "big")
    return header + mask + apply_mask(data, mask)


class Cutter:
    """Cuts what comes from the gateway into whole text messages and what the library has to read.

    The library gets every frame from its first byte to its last, so it never stands in the middle of one that is read
    here; and of a large one it gets what there is, so nothing large is kept here.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of a message; the library refuses larger ones."""
        self._limit = limit
        self._begun = b""
        """The first bytes of a header that has not come whole."""
        self._owed = 0
        """Bytes that are still missing of the frame that the library reads."""
        self._is_in_message = False
        """A fragmented message has begun, so a whole one would be wrong now."""

    def cut(self, data: bytes) -> list[tuple[bool, bytes]]:
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
            size = data[at + 1] if at + 1 < end else _SHORT
            begins = at + 2
            if size >= _SHORT:
                begins, size = _measured(data, at)
                if not begins:
                    self._begun = data[at:]
                    break
            ends = begins + size
            if data[at] == _WHOLE_TEXT and ends <= end and size <= self._limit and not self._is_in_message:
                pieces.append((True, data[begins:ends]))
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


def _measured(data: bytes, at: int) -> tuple[int, int]:
    """Where the payload of the frame at this place begins, and its size; 0 when the header is not all there.

    A frame with a mask is wrong, and measured as if the rest of the connection belonged to it: the library refuses it.
    """
    if at + 1 == len(data):
        return 0, 0
    size = data[at + 1]
    if size & _MASKED:
        return at + 2, 1 << 64
    begins = at + (4 if size == _SHORT else 10)
    return (begins, int.from_bytes(data[at + 2 : begins], "big")) if begins <= len(data) else (0, 0)
