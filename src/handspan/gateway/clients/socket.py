"""One WebSocket connection without ASGI in its way: `on_message` in, `send_text`, `close` and `abort` out.

uvicorn's sans-I/O protocol does the handshake and the frames. ASGI ends with the upgrade: from then on a message goes
straight to the receiver that took the connection, and a frame straight to the kernel, so an idle connection holds no
task, no queue and none of the request. What the kernel does not take waits in the transport's own buffer, which is
bounded: a client that does not read is told so, and dropped a second later. No other client waits for it.

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
    """uvicorn's connection, which can be taken over after its handshake."""

    backlog_limit = 4 * 1024 * 1024
    """Bytes that may wait for a client that reads too slowly."""

    _receiver: Receiver | None = None
    _is_choked = False
    _resuming: asyncio.TimerHandle | None = None
    _paused_until = 0.0

    def handle_connect(self, event: Any) -> None:
        """Let the application find this connection in its scope."""
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            cast(dict[str, Any], self.scope["extensions"])[EXTENSION] = self

    def let_in(self, message_bytes: int) -> None:
        """Take messages of up to so many bytes; those above the limit of all are read a little slower."""
        self.conn.max_message_size = message_bytes

    def take(self, receiver: Receiver) -> None:
        """Give every message to `receiver` from now on. The request is forgotten: it costs more than all the rest."""
        waiting, self.queue = self.queue, cast(Any, _NOBODY)
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
        """The application; when it has handed the connection over, the connection stays."""
        try:
            await self.app(self.scope, self.receive, self.send)
        except Exception:  # the application's own code: the connection is answered and closed below
            _log.exception("A WebSocket connection could not be opened")
        if self._receiver is None:
            self.send_500_response()
            self.transport.close()

    # In.

    def _hear(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None or self.close_sent:
            return
        if not is_utf8(data):
            self.close(CloseCode.INVALID_DATA, "text must be UTF-8")
            return
        receiver.on_message(data)

    def send_receive_event_to_app(self) -> None:
        """A whole message has come."""
        if self._receiver is None:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        if self.curr_msg_data_type != "text":  # binary is skipped in silence: ws.md 2.3
            return
        self._hear(bytes(frames[0]) if len(frames) == 1 else b"".join(frames))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, for whatever reason."""
        if self._resuming is not None:
            self._resuming.cancel()
        super().connection_lost(exc)
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            said = self.conn.close_rcvd or self.conn.close_sent
            receiver.on_close(CloseCode.ABNORMAL_CLOSURE if said is None else said.code)

    # Out.

    def send_text(self, data: bytes) -> None:
        """Send a text message. On a connection that is gone, or going, nothing happens."""
        if self.close_sent or self.conn.state is not _OPEN or self.transport.is_closing():
            return
        self.conn.send_text(data)
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self._is_choked:
            self._look_at_the_backlog()

    def _look_at_the_backlog(self) -> None:
        if self.transport.get_write_buffer_size() > self.backlog_limit:
            self.close(CloseCode.TRY_AGAIN_LATER, "you read too slowly", SECONDS_TO_SAY_GOODBYE)

    def pause_writing(self) -> None:
        """The kernel takes no more for now: only from here on the backlog is looked at."""
        self._is_choked = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_choked = False
        super().resume_writing()

    def close(self, code: int = 1000, reason: str = "", within: float = 5.0) -> None:
        """Say goodbye; a client that has not answered `within` seconds is dropped."""
        if self.close_sent or self.transport.is_closing():
            return
        self.close_sent = True
        self.stop_keepalive()
        if self.conn.state is _OPEN:
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_timer = self.loop.call_later(within, self.abort)

    def abort(self) -> None:
        """Drop the connection at once, whatever waits to be sent."""
        self.transport.abort()

    def pause(self, seconds: float) -> None:
        """Read nothing for so long. What was read already is still heard, and may make it longer."""
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
        """The client says goodbye, or answers ours."""
        if self._receiver is not None and self.close_sent:
            self.transport.close()
        else:
            super().handle_close(event)


class _Nobody:
    """In place of the queue of a connection that was taken: what ASGI would hear, `on_close` says."""

    def put_nowait(self, _: object) -> None:
        """Nobody listens."""


_NOBODY: Final = _Nobody()
