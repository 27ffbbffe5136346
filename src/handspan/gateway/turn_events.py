"""What the fronts of a session hear: the events of its turns, and what the gateway has to add to them."""

from collections.abc import Callable
from typing import TypeAlias, final

from msgspec import Struct

from handspan.core.events import Event


@final
class Prompted(Struct, frozen=True, tag="prompt"):
    """What the model is told in the first round; for who asked to see it (ws.md 3.6)."""

    messages: str
    """Instructions, tools and messages, as JSON."""
    estimated_tokens: int


@final
class Titled(Struct, frozen=True, tag="title"):
    """The session has got its first name. It comes after the end of the turn."""

    title: str


@final
class QuestionOver(Struct, frozen=True, tag="question_over"):
    """A question is not open any more: answered, expired, or its call was given up."""

    id: str
    by: str = ""
    """Who answered, in the word that they gave with the answer."""


Happening: TypeAlias = Event | Prompted | Titled | QuestionOver

Emit: TypeAlias = Callable[[Happening], None]
"""Shows to one front what happens. Never blocks."""
