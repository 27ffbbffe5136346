"""A WebSocket connection that reads and writes whole text messages without the library (a speed trick).

The library still does the handshake, pings, fragments, invalid frames and the close.
"""

from typing import Final

from websockets.protocol import State

from handspan.gateway.clients.socket import SocketProtocol
from handspan.wire.fast_frames import FrameSplitter, split_masked_texts, text_frame

_MOST_HELD_BACK: Final = 64 * 1024
_OPEN: Final = State.OPEN


class FastSocketProtocol(SocketProtocol):
    """The same connection, faster."""

    _held_back: list[bytes] | None = None
    """Frames to send together, while several messages are read; None: each is sent at once."""
    _held_bytes = 0
    _splitter: FrameSplitter | None = None
    """Set while a frame has arrived in part, or a message in fragments; most connections never need it."""
    _has_shaken_hands = False
    _is_odd = False
    """Bytes came before the handshake was over. The library reads all: only it knows where a frame begins."""

    def data_received(self, data: bytes) -> None:
        """Read whole text messages at once; give the rest to the library."""
        if self._is_odd or self.close_sent or self.conn.state is not _OPEN:
            self._is_odd = self._is_odd or self._has_shaken_hands
            self._has_shaken_hands = True
            super().data_received(data)
            return
        if self._splitter is None and self._receiver is not None:
            messages, read = split_masked_texts(data, self.config.ws_max_size)
            if len(messages) > 1:
                self._receive_all(messages)
            elif messages:
                self._receive_text(messages[0])
            if read == len(data):
                return
            self._send_held_back()  # the rest may be a close frame
            data = data[read:]
        self._split(data)

    def _split(self, data: bytes) -> None:
        """Read bytes that do not begin with a whole message."""
        if self._splitter is None:
            self._splitter = FrameSplitter(self.config.ws_max_size if self._receiver is not None else -1, masked=True)
        for is_message, piece in self._splitter.split(data):
            if is_message:
                self._receive_text(piece)
            else:
                super().data_received(piece)
        if self._splitter.is_between_messages:
            self._splitter = None

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
        if self._is_choked:
            self._check_backlog()

    def _hold_back(self, frames: list[bytes], frame: bytes) -> None:
        frames.append(frame)
        self._held_bytes += len(frame)
        if self._held_bytes > _MOST_HELD_BACK:
            self._send_held_back()

    def _send_held_back(self) -> None:
        frames, self._held_back, self._held_bytes = self._held_back, None, 0
        if frames and not self.close_sent and self.conn.state is _OPEN and not self.transport.is_closing():
            self.transport.writelines(frames)
            if self._is_choked:
                self._check_backlog()

    def close(self, code: int = 1000, reason: str = "", within: float = 5.0) -> None:
        """Close the connection, after the frames that were held back."""
        self._send_held_back()
        super().close(code, reason, within)
