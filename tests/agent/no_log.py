"""The log of a conversation that ends with its test."""

from handspan.core.messages import Message


class NoLog:
    """Stores nothing."""

    def append(self, session: str, message: Message, after: int) -> None:
        """Do nothing."""
