"""One connection through the fault proxy: its two directions, their faults, and the frames of the client."""

import asyncio
import contextlib
import os
import re
import socket
import struct
from collections.abc import Callable
from random import Random
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

Direction: TypeAlias = Literal["up", "down", "both"]
"""`up`: from the client to the target."""

_CHUNK: Final = 64 * 1024
_MAX_WAITING: Final = 64
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_MAX_HEAD: Final = 64 * 1024
_MAX_FRAME: Final = 1024 * 1024
_HEAD_ENDS: Final = b"\r\n\r\n"
_HOST: Final = re.compile(rb"(?im)^host:[^\r\n]*")
_CONNECTION: Final = re.compile(rb"(?im)^connection:[^\r\n]*\r\n")
_UPGRADES: Final = re.compile(rb"(?im)^upgrade:[ \t]*websocket")
_WHOLE_TEXT: Final = 0x81


class StreamPiece(Struct, frozen=True):
    """Bytes to pass on. `text` is the text of a whole text frame; None for everything else."""

    data: bytes
    text: bytes | None = None


class ClientStream:
    """Splits what a client sends: the head of its request, then whole WebSocket frames.

    `authority` replaces the Host header, which servers check.
    """

    def __init__(self, authority: str) -> None:
        self._authority = authority.encode("ascii")
        self._buffer = b""
        self._has_head = False
        self._has_frames = False
        self._large_left = 0
        """Bytes to come of a frame that is too large for the buffer."""

    def feed(self, data: bytes) -> list[StreamPiece]:
        """Return the pieces that can be passed on now."""
        self._buffer += data
        pieces: list[StreamPiece] = []
        if not self._has_head:
            pieces += self._take_head()
        if self._has_head:
            pieces += self._take_frames() if self._has_frames else self._take_rest()
        return pieces

    def _take_head(self) -> list[StreamPiece]:
        """Return the head of the client's request, with the target's own Host; nothing until all of it has come."""
        end = self._buffer.find(_HEAD_ENDS)
        if end < 0 and len(self._buffer) <= _MAX_HEAD:
            return []
        self._has_head = True
        if end < 0:
            return self._take_rest()
        head, self._buffer = self._buffer[: end + 2], self._buffer[end + 2 :]
        self._has_frames = _UPGRADES.search(head) is not None
        head = _HOST.sub(b"Host: " + self._authority, head)
        if not self._has_frames:  # a second request would come with its own Host
            head = _CONNECTION.sub(b"", head) + b"Connection: close\r\n"
        blank, self._buffer = self._buffer[:2], self._buffer[2:]
        return [StreamPiece(head + blank)]

    def _take_rest(self) -> list[StreamPiece]:
        rest, self._buffer = self._buffer, b""
        return [StreamPiece(rest)] if rest else []

    def _take_frames(self) -> list[StreamPiece]:
        """Return the whole frames that have come. Of a large one, return its parts as they come."""
        pieces: list[StreamPiece] = []
        while self._buffer:
            if self._large_left:
                part = self._buffer[: self._large_left]
                self._large_left -= len(part)
            elif (size := frame_size(self._buffer)) is None:
                break
            elif size > _MAX_FRAME:
                self._large_left = size
                continue
            elif len(self._buffer) < size:
                break
            else:
                part = self._buffer[:size]
            is_frame = not self._large_left and part[0] == _WHOLE_TEXT and len(part) == frame_size(part)
            pieces.append(StreamPiece(part, frame_text(part) if is_frame else None))
            self._buffer = self._buffer[len(part) :]
        return pieces


class LinkFaults(Struct):
    """The faults of all connections."""

    delay: float = 0.0
    jitter: float = 0.0
    size: int | None = None
    share: float = 0.0
    only: Callable[[bytes], bool] | None = None
    stopped: Direction | None = None

    def reset(self) -> None:
        """Make no faults."""
        for name, value in structs.asdict(LinkFaults()).items():
            setattr(self, name, value)


