"""Names of sessions that nobody has named."""

from collections.abc import Iterable
from typing import Final

from handspan.core.messages import Message, Text, UserMessage
from handspan.core.values import strip_invisible

_MOST_TITLE: Final = 60


def title_of(messages: Iterable[Message]) -> str:
    """The first words that a person said; empty when there are none, as with a picture alone."""
    said = (message for message in messages if isinstance(message, UserMessage))
    words = (short(" ".join(part.text for part in one.parts if isinstance(part, Text)), _MOST_TITLE) for one in said)
    return next(filter(None, words), "")


def short(text: str, most: int) -> str:
    """The text on one line, without what nobody sees, at most so long: cut between words where that can be."""
    line = " ".join(strip_invisible(text[: 100 * most]).split())
    if len(line) <= most:
        return line
    head, _, _ = line[:most].rpartition(" ")
    return f"{(head if len(head) >= most // 2 else line[: most - 1]).rstrip(' ,;:.-')}…"
