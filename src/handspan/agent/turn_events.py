"""What the fronts of a session hear: the events of its turns, and what the gateway has to add to them."""

from typing import TypeAlias, final

from msgspec import Struct

from handspan.core.events import Ended, Event, Titled
from handspan.core.questions import QuestionKind


@final
class Prompted(Struct, frozen=True, tag="prompt"):
    """What the model is told in the first round; for who asked to see it (ws.md 3.6)."""

    messages: str
    """Instructions, tools and messages, as JSON."""
    estimated_tokens: int


@final
class QuestionOver(Struct, frozen=True, tag="question_over"):
    """A question is not open any more: answered, expired, or its call was given up."""

    id: str
    kind: QuestionKind
    by: str = ""
    """Who answered, in the word that they gave with the answer."""


@final
class MessageStored(Struct, frozen=True, tag="accepted"):
    """What somebody said is kept; for who said it (ws.md 3.1)."""

    id: str


@final
class AnsweredBefore(Struct, frozen=True, tag="answered_before"):
    """What somebody says was said before, and this is how it was answered; for who says it again."""

    ended: Ended
    text: str
    """All words of the answer."""


Happening: TypeAlias = Event | Prompted | Titled | QuestionOver | MessageStored | AnsweredBefore
