"""Why there is no connection, in words that say what to do."""

from handspan.core.errors import HandspanError


class GatewayRefused(HandspanError):
    """The gateway does not let this client in. Coming back will not help; the message says what will."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status of the refusal; 0 when the gateway said no after the upgrade."""


class GatewayUnreachable(HandspanError):
    """Nobody answered at the gateway's address."""


class MessageTooLarge(HandspanError):
    """What was to be said is larger than the gateway takes in one message. Nothing was sent."""


class NotOpened(Exception):
    """This attempt to open a connection came to nothing; perhaps the next one does."""

    def __init__(self, why: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(why)
        self.status = status
        """The HTTP status with which it was refused; 0 when nobody answered."""
        self.body = body
