"""One HTTP connection: uvicorn's, with limits on headers, pipelined requests and time, and refusals in JSON.

No token was checked at this point: a request that is refused here never reaches the application.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from handspan.config.gateway_settings import ConnectionLimits
from handspan.gateway.entry.auth import is_let_in
from handspan.gateway.entry.host_policy import address_of, is_local
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.serving.idle_connections import IdleConnections
from handspan.gateway.serving.reading_turns import ReadingFlow, ReadingTurns
from handspan.gateway.serving.refusing import encode_refusal
from handspan.gateway.serving.request_heads import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    TOO_MANY_HEADERS,
    find_fault,
    find_length,
)

if TYPE_CHECKING:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 2048
"""Bytes that are parsed at once where the end of a request can't be seen in advance."""
_PIECES_AT_ONCE: Final = 200
"""Pieces of a body that are parsed at once. A read can hold tens of thousands of small chunks: the rest waits."""
_INVALID: Final = "Invalid HTTP request received."


def _may_log(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn is logged: not the one about invalid bytes, which does not name the client."""
    return record.msg != _INVALID


logging.getLogger("uvicorn.error").addFilter(_may_log)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's connection with limits. While a request waits for its turn, no further bytes are parsed."""

    flow: ReadingFlow
    url = b""
    """The address of the last request that has begun, as far as it has arrived."""
    _head_bytes = 0
    """Bytes of a head so far: those since the last piece of a body, or the end of a head or a request."""
    _is_in_body = False
    """Whether arriving bytes belong to the request whose head is complete."""
    _body_left = 0
    """Bytes of the body that have not come; 0 also where its length is unknown."""
    _body_pieces = 0
    """Pieces of the body in the bytes that are parsed now."""
    _is_refused = False
    """Whether arriving bytes are ignored."""
    _is_upgraded = False
    """Whether the connection is a WebSocket now."""
    _before: RequestResponseCycle | None = None
    """The request before the last one, if it was not answered when the last one began."""
    _at_work: RequestResponseCycle | None = None
    """The request that is being answered, or was answered last."""
    _unread = b""
    """Bytes that wait until the requests before them are answered, or for a turn. At most two reads."""
    _is_waiting = False
    """Whether the connection waits for its turn to be read."""
    _has_waited = False
    """Whether the bytes that are parsed now came before the last answer."""
    _pipelined = 0
    """Requests that came before the answer to the one before them."""
    _stalling: asyncio.TimerHandle | None = None
    """Set while the client does not read its answer."""
    _address = ""
    """The address of the client; empty for this computer."""
    _ends_after_body = False
    """Whether the connection ends when the body of the request that was answered last has come."""

    def __init__(
        self,
        prefix: str,
        limits: ConnectionLimits,
        idle: IdleConnections,
        turns: ReadingTurns,
        on_made: Callable[[], None] | None = None,
        **parts: Any,
    ) -> None:
        """`prefix`: the path prefix of the gateway. `idle` and `turns` are those of the whole server.

        `on_made` is called when the connection is ready for requests.
        """
        super().__init__(**parts)
        self._on_made = on_made
        self._prefix = prefix
        self._limits = limits
        self._idle = idle
        self._turns = turns
        self.headers = []

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Begin to wait for a request, or refuse the connection when there are too many."""
        super().connection_made(transport)
        self.flow = ReadingFlow(transport)
        if self._on_made is not None:
            self._on_made()
            self._on_made = None
        address = address_of({"client": self.client})
        self._address = "" if is_local(address) else address
        if self._idle.make_room(len(self.connections)):
            self._idle.add(self, self._address)
        else:
            self._refuse(Refusal(503, "too_many_connections", "Too many connections are open: come back in a moment."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._idle.remove(self, self._address)
        self._turns.remove(self)
        self._unread = b""
        self._cancel_stall()
        super().connection_lost(exc)
        if self._at_work is not None and not self._at_work.response_complete:
            self._at_work.disconnected = True  # uvicorn marks only the last request that has come
            self._at_work.message_event.set()
        self.pipeline.clear()
        self._at_work = self._before = self.cycle = cast(Any, None)  # each refers to this connection

    def drop(self) -> None:
        """Close the connection at once: another one needs its place."""
        self._idle.remove(self, self._address)
        self._is_refused = True
        self.transport.abort()

    def end_late(self) -> None:
        """Close the connection: the head of a request did not come in time."""
        self._idle.remove(self, self._address)
        if self._is_refused or self.transport.is_closing():
            self.transport.abort()
        elif self._head_bytes and not self._is_in_body:
            text = f"The head of the request did not come within {self._limits.head_seconds:g} s. Send it faster."
            self._refuse(Refusal(408, "too_slow", text))
        else:
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        """Give the connection to its WebSocket protocol."""
        self._is_upgraded = True
        self._idle.remove(self, self._address)
        super().handle_websocket_upgrade()
        socket = cast("WebSocketsSansIOProtocol", self.transport.get_protocol())
        if not socket.handshake_initiated:  # nothing else would answer the request, or end the connection
            text = "This request can't become a WebSocket: send no body, and headers as short as other programs do."
            self._write(Refusal(400, "bad_request", text))
            self.transport.close()
        self.parser = self.cycle = cast(Any, None)  # they refer to this object: only a collection would free it

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        if self._stalling is None:
            self._stalling = self.loop.call_later(self._limits.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        super().resume_writing()
        self._cancel_stall()

    def _cancel_stall(self) -> None:
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None

    # Bytes.

    def data_received(self, data: bytes) -> None:
        """Parse bytes, but not beyond a request that waits, and not many small pieces of a body at once."""
        if self._unread or self._is_waiting:
            self._unread += data
            self.flow.hold()
            return
        at, end, self._body_pieces = 0, len(data), 0
        while at < end and not self._is_refused and not self._is_upgraded:
            if self.pipeline or self._body_pieces > _PIECES_AT_ONCE:
                self._unread = data[at:]
                break
            until = self._find_cut(data, at)
            self._parse(data if at == 0 and until >= end else data[at:until])
            at = until
        if self._is_refused and self._pipelined >= self._limits.pipelined:
            self.flow.hold()  # the rest of a flood is not even read
        elif self._body_pieces > _PIECES_AT_ONCE or self._has_useless_bytes:
            self._wait_for_turn()

    @property
    def _has_useless_bytes(self) -> bool:
        """Whether arriving bytes are ignored, or are the rest of a body that its answer did not wait for."""
        if self._is_upgraded or self.transport.is_closing():
            return False
        return self._is_refused or (self._is_in_body and self.cycle.response_complete)

    def _find_cut(self, data: bytes, at: int) -> int:
        """Return where the request that these bytes belong to ends, as far as that can be seen."""
        if self._body_left:
            return at + self._body_left
        mark = b"0\r\n\r\n" if self._is_in_body else b"\r\n\r\n"
        found = data.find(mark, at, at + _AT_ONCE)
        return at + _AT_ONCE if found < 0 else found + len(mark)

    def _parse(self, data: bytes) -> None:
        """Parse bytes, and count those of a head. The headers are counted before they have all come."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(Refusal(431, "too_large", f"The headers have more than {MAX_HEAD_BYTES} bytes. Send less."))
        elif len(self.headers) > MAX_HEADERS:
            self._refuse(TOO_MANY_HEADERS)

    def _find_fault(self) -> Refusal | None:
        return find_fault(self.url, self.headers, is_upgrade=self.parser.should_upgrade())

    def _wait_for_turn(self) -> None:
        self.flow.hold()
        if not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self)

    def read_on(self) -> None:
        """Begin the request that waited, parse the bytes that waited, then read on unless something waits again."""
        if self.transport.is_closing():
            return
        self._is_waiting = False
        if self.pipeline:
            self._unset_keepalive_if_required()
            self._idle.remove(self, self._address)
            self._start_asgi_task(*self.pipeline.pop())
        unread, self._unread = self._unread, b""
        if unread:
            self._has_waited = True
            self.data_received(unread)
            self._has_waited = False
        if not (self.pipeline or self._unread or self._is_waiting):
            self.flow.release()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._at_work = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Wait for the next request; for a turn if its bytes are here, if bytes are useless, or without a token."""
        is_known = self._at_work is not None and is_let_in(cast(Any, self._at_work.scope))
        waiting, self.pipeline = self.pipeline, deque()
        super().on_response_complete()  # with a pipeline it would begin the next request at once
        self.pipeline = waiting
        if self.transport.is_closing():
            return
        self._idle.add(self, self._address)
        has_come = bool(self.pipeline or self._unread)
        if has_come or self._has_useless_bytes or not (is_known or self._turns.take()):
            self._wait_for_turn()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP request, and heads with a fault. The log says from where the bytes came."""
        fault, address = self._find_fault(), address_of({"client": self.client})
        text = "This is no HTTP request that can be read. Look at what you send."
        self._refuse(fault or Refusal(400, "bad_request", text))
        if fault is None and self._idle.should_log_invalid(address):
            _log.warning(
                "What %s sends is no HTTP request: a client of https, or of something else, probably tried plain HTTP. "
                "It is logged once a minute.",
                address or "a client",
            )

    def on_headers_complete(self) -> None:
        """Begin a request: its head is complete. Raises `ValueError`, which ends the parsing, for a bad head."""
        if self._find_fault() is not None:
            raise ValueError("the head is not taken")
        self._head_bytes = 0
        before: RequestResponseCycle | None = self.cycle
        self._before = None if before is None or before.response_complete else before
        super().on_headers_complete()
        if self.cycle is not before and not self.cycle.keep_alive:  # it is the same before a WebSocket
            self.cycle.transport = cast(Any, _LastAnswer(self))
        self._is_in_body = True
        self._body_left = find_length(self.headers)
        self._idle.remove(self, self._address)
        if self._before is not None or self._has_waited:
            self._pipelined += 1
            if self._pipelined >= self._limits.pipelined:
                self.cycle.keep_alive = False  # this request is still answered, and is the last one

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._head_bytes = 0
        self._body_pieces += 1
        self._body_left = max(0, self._body_left - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request: the next one may begin."""
        self._head_bytes = 0
        self._is_in_body = False
        self._body_left = 0
        self._is_refused = self._is_refused or self._ends_after_body or self._pipelined >= self._limits.pipelined
        super().on_message_complete()
        if self._ends_after_body:
            self.transport.close()

    def end_after_answer(self) -> None:
        """End the connection. A body that its answer did not wait for comes first: the client reads after it.

        If the connection ended at once, the system would reset it, and the client would lose the answer.
        """
        last = self._at_work
        if last is not None and last is self.cycle and last.response_complete and self._is_in_body:
            self._ends_after_body = True
        else:
            self.transport.close()

    def _refuse(self, refused: Refusal) -> None:
        """End the connection. The refusal is sent only where the client reads it as the answer to the bad request."""
        self._is_refused = True
        last: RequestResponseCycle | None = self.cycle
        if last is None:
            self._write(refused)
        elif self._is_in_body and self.pipeline and self._before is not None:
            self.pipeline.popleft()  # the last request waits for the one before it, and will never be complete
            self._before.keep_alive = False
            return
        elif self._is_in_body:  # the last request will never be complete
            if not last.response_started:
                self._write(refused)
        elif last.response_complete:
            self._write(refused)
        else:
            last.keep_alive = False  # the earlier requests get their answers, then the connection ends
            return
        self.transport.close()

    def _write(self, refused: Refusal) -> None:
        headers = self.server_state.default_headers
        self.transport.write(encode_refusal(refused, self.url, self._prefix, headers))


class _LastAnswer:
    """The transport as the last request of a connection has it."""

    def __init__(self, connection: HttpProtocol) -> None:
        self._connection = connection
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        """End the connection: the answer is complete, or can't be completed."""
        self._connection.end_after_answer()
