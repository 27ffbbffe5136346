"""The seam between a connection and whoever uses it: `on_message` in, `send_text`, `close` and `abort` out.

Nothing of a WebSocket library is loaded for it: that happens when the first client comes.
"""

from typing import Final, Protocol

EXTENSION: Final = "handspan.socket"
"""Where in an ASGI scope the connection is found."""


class Receiver(Protocol):
    """Whoever took the connection. Both are called on the event loop and must not block."""

    def on_message(self, data: bytes) -> None:
        """A whole text message, valid UTF-8."""
        ...

    def on_close(self, code: int) -> None:
        """The connection is gone; called once, last."""
        ...


class Socket(Protocol):
    """What is behind the seam. A faster transport needs no more than this."""

    backlog_limit: int
    """Bytes that may wait for a client that reads too slowly."""

    def let_in(self, message_bytes: int) -> None:
        """Take messages of up to so many bytes, in place of what holds for all connections."""
        ...

    def take(self, receiver: Receiver) -> None:
        """Give every message to `receiver` from now on."""
        ...

    def send_text(self, data: bytes) -> None:
        """Send a text message. On a connection that is gone, or going, nothing happens."""
        ...

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye; a client that does not answer in time is dropped."""
        ...

    def abort(self) -> None:
        """Drop the connection at once."""
        ...

    def pause(self, seconds: float) -> None:
        """Read nothing for so long: whoever floods waits."""
        ...
