"""One WebSocket connection that bypasses ASGI: `on_message` in, `send_text`, `close` and `abort` out.

uvicorn's sans-I/O protocol does the handshake and the frames. ASGI ends with the upgrade: from then on a message goes
straight to the receiver that took the connection, and a frame straight to the kernel. An idle connection holds no task,
no queue and no request. Bytes that the kernel does not take wait in the transport's buffer, which is bounded: a client
that does not read gets a close frame, and is dropped a second later. No other client waits for it.

`fast_socket.py` beside it reads and writes whole text messages without the library.
"""

import asyncio
import logging
from typing import Any, Final, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from handspan.gateway.clients.transport import EXTENSION, Receiver
from handspan.wire.ws import is_utf8

SECONDS_TO_SAY_GOODBYE: Final = 1.0
_OPEN: Final = State.OPEN
_log = logging.getLogger(__name__)


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's connection, which a receiver can take over after the handshake."""

    backlog_limit = 4 * 1024 * 1024
    """Bytes that may wait for a client that reads too slowly."""

    _receiver: Receiver | None = None
    _is_choked = False
    _resuming: asyncio.TimerHandle | None = None
    _paused_until = 0.0

    def handle_connect(self, event: Any) -> None:
        """Put this connection into the scope, for the application."""
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            cast(dict[str, Any], self.scope["extensions"])[EXTENSION] = self

    def let_in(self, message_bytes: int) -> None:
        """Allow messages of up to so many bytes. Those above the general limit are read a little slower."""
        self.conn.max_message_size = message_bytes

    def take(self, receiver: Receiver) -> None:
        """Give every message to `receiver` from now on. The request is dropped: it needs most of the memory."""
        waiting, self.queue = self.queue, cast(Any, _NO_QUEUE)
        self._receiver = receiver
        self.scope = self.request = self.response = cast(Any, None)
        self.conn.handshake_exc = None
        while not waiting.empty():
            early = waiting.get_nowait()
            if early["type"] == "websocket.receive":
                receiver.on_message((early.get("text") or "").encode())
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    async def run_asgi(self) -> None:
        """Run the application. The connection stays open if a receiver has taken it."""
        try:
            await self.app(self.scope, self.receive, self.send)
        except Exception:  # the application's own code: the connection is answered and closed below
            _log.exception("A WebSocket connection could not be opened")
        if self._receiver is None:
            self.send_500_response()
            self.transport.close()

    # In.

    def _receive_text(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None or self.close_sent:
            return
        if not is_utf8(data):
            self.close(CloseCode.INVALID_DATA, "text must be UTF-8")
            return
        receiver.on_message(data)

    def send_receive_event_to_app(self) -> None:
        """Pass on a whole message."""
        if self._receiver is None:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        if self.curr_msg_data_type != "text":  # ws.md 2.3: binary messages are ignored
            return
        self._receive_text(bytes(frames[0]) if len(frames) == 1 else b"".join(frames))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the receiver that the connection is gone."""
        if self._resuming is not None:
            self._resuming.cancel()
        super().connection_lost(exc)
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            frame = self.conn.close_rcvd or self.conn.close_sent
            receiver.on_close(CloseCode.ABNORMAL_CLOSURE if frame is None else frame.code)

    # Out.

    def send_text(self, data: bytes) -> None:
        """Send a text message. Does nothing on a closed or closing connection."""
        if self.close_sent or self.conn.state is not _OPEN or self.transport.is_closing():
            return
        self.conn.send_text(data)
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self._is_choked:
            self._check_backlog()

    def _check_backlog(self) -> None:
        if self.transport.get_write_buffer_size() > self.backlog_limit:
            self.close(CloseCode.TRY_AGAIN_LATER, "you read too slowly", SECONDS_TO_SAY_GOODBYE)

    def pause_writing(self) -> None:
        """Begin to check the backlog: the kernel takes no more bytes for now."""
        self._is_choked = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop checking the backlog: the client has caught up."""
        self._is_choked = False
        super().resume_writing()

    def close(self, code: int = 1000, reason: str = "", within: float = 5.0) -> None:
        """Close the connection. A client that has not answered `within` seconds is dropped."""
        if self.close_sent or self.transport.is_closing():
            return
        self.close_sent = True
        self.stop_keepalive()
        if self.conn.state is _OPEN:
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_timer = self.loop.call_later(within, self.abort)

    def abort(self) -> None:
        """Drop the connection at once, without sending the backlog."""
        self.transport.abort()

    def pause(self, seconds: float) -> None:
        """Read nothing for so long. Messages that were read already still count, and may prolong the pause."""
        self._paused_until = self.loop.time() + seconds
        if self._resuming is None and not self.transport.is_closing():
            self.transport.pause_reading()
            self._resuming = self.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        left = self._paused_until - self.loop.time()
        if left > 0:
            self._resuming = self.loop.call_later(left, self._resume)
            return
        self._resuming = None
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def handle_close(self, event: Frame) -> None:
        """Take the client's close frame: it closes the connection, or answers our close."""
        if self._receiver is not None and self.close_sent:
            self.transport.close()
        else:
            super().handle_close(event)


class _NoQueue:
    """In place of the ASGI queue of a connection that was taken: the receiver gets everything instead."""

    def put_nowait(self, _: object) -> None:
        """Drop the message."""


_NO_QUEUE: Final = _NoQueue()