class Flow:
    """One direction: what is read at one end is written at the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: LinkFaults,
        chance: Random,
        *,
        count: Callable[[int, int], None],
        stream: ClientStream | None = None,
    ) -> None:
        """`count` gets how many bytes went through, and how many frames were repeated.

        `stream` finds whole frames, where they may be repeated.
        """
        self.writer = writer
        self.may_pass = asyncio.Event()
        self.may_pass.set()
        self._reader = reader
        self._faults = faults
        self._chance = chance
        self._count = count
        self._stream = stream
        self._waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MAX_WAITING)

    async def run(self) -> None:
        """Pass on until the reading end has closed. Raises `OSError` when the connection breaks at either end."""
        writing = asyncio.create_task(self._write())
        try:
            await self._read()
            await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _read(self) -> None:
        due = 0.0
        loop = asyncio.get_running_loop()
        while data := await self._next():
            for piece in [StreamPiece(data)] if self._stream is None else self._stream.feed(data):
                due = max(due, loop.time() + self._faults.delay + self._faults.jitter * self._chance.random())
                await self._waiting.put((due, self._maybe_repeat(piece)))
        await self._waiting.put((due, b""))

    async def _next(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except OSError:
            await self.may_pass.wait()  # a half-open connection must not show that one end is gone
            raise

    def _maybe_repeat(self, piece: StreamPiece) -> bytes:
        faults = self._faults
        if piece.text is None or not faults.share or (faults.only is not None and not faults.only(piece.text)):
            return piece.data
        times = 2 if self._chance.random() < faults.share else 1
        self._count(0, times - 1)
        return piece.data * times

    async def _write(self) -> None:
        """Pass on what has come, each piece when it is due."""
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._waiting.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            await self.may_pass.wait()
            if not data:
                break
            await self._put(data)
        if self.writer.can_write_eof():
            self.writer.write_eof()

    async def _put(self, data: bytes) -> None:
        """Pass on these bytes, in pieces if that is the fault."""
        size = self._faults.size or len(data)
        for at in range(0, len(data), size):
            await self.may_pass.wait()
            self.writer.write(data[at : at + size])
            await self.writer.drain()
            if size < len(data):
                await asyncio.sleep(0)
        self._count(len(data), 0)


class ProxiedLink:
    """One connection through the proxy."""

    def __init__(self, up: Flow, down: Flow) -> None:
        self._flows: dict[str, Flow] = {"up": up, "down": down}
        self._running: list[asyncio.Task[None]] = []
        self._is_over = False

    async def run(self) -> None:
        """Pass on until both ends have closed, or the connection is broken."""
        self._running = [asyncio.create_task(flow.run()) for flow in self._flows.values()]
        try:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            is_broken = any(task.done() and not task.cancelled() and task.exception() for task in self._running)
            self._end(reset if is_broken else _finish)
            await asyncio.gather(*self._running, return_exceptions=True)

    def stop(self, direction: Direction) -> None:
        """Pass nothing on."""
        for name, flow in self._flows.items():
            if direction in ("both", name):
                flow.may_pass.clear()

    def resume(self) -> None:
        """Pass on again, beginning with what has waited."""
        for flow in self._flows.values():
            flow.may_pass.set()

    def cut(self) -> bool:
        """Reset both ends. Return False when the connection was already over."""
        return self._end(reset)

    def close(self) -> bool:
        """Close both ends. Return False when the connection was already over."""
        return self._end(_finish)

    def _end(self, end_writer: Callable[[asyncio.StreamWriter], None]) -> bool:
        """End both directions. Return False if they have ended before."""
        if self._is_over:
            return False
        self._is_over = True
        for flow in self._flows.values():
            end_writer(flow.writer)
        for task in self._running:
            task.cancel()
        return True


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection: the peer gets an error (RST) instead of a regular end."""
    own = writer.get_extra_info("socket")
    # Each event loop has its own socket type, also for a closed socket. So only the file descriptor is used.
    number = -1 if own is None else own.fileno()
    with contextlib.suppress(OSError):
        if number >= 0:
            with socket.socket(fileno=os.dup(number)) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()


def _finish(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.close()


def frame_size(data: bytes) -> int | None:
    """Return the length of the frame that begins here; None when more bytes are needed to know it (RFC 6455, 5.2)."""
    if len(data) < 2:
        return None
    length, head = data[1] & 0x7F, 2 + (4 if data[1] & 0x80 else 0)
    if length < 126:
        return head + length
    wide = 2 if length == 126 else 8
    return head + wide + int.from_bytes(data[2 : 2 + wide]) if len(data) >= 2 + wide else None


def frame_text(frame: bytes) -> bytes:
    """Return the payload of a whole frame, without its mask."""
    length, at = frame[1] & 0x7F, 2
    at += 2 if length == 126 else 8 if length == 127 else 0
    if not frame[1] & 0x80:
        return frame[at:]
    payload = frame[at + 4 :]
    mask = (frame[at : at + 4] * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload) ^ int.from_bytes(mask)).to_bytes(len(payload))
