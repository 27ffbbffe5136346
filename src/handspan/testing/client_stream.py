"""What a client sends, cut where it may be cut: the head of its request, then WebSocket frames, each one whole."""

import re
from typing import Final

from msgspec import Struct

_LARGEST_HEAD: Final = 64 * 1024
_LARGEST_FRAME: Final = 1024 * 1024
_HEAD_ENDS: Final = b"\r\n\r\n"
_HOST: Final = re.compile(rb"(?im)^host:[^\r\n]*")
_CONNECTION: Final = re.compile(rb"(?im)^connection:[^\r\n]*\r\n")
_UPGRADES: Final = re.compile(rb"(?im)^upgrade:[ \t]*websocket")
_WHOLE_TEXT: Final = 0x81


class StreamPiece(Struct, frozen=True):
    """Bytes to pass on. `text` is what a whole text frame says; None for everything else."""

    data: bytes
    text: bytes | None = None


class ClientStream:
    """Reads along with a client. `authority` takes the place of the Host that it names: servers look at that."""

    def __init__(self, authority: str) -> None:
        self._authority = authority.encode("ascii")
        self._kept = b""
        self._is_past_head = False
        self._has_frames = False
        self._left = 0
        """Bytes to come of a frame that is too large to be kept."""

    def feed(self, data: bytes) -> list[StreamPiece]:
        """What can be passed on now."""
        self._kept += data
        pieces: list[StreamPiece] = []
        if not self._is_past_head:
            pieces += self._head()
        if self._is_past_head:
            pieces += self._frames() if self._has_frames else self._rest()
        return pieces

    def _head(self) -> list[StreamPiece]:
        end = self._kept.find(_HEAD_ENDS)
        if end < 0 and len(self._kept) <= _LARGEST_HEAD:
            return []
        self._is_past_head = True
        if end < 0:
            return self._rest()
        head, self._kept = self._kept[: end + 2], self._kept[end + 2 :]
        self._has_frames = _UPGRADES.search(head) is not None
        head = _HOST.sub(b"Host: " + self._authority, head)
        if not self._has_frames:  # a second request would come with its own Host
            head = _CONNECTION.sub(b"", head) + b"Connection: close\r\n"
        blank, self._kept = self._kept[:2], self._kept[2:]
        return [StreamPiece(head + blank)]

    def _rest(self) -> list[StreamPiece]:
        rest, self._kept = self._kept, b""
        return [StreamPiece(rest)] if rest else []

    def _frames(self) -> list[StreamPiece]:
        pieces: list[StreamPiece] = []
        while self._kept:
            if self._left:
                part = self._kept[: self._left]
                self._left -= len(part)
            elif (size := frame_size(self._kept)) is None:
                break
            elif size > _LARGEST_FRAME:
                self._left = size
                continue
            elif len(self._kept) < size:
                break
            else:
                part = self._kept[:size]
            is_frame = not self._left and part[0] == _WHOLE_TEXT and len(part) == frame_size(part)
            pieces.append(StreamPiece(part, frame_text(part) if is_frame else None))
            self._kept = self._kept[len(part) :]
        return pieces


def frame_size(data: bytes) -> int | None:
    """How long the frame is that begins here; None until that can be told (RFC 6455, 5.2)."""
    if len(data) < 2:
        return None
    length, head = data[1] & 0x7F, 2 + (4 if data[1] & 0x80 else 0)
    if length < 126:
        return head + length
    wide = 2 if length == 126 else 8
    return head + wide + int.from_bytes(data[2 : 2 + wide]) if len(data) >= 2 + wide else None


def frame_text(frame: bytes) -> bytes:
    """The payload of a whole frame, without its mask."""
    length, at = frame[1] & 0x7F, 2
    at += 2 if length == 126 else 8 if length == 127 else 0
    if not frame[1] & 0x80:
        return frame[at:]
    payload = frame[at + 4 :]
    mask = (frame[at : at + 4] * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload) ^ int.from_bytes(mask)).to_bytes(len(payload))
