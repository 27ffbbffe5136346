"""The seam between a connection and its receiver: `on_message` in, `send_text`, `close` and `abort` out.

This module loads no WebSocket library: that happens when the first client connects.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from handspan.gateway.clients.peer import PeerSocket

if TYPE_CHECKING:
    from handspan.gateway.clients.socket import SocketProtocol

EXTENSION: Final = "handspan.socket"
"""The key of the connection in an ASGI scope's extensions."""
Socket: TypeAlias = "SocketProtocol"
"""A connection."""
ANSWER_SECONDS: Final = 2.0
"""A client that does not answer a ping within this time is dropped, if another one offers tools of the same names."""


class Receiver(Protocol):
    """The receiver of a connection's messages. Its methods are called on the event loop and must not block."""

    def on_message(self, data: bytes) -> None:
        """Take a whole text message, valid UTF-8."""

    def on_close(self, code: int) -> None:
        """Note that the connection is gone; the last call."""


class WaitForConflicting:
    """Holds back the frames of a client that registers tools while other clients have tools of the same names.

    It waits until each of the others has answered a ping or was dropped. One of them may be the old, half-open link of
    the same client: the ping frees its names at once (ws.md 4.3).
    """

    def __init__(
        self, connection: Receiver, socket: Socket, others: Sequence[PeerSocket], then: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._socket = socket
        self._messages: list[bytes] = []
        self._unchecked = len(others)
        self._then = then
        self._is_closed = False
        socket.pause(ANSWER_SECONDS)
        socket.take(self)
        for other in others:
            other.check_alive(ANSWER_SECONDS, self._on_checked)

    def on_message(self, data: bytes) -> None:
        """Keep a message that was read before the pause."""
        self._messages.append(data)

    def on_close(self, code: int) -> None:
        """Note that the connection is gone."""
        self._is_closed = True
        self._connection.on_close(code)

    def _on_checked(self) -> None:
        """Count one client as checked. After the last one, register the tools and handle the held frames."""
        self._unchecked -= 1
        if self._unchecked or self._is_closed:
            return
        self._socket.take(self._connection)
        self._then()
        for message in self._messages:
            self._connection.on_message(message)
