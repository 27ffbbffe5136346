"""The Protocols between a connection and its receiver: `on_message` in, `send_text`, `close` and `abort` out.

This module loads no WebSocket library: that happens when the first client connects.
"""

from collections.abc import Callable
from typing import Final, Protocol

EXTENSION: Final = "handspan.socket"
"""The key of the connection in an ASGI scope's extensions."""


class Receiver(Protocol):
    """The receiver of a connection's messages. Its methods are called on the event loop and must not block."""

    def on_message(self, data: bytes) -> None:
        """Take a whole text message, valid UTF-8."""
        ...

    def on_close(self, code: int) -> None:
        """Note that the connection is gone; the last call."""
        ...


class Socket(Protocol):
    """A connection. A faster transport needs only these methods."""

    backlog_limit: int
    """Bytes that may wait for a client that reads too slowly."""

    def let_in(self, message_bytes: Callable[[], int]) -> None:
        """Allow messages of up to so many bytes, in place of the limit for all connections.

        `message_bytes` is called when a message begins that no whole read brings.
        """
        ...

    def take(self, receiver: Receiver) -> None:
        """Give every message to `receiver` from now on."""
        ...

    def send_text(self, data: bytes) -> None:
        """Send a text message. Does nothing on a closed or closing connection."""
        ...

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection. A client that does not answer in time is dropped."""
        ...

    def abort(self) -> None:
        """Drop the connection at once."""
        ...

    def pause(self, seconds: float) -> None:
        """Read nothing for so long: this slows down a client that sends too much."""
        ...

    def check_alive(self, seconds: float, then: Callable[[], None]) -> None:
        """Send a ping, and call `then` when the client has answered. One that is too late is dropped first."""
        ...
