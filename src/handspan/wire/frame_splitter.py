"""Splits the bytes of a WebSocket connection into frames (RFC 6455, 5.2), and counts them. No sockets here."""

from typing import Final

try:
    from websockets.speedups import apply_mask as apply_mask
except ImportError:  # pragma: no cover - where the library has no compiled part
    from websockets.utils import apply_mask as apply_mask

WHOLE_TEXT: Final = 0x81
_FINAL: Final = 0x80
MASKED: Final = 0x80
SHORT: Final = 126
"""A smaller size is in the header itself. 126 means that the next two bytes have the size; 127, the next eight."""
ENDLESS: Final = 1 << 64


class FrameSplitter:
    """Splits received bytes into whole text messages and bytes for the library.

    The library gets its frames whole, from the first byte to the last. It gets the bytes of a large frame as they
    come, so no large frame is held in memory here.
    """

    __slots__ = ("_header", "_is_in_message", "_limit", "_mask", "_missing", "fragments", "frames", "rest")

    def __init__(self, limit: int, *, masked: bool = False) -> None:
        """`limit`: bytes of a message; larger ones go to the library. `masked`: the sender is a client."""
        self._limit = limit
        self._mask = 4 if masked else 0
        self.rest = b""
        """Bytes that the last `split` did not look at, because it had split as many frames as it should."""
        self.frames = 0
        """How many frames there were that are no whole text message: fragments, control frames, binary frames."""
        self.fragments = 0
        """How many frames the incomplete message has."""
        self._header = b""
        """The first bytes of an incomplete header."""
        self._missing = 0
        """Bytes of the library's frame that have not come yet."""
        self._is_in_message = False
        """Whether a fragmented message has begun. A whole message before the end of that one would be an error."""

    @property
    def is_between_messages(self) -> bool:
        """Whether no frame and no message is incomplete."""
        return not self._header and not self._missing and not self._is_in_message

    def split(self, data: bytes, max_frames: int = ENDLESS) -> list[tuple[bool, bytes]]:
        """Return pieces of at most so many frames, in order: True with a message, False with bytes for the library."""
        pieces: list[tuple[bool, bytes]] = []
        self.rest = b""
        if self._header:
            data, self._header = self._header + data, b""
        at, end = 0, len(data)
        if self._missing:
            at = min(self._missing, end)
            self._missing -= at
            pieces.append((False, data[:at]))
        while at < end:
            if len(pieces) >= max_frames:
                self.rest = data[at:]
                break
            begins, size = _measure(data, at, self._mask)
            if not begins:
                self._header = data[at:]
                break
            ends = begins + size
            if data[at] == WHOLE_TEXT and ends <= end and size <= self._limit and not self._is_in_message:
                payload = data[begins:ends]
                pieces.append((True, apply_mask(payload, data[begins - 4 : begins]) if self._mask else payload))
            else:
                pieces.append((False, data[at:ends]))
                self._missing = max(0, ends - end)
                self._count_frame(data[at])
            at = ends
        return pieces

    def _count_frame(self, first: int) -> None:
        """Count the frame with this first byte, and note whether its message continues.

        Control frames may come between fragments.
        """
        if first != WHOLE_TEXT:
            self.frames += 1
        if first & 0x0F < 8:
            self._is_in_message = not first & _FINAL
            self.fragments = self.fragments + 1 if self._is_in_message else 0


def _measure(data: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the place and the size of the payload of the frame at `at`. The place is 0 when the header is incomplete.

    A frame with a wrong mask gets an endless size: then the library reads the rest of the connection, and refuses it.
    """
    if at + 1 == len(data):
        return 0, 0
    size = data[at + 1]
    if bool(size & MASKED) is not bool(mask):
        return at + 2, ENDLESS
    size &= ~MASKED
    begins = at + 2
    if size >= SHORT:
        begins = at + (4 if size == SHORT else 10)
        size = int.from_bytes(data[at + 2 : begins], "big")
    begins += mask
    return (begins, size) if begins <= len(data) else (0, 0)
