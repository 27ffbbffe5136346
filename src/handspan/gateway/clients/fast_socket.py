"""A WebSocket connection that reads and writes whole text messages without the library (a speed trick).

The library still does the handshake, pings, fragments, invalid frames and the close.
"""

from typing import Any, Final

from websockets.protocol import State

from handspan.gateway.clients.socket import FRAMES_AT_ONCE, SocketProtocol
from handspan.wire.fast_frames import split_masked_texts, text_frame

_MAX_HELD_BACK: Final = 64 * 1024
_OPEN: Final = State.OPEN


class FastSocketProtocol(SocketProtocol):
    """A `SocketProtocol` that reads and writes whole text messages itself."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.text_limit = self.config.ws_max_size

    _held_back: list[bytes] | None = None
    """Frames to send together, while several messages are read; None: each is sent at once."""
    _held_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Read whole text messages at once; give the rest to the library."""
        # The library has to read on: it is within a message, has data that waits, or the connection begins or ends.
        if (
            self._splitter is not None
            or self._unread is not None
            or self._receiver is None
            or self.close_sent
            or self.conn.state is not _OPEN
        ):
            super().data_received(data)
            return
        messages, read = split_masked_texts(data, self.config.ws_max_size, FRAMES_AT_ONCE)
        if len(messages) > 1:
            self._receive_all(messages)
        elif messages:
            self._receive_text(messages[0])
        if read == len(data):
            return
        self._send_held_back()  # the rest may be a close frame
        if len(messages) == FRAMES_AT_ONCE or self._resuming is not None:
            self._read_later(data[read:])
        else:
            self._read(data[read:])

    def _receive_all(self, messages: list[bytes]) -> None:
        """Read several messages, and send their answers with one write: each write wakes up the client."""
        if self._held_back is None:
            self._held_back = []
        try:
            for message in messages:
                self._receive_text(message)
        finally:
            self.loop.call_soon(self._send_held_back)  # runs after every task that these messages woke

    def send_text(self, data: bytes) -> None:
        """Send a text message. Does nothing on a closed or closing connection."""
        if self.close_sent or self.conn.state is not _OPEN or self.transport.is_closing():
            return
        if self._held_back is not None:
            self._hold_back(self._held_back, text_frame(data))
            return
        self.transport.write(text_frame(data))
        if self._is_write_paused:
            self._check_backlog()

    def _hold_back(self, frames: list[bytes], frame: bytes) -> None:
        frames.append(frame)
        self._held_bytes += len(frame)
        if self._held_bytes > _MAX_HELD_BACK:
            self._send_held_back()

    def _send_held_back(self) -> None:
        frames, self._held_back, self._held_bytes = self._held_back, None, 0
        if frames and not self.close_sent and self.conn.state is _OPEN and not self.transport.is_closing():
            self.transport.writelines(frames)
            if self._is_write_paused:
                self._check_backlog()

    def close(self, code: int = 1000, reason: str = "", within: float = 5.0) -> None:
        """Close the connection, after the frames that were held back."""
        self._send_held_back()
        super().close(code, reason, within)
