"""One WebSocket connection to the gateway: messages in, messages out, with no queue and no task in between.

The library opens it (TLS, proxies, the handshake), reads and writes frames, answers pings, sends its own and closes it.
`fast_socket.py` beside it reads and writes whole text messages without the library. Loads with the first connection.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Event, State
from websockets.typing import Subprotocol

from handspan.client.faults import NotOpened
from handspan.wire.ws import is_utf8

if TYPE_CHECKING:
    import ssl

LARGEST_MESSAGE: Final = 16 * 1024 * 1024
_MOST_FRAGMENTS: Final = 4096
_SECONDS_TO_CLOSE: Final = 2.0
_DATA: Final = frozenset((Opcode.TEXT, Opcode.BINARY, Opcode.CONT))


class Listener(Protocol):
    """Who hears what the gateway says."""

    def on_message(self, data: bytes) -> None:
        """A text message has come, in UTF-8. Must not block."""
        ...


class ClientSocket(ClientConnection):
    """The library's connection, whose messages go to one listener at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.over: asyncio.Future[None] = self.loop.create_future()
        """Done as soon as the listener will hear nothing more; with what it raised, if it did."""
        self._listener: Listener | None = None
        self._early: list[bytes] = []
        """What came with the handshake's last bytes, before anybody listened."""
        self._fragments: list[bytes] = []
        self._is_text = False

    # In.

    def listen(self, listener: Listener) -> None:
        """Give every message to this one, first those that are there already."""
        self._listener = listener
        early, self._early = self._early, []
        for message in early:
            self._hear(message)
        if self.protocol.state is not State.OPEN:  # the gateway has said goodbye already
            self._end()

    def data_received(self, data: bytes) -> None:
        """Let the library read these bytes."""
        super().data_received(data)
        if self.protocol.state in (State.CLOSING, State.CLOSED):
            self._end()

    def process_event(self, event: Event) -> None:
        """What the library has read."""
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
        elif not is_utf8(message):
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
        """It is gone."""
        super().connection_lost(exc)
        self._end()

    # Out.

    def send_text(self, data: bytes) -> bool:
        """Send a message. False: the connection is gone, or going, and nothing was sent."""
        if self.protocol.state is not State.OPEN or self.transport.is_closing():
            return False
        self.protocol.send_text(data)
        self.send_data()
        return True

    async def drained(self) -> None:
        """Wait until the gateway takes more, or is gone."""
        with contextlib.suppress(OSError):  # gone: whoever sends next is told
            await self.drain()


class _Direct(connect):
    """A token goes where its owner said, not where somebody sends us on."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_socket(
    url: str, token: str, is_local: bool, tls: "ssl.SSLContext | None", kind: type[ClientSocket] = ClientSocket
) -> ClientSocket:
    """Return a connection of this kind that is open. Raises `NotOpened` when it is refused, with the reason."""
    options: dict[str, Any] = {"proxy": None} if is_local else {}
    if tls is not None and url.startswith("wss:"):
        options["ssl"] = tls
    try:
        socket = await _Direct(
            url,
            additional_headers={"Authorization": f"Bearer {token}"} if token else None,
            subprotocols=[Subprotocol("handspan.v1")],
            compression=None,
            max_size=LARGEST_MESSAGE,
            close_timeout=_SECONDS_TO_CLOSE,
            create_connection=kind,
            **options,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        raise NotOpened(f"HTTP {status}", status, bytes(error.response.body or b"")) from None
    except (OSError, InvalidHandshake, ConnectionClosed) as error:
        raise NotOpened(str(error) or type(error).__name__) from None
    assert isinstance(socket, ClientSocket)
    return socket
