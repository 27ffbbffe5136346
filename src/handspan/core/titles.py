"""The first name of a session: the first words of its person."""

from collections.abc import Iterable
from typing import Final

from handspan.core.messages import Message, Text, UserMessage
from handspan.core.values import strip_invisible

_MAX_TITLE: Final = 60


def make_title(messages: Iterable[Message]) -> str:
    """Return the first words of the person; empty when there are none, as for a picture alone."""
    users = (message for message in messages if isinstance(message, UserMessage))
    texts = (" ".join(part.text for part in message.parts if isinstance(part, Text)) for message in users)
    return next(filter(None, (shorten(text, _MAX_TITLE) for text in texts)), "")


def shorten(text: str, limit: int) -> str:
    """Return the text on one line, without invisible characters, at most so long; cut between words if possible."""
    line = " ".join(strip_invisible(text[: 100 * limit]).split())
    if len(line) <= limit:
        return line
    head, _, _ = line[:limit].rpartition(" ")
    return f"{(head if len(head) >= limit // 2 else line[: limit - 1]).rstrip(' ,;:.-')}…"
