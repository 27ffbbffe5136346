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
