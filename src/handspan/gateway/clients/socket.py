"""One WebSocket connection that bypasses ASGI: `on_message` in, `send_text`, `close` and `abort` out.

uvicorn's sans-I/O protocol does the handshake and the frames. ASGI ends with the upgrade: from then on a message goes
straight to the receiver that took the connection, and a frame straight to the kernel. An idle connection holds no task,
no queue and no request. Bytes that the kernel does not take wait in the transport's buffer, which is bounded: a client
that does not read gets a close frame, and is dropped a second later. No other client waits for it.

Few frames are read at once; then the other connections have their turn (SPEC S7). A frame that is no whole text message
costs time though it says nothing: fragments, pings, pongs. They are counted. A client that sends too many is read more
slowly, and closed when it goes on. Its unread bytes stay in the kernel, but for one read.

`fast_socket.py` beside it reads and writes whole text messages without the library.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from handspan.config.gateway_settings import ConnectionLimits
from handspan.gateway.clients.transport import EXTENSION, Receiver
from handspan.wire.frame_splitter import FrameSplitter
from handspan.wire.ws import is_utf8

CLOSE_SECONDS: Final = 1.0
FRAMES_AT_ONCE: Final = 64
"""Frames that are read before other connections have their turn."""
_OPEN: Final = State.OPEN
_log = logging.getLogger(__name__)


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's connection, which a receiver can take over after the handshake."""

    backlog_limit = 4 * 1024 * 1024
    """Bytes that may wait for a client that reads too slowly."""

    frame_limits = ConnectionLimits()
    flood_seconds = 5.0
    """A client that sends the frames of so many seconds beyond its rate is closed."""
    text_limit = -1
    """Whole text messages of up to so many bytes are read here; the library reads all others."""

    _receiver: Receiver | None = None
    _message_bytes: Callable[[], int] | None = None
    """The limit that this connection has in place of that of all."""
    _is_write_paused = False
    _resuming: asyncio.Handle | None = None
    """Ends the pause in which nothing is read; None while bytes are read."""
    _paused_until = 0.0
    _unread: bytes | None = None
    """Bytes that were received and have to wait. Reading is paused meanwhile."""
    _splitter: FrameSplitter | None = None
    """Set while a frame has arrived in part, or a message in fragments; most connections never need it."""
    _frame_count = 0.0
    """How many frames the client has sent; it shrinks with time, at the rate that is allowed."""
    _counted_at = 0.0
    _excess = 0
    """How many frames the client has sent since it began to exceed its rate."""
    _liveness: "_LivenessCheck | None" = None

    def handle_connect(self, event: Any) -> None:
        """Put this connection into the scope, for the application."""
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            cast(dict[str, Any], self.scope["extensions"])[EXTENSION] = self

    def let_in(self, message_bytes: Callable[[], int]) -> None:
        """Allow messages of up to so many bytes. Those above the general limit are read a little slower."""
        self._message_bytes = message_bytes

    def take(self, receiver: Receiver) -> None:
        """Give every message to `receiver` from now on. What ASGI needed is dropped: it is most of the memory."""
        if self._receiver is None:
            self.request.headers.clear()  # the library's parser keeps the request
        self._receiver = receiver
        self.queue = self.writable = cast(Any, _NO_ASGI)
        self.scope = self.request = self.response = cast(Any, None)
        self.client = self.server = None
        if self._unread is not None:
            self._resuming = self.loop.call_soon(self._resume)

    async def run_asgi(self) -> None:
        """Run the application. The connection stays open if a receiver has taken it."""
        try:
            await self.app(self.scope, self.receive, self.send)
        except Exception:  # the application's own code: the connection is answered and closed below
            _log.exception("A WebSocket connection could not be opened")
        if self._receiver is None:
            self.send_500_response()  # does nothing if the application has answered, as with a refusal
            self.transport.close()

    # In.

    def data_received(self, data: bytes) -> None:
        """Read a few frames. Bytes that come before a receiver has taken the connection wait for it."""
        if not self.handshake_initiated:  # the head of the upgrade
            super().data_received(data)
        elif self._receiver is None or self._unread is not None:
            self._unread = (self._unread or b"") + data
            self.transport.pause_reading()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Split the bytes into frames, and count those that are no whole text message."""
        if self._splitter is None:
            self._splitter = FrameSplitter(self.text_limit, masked=True)
        splitter, before = self._splitter, self._splitter.frames
        for is_message, piece in splitter.split(data, FRAMES_AT_ONCE):
            if is_message:
                self._receive_text(piece)
            else:
                if self._message_bytes is not None and self.conn.current_size is None:  # no message is half read
                    self.conn.max_message_size = self._message_bytes()
                super().data_received(piece)
        self._count_frames(splitter.frames - before, splitter.fragments)
        if splitter.rest:
            self._read_later(splitter.rest)
        elif splitter.is_between_messages:
            self._splitter = None

    def _count_frames(self, count: int, fragments: int) -> None:
        """Read more slowly from a client that sends too many frames; close it when it goes on (ws.md 2.7).

        `count`: how many came just now that are no whole text messages. `fragments`: those of the unfinished message.
        """
        if not count or self.close_sent:
            return
        rate, now = self.frame_limits.frames_per_second, self.loop.time()
        self._frame_count = max(0.0, self._frame_count - (now - self._counted_at) * rate) + count
        self._counted_at = now
        self._excess = self._excess + count if self._frame_count > rate else 0
        if fragments > self.frame_limits.fragments:
            self._end_flood("a message has too many fragments")
        elif self._excess > self.flood_seconds * rate:
            self._end_flood("too many fragments or control frames")
        elif self._frame_count > rate:
            self.pause((self._frame_count - rate) / rate)

    def _end_flood(self, reason: str) -> None:
        """Close the connection, and read nothing more from it."""
        self.close(CloseCode.POLICY_VIOLATION, reason, CLOSE_SECONDS)
        self.pause(CLOSE_SECONDS)

    def _read_later(self, data: bytes) -> None:
        """Read these bytes after other connections had their turn, and after a pause."""
        self._unread = data
        if self._resuming is None and not self.transport.is_closing():
            self.transport.pause_reading()
            self._resuming = self.loop.call_soon(self._resume)

    def handle_ping(self) -> None:
        """Send the pong; drop a client that does not read its pongs."""
        super().handle_ping()
        if self._is_write_paused:
            self._check_backlog()

    def handle_pong(self, event: Frame) -> None:
        """Take the answer to a ping."""
        if self._liveness is not None and bytes(event.data) == self._liveness.payload:
            self._end_liveness_check()
        else:
            super().handle_pong(event)

    def _end_liveness_check(self) -> None:
        check, self._liveness = self._liveness, None
        if check is not None:
            check.timer.cancel()
            for then in check.waiting:
                then()

    def _receive_text(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None or self.close_sent:
            return
        if not data.isascii() and not is_utf8(data):
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
        self._unread = self._splitter = self._message_bytes = None
        super().connection_lost(exc)
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            frame = self.conn.close_rcvd or self.conn.close_sent
            receiver.on_close(CloseCode.ABNORMAL_CLOSURE if frame is None else frame.code)
        self._end_liveness_check()
        self.conn.parser.close()  # its generator holds the whole connection in a cycle

    # Out.

    def send_text(self, data: bytes) -> None:
        """Send a text message. Does nothing on a closed or closing connection."""
        if self.close_sent or self.conn.state is not _OPEN or self.transport.is_closing():
            return
        self.conn.send_text(data)
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self._is_write_paused:
            self._check_backlog()

    def _check_backlog(self) -> None:
        if self.transport.get_write_buffer_size() > self.backlog_limit:
            self.close(CloseCode.TRY_AGAIN_LATER, "you read too slowly", CLOSE_SECONDS)

    def pause_writing(self) -> None:
        """Begin to check the backlog: the kernel takes no more bytes for now."""
        self._is_write_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop checking the backlog: the client has caught up."""
        self._is_write_paused = False
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

    def check_alive(self, seconds: float, then: Callable[[], None]) -> None:
        """Send a ping, and call `then` when the client has answered. One that is too late is dropped first."""
        if self._liveness is not None:
            self._liveness.waiting.append(then)
            return
        self._liveness = _LivenessCheck(os.urandom(8), self.loop.call_later(seconds, self.abort), [then])
        if self.conn.state is _OPEN and not self.transport.is_closing():
            self.conn.send_ping(self._liveness.payload)
            self.transport.write(b"".join(self.conn.data_to_send()))

    def pause(self, seconds: float) -> None:
        """Read nothing for so long. Messages that were read already still count, and may prolong the pause."""
        self._paused_until = self.loop.time() + seconds
        if self._resuming is None and not self.transport.is_closing():
            self.transport.pause_reading()
            self._resuming = self.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        """Read on, once the pause is over; first what came meanwhile."""
        left = self._paused_until - self.loop.time()
        if left > 0:
            self._resuming = self.loop.call_later(left, self._resume)
            return
        self._resuming = None
        unread, self._unread = self._unread, None
        if unread and not self.transport.is_closing():
            self.data_received(unread)
        self._resume_reading()

    def _resume_reading(self) -> None:
        """Read again, unless the bytes that waited have begun another pause."""
        if self._resuming is None and not self.transport.is_closing():
            self.transport.resume_reading()

    def handle_close(self, event: Frame) -> None:
        """Take the client's close frame: it closes the connection, or answers our close."""
        if self._receiver is not None and self.close_sent:
            self.transport.close()
        else:
            super().handle_close(event)


class _LivenessCheck(NamedTuple):
    """A ping whose pong has not come yet."""

    payload: bytes
    timer: asyncio.TimerHandle
    waiting: list[Callable[[], None]]


class _NoAsgi:
    """In place of the queue and the event of a connection that was taken: no ASGI application waits for them."""

    def put_nowait(self, _: object) -> None:
        """Drop the message: the receiver got it."""

    def set(self) -> None:
        """Wake up nothing."""

    def clear(self) -> None:
        """Let nothing wait."""


_NO_ASGI: Final = _NoAsgi()
