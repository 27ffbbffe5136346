"""One WebSocket connection to the gateway: messages in, messages out, with no queue and no task in between.

The library opens it (TLS, proxies, the handshake), answers pings, sends its own, and closes it. A whole text message
goes past it: straight from the kernel to whoever listens, and straight back. Loads with the first connection.
"""

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Event, State
from websockets.typing import Subprotocol

from handspan.client.errors import NotOpened
from handspan.wire.plain_frames import Cutter, is_utf8, masked_text

if TYPE_CHECKING:
    import ssl

_LARGEST: Final = 16 * 1024 * 1024
_BUFFER: Final = 64 * 1024
_MOST_FRAGMENTS: Final = 4096
_SECONDS_TO_CLOSE: Final = 2.0
_END_OF_HEAD: Final = b"\r\n\r\n"
_DATA: Final = frozenset((Opcode.TEXT, Opcode.BINARY, Opcode.CONT))


class Listener(Protocol):
    """Gets the messages of the gateway."""

    def on_message(self, data: bytes) -> None:
        """A text message has arrived, in UTF-8. Must not block."""
        ...


class ClientSocket(ClientConnection, asyncio.BufferedProtocol):
    """The library's connection, whose messages go to one listener at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.over: asyncio.Future[None] = self.loop.create_future()
        """Done as soon as the listener will hear nothing more; with what it raised, if it did."""
        self._buffer = memoryview(bytearray(_BUFFER))
        self._listener: Listener | None = None
        self._early: list[bytes] = []
        """What came with the handshake's last bytes, before anybody listened."""
        self._head = b""
        """The last bytes of the handshake so far: its end may come in two pieces."""
        self._cutter = Cutter(_LARGEST)
        self._fragments: list[bytes] = []
        self._is_text = False
        self._masks: list[bytes] = []

    # In.

    def listen(self, listener: Listener) -> None:
        """Give every message to this listener, first those that have arrived already."""
        self._listener = listener
        early, self._early = self._early, []
        for message in early:
            self._hear(message)
        if self.protocol.state is not State.OPEN:  # the gateway has closed it already
            self._end()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put the bytes that come. Without it asyncio's own loop maps fresh memory for every read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many have come there."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self.protocol.state is State.CONNECTING:
            data = self._shake_hands(data)
            if self.protocol.state is State.CONNECTING:  # refused, or not answered to the end
                self._read_by_library(data)
                return
        for is_message, piece in self._cutter.cut(data):
            if is_message:
                self._hear(piece)
            else:
                self._read_by_library(piece)

    def _shake_hands(self, data: bytes) -> bytes:
        """Let the library read the head of the answer; the rest may be frames."""
        seen = self._head + data
        end = seen.find(_END_OF_HEAD)
        size = len(data) if end < 0 else end + len(_END_OF_HEAD) - len(self._head)
        self._head = seen[-len(_END_OF_HEAD) + 1 :]
        self._read_by_library(data[:size])
        return data[size:]

    def _read_by_library(self, data: bytes) -> None:
        super().data_received(data)
        if self.protocol.state in (State.CLOSING, State.CLOSED):
            self._end()

    def process_event(self, event: Event) -> None:
        """Put together the fragments of a message that the library has read."""
        if self.response is not None and isinstance(event, Frame) and event.opcode in _DATA:
            self._put_together(event)
        else:
            super().process_event(event)

    def _put_together(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._fragments.append(bytes(frame.data))
        if len(self._fragments) > _MOST_FRAGMENTS:
            self._refuse(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
        elif frame.fin:
            message, self._fragments = b"".join(self._fragments), []
            if self._is_text:  # ws.md 2.3
                self._hear(message)

    def _hear(self, message: bytes) -> None:
        if self._listener is None:
            self._early.append(message)
        elif self.over.done():
            return
        elif not message.isascii() and not is_utf8(message):
            self._refuse(CloseCode.INVALID_DATA, "text must be UTF-8")
        else:
            try:
                self._listener.on_message(message)
            except Exception as error:  # the program's own code may have been called: it ends the link, not the loop
                self._end(error)

    def _refuse(self, code: CloseCode, why: str) -> None:
        if self.protocol.state is State.OPEN:
            self.protocol.fail(code, why)
            self.send_data()
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        if self._listener is not None and not self.over.done():
            self.over.set_result(None) if error is None else self.over.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        super().connection_lost(exc)
        self._end()

    # Out.

    def send_text(self, data: bytes) -> bool:
        """Send a message. False: the connection is gone, or going, and nothing was sent."""
        if self.protocol.state is not State.OPEN or self.transport.is_closing():
            return False
        self._masks = self._masks or _fresh_masks()
        self.transport.write(masked_text(data, self._masks.pop()))
        return True

    async def drained(self) -> None:
        """Wait until the gateway takes more, or is gone."""
        with contextlib.suppress(OSError):  # gone: whoever sends next is told
            await self.drain()


class _Direct(connect):
    """Follows no redirect: the token goes only to the address that its owner gave."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_socket(url: str, token: str, is_local: bool, tls: "ssl.SSLContext | None") -> ClientSocket:
    """A connection that is open; `NotOpened` says why there is none."""
    options: dict[str, Any] = {"proxy": None} if is_local else {}
    if tls is not None and url.startswith("wss:"):
        options["ssl"] = tls
    try:
        socket = await _Direct(
            url,
            additional_headers={"Authorization": f"Bearer {token}"} if token else None,
            subprotocols=[Subprotocol("handspan.v1")],
            compression=None,
            max_size=_LARGEST,
            close_timeout=_SECONDS_TO_CLOSE,
            create_connection=ClientSocket,
            **options,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        raise NotOpened(f"HTTP {status}", status, bytes(error.response.body or b"")) from None
    except (OSError, InvalidHandshake, ConnectionClosed) as error:
        raise NotOpened(str(error) or type(error).__name__) from None
    assert isinstance(socket, ClientSocket)
    return socket


def _fresh_masks() -> list[bytes]:
    """Masks for the next frames (RFC 6455, 5.3): a system call for each would cost more than masking."""
    random = os.urandom(4 * 64)
    return [random[at : at + 4] for at in range(0, len(random), 4)]
