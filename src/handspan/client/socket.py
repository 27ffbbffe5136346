"""One WebSocket connection to the gateway: messages in, messages out, with no queue and no task in between.

The library opens it (TLS, proxies, the handshake), reads and writes frames, answers and sends pings, and closes it.
`fast_socket.py` reads and writes whole text messages without the library. Both load with the first connection.
"""

import asyncio
import contextlib
from ssl import SSLCertVerificationError
from typing import Any, Final, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Event, State
from websockets.typing import Subprotocol

from handspan.client.address import GatewayPlace
from handspan.client.errors import NotOpened, explain_failure
from handspan.wire.ws import is_utf8

MAX_MESSAGE: Final = 16 * 1024 * 1024
_MAX_FRAGMENTS: Final = 4096
_SECONDS_TO_CLOSE: Final = 2.0
_DATA: Final = frozenset((Opcode.TEXT, Opcode.BINARY, Opcode.CONT))


class MessageListener(Protocol):
    """Gets the messages of the gateway."""

    def on_message(self, data: bytes) -> None:
        """A text message has arrived, in UTF-8. Must not block."""
        ...


class ClientSocket(ClientConnection):
    """The library's connection, whose messages go to one listener at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.over: asyncio.Future[None] = self.loop.create_future()
        """Done when the listener gets no more messages; with the error that the listener raised, if it did."""
        self._listener: MessageListener | None = None
        self._early: list[bytes] = []
        """Messages that arrived with the handshake, before there was a listener."""
        self._fragments: list[bytes] = []
        self._is_text = False

    # In.

    def listen(self, listener: MessageListener) -> None:
        """Give every message to this listener, first those that have arrived already."""
        self._listener = listener
        early, self._early = self._early, []
        for message in early:
            self._deliver(message)
        if self.protocol.state is not State.OPEN:  # the gateway has already closed the connection
            self._end()

    def data_received(self, data: bytes) -> None:
        """Let the library read these bytes."""
        super().data_received(data)
        if self.protocol.state in (State.CLOSING, State.CLOSED):
            self._end()

    def process_event(self, event: Event) -> None:
        """Put together the fragments of a message that the library has read."""
        if self.response is not None and isinstance(event, Frame) and event.opcode in _DATA:
            self._add_fragment(event)
        else:
            super().process_event(event)

    def _add_fragment(self, frame: Frame) -> None:
        """Take a part of a message. The last part completes it."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._fragments.append(bytes(frame.data))
        if len(self._fragments) > _MAX_FRAGMENTS:
            self._refuse(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
        elif frame.fin:
            message, self._fragments = b"".join(self._fragments), []
            if self._is_text:  # ws.md 2.3
                self._deliver(message)

    def _deliver(self, message: bytes) -> None:
        """Give a message to the listener, or keep it until there is one."""
        if self._listener is None:
            self._early.append(message)
        elif self.over.done():
            return
        elif not message.isascii() and not is_utf8(message):
            self._refuse(CloseCode.INVALID_DATA, "text must be UTF-8")
        else:
            try:
                self._listener.on_message(message)
            except Exception as error:  # the listener may run the program's code: end the link, not the loop
                self._end(error)

    def _refuse(self, code: CloseCode, why: str) -> None:
        """Close the connection with this code: the gateway broke the protocol."""
        if self.protocol.state is State.OPEN:
            self.protocol.fail(code, why)
            self.send_data()
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        """Note that the listener gets no more messages."""
        if self._listener is not None and not self.over.done():
            self.over.set_result(None) if error is None else self.over.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        super().connection_lost(exc)
        self._end()

    # Out.

    def send_text(self, data: bytes) -> bool:
        """Send a message. Return False, and send nothing, when the connection is closed or closing."""
        if self.protocol.state is not State.OPEN or self.transport.is_closing():
            return False
        self.protocol.send_text(data)
        self.send_data()
        return True

    async def wait_writable(self) -> None:
        """Wait until the gateway takes more messages, or the connection is closed."""
        with contextlib.suppress(OSError):  # closed: the next `send_text` returns False
            await self.drain()


class _Direct(connect):
    """Follows no redirect: the token goes only to the address that its owner gave."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_socket(url: str, place: GatewayPlace, kind: type[ClientSocket] = ClientSocket) -> ClientSocket:
    """Return an open connection of this kind. Raises `NotOpened` with the reason when it can't be opened."""
    options: dict[str, Any] = {"proxy": None} if place.address.is_local else {}
    if place.tls is not None and url.startswith("wss:"):
        options["ssl"] = place.tls
    try:
        socket = await _Direct(
            url,
            additional_headers={"Authorization": f"Bearer {place.token}"} if place.token else None,
            subprotocols=[Subprotocol("handspan.v1")],
            compression=None,
            max_size=MAX_MESSAGE,
            close_timeout=_SECONDS_TO_CLOSE,
            create_connection=kind,
            **options,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        raise NotOpened(f"HTTP {status}", status, bytes(error.response.body or b"")) from None
    except SSLCertVerificationError as error:
        raise NotOpened(
            f"its certificate is not trusted here ({error.verify_message}); give its root as `tls`, or with --ca FILE"
        ) from None
    except (OSError, InvalidHandshake, ConnectionClosed) as error:
        raise NotOpened(explain_failure(url, error)) from None
    assert isinstance(socket, ClientSocket)
    return socket
