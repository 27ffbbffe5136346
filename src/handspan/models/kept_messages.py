"""What the models without an API share: a projection that keeps messages as they are, an answer played as a stream."""

from collections.abc import Iterator
from typing import Final, final

from handspan.core.messages import AssistantMessage, CallPart, Message, Text, Thinking, check_next, merge_replies
from handspan.models.model import CallDelta, ModelEvent, Replied, TextDelta, ThinkingDelta

_MOST_DELTAS: Final = 8
_LEAST_DELTA: Final = 24


@final
class KeptMessages:
    """A conversation in our own words."""

    __slots__ = ("instructions", "messages")

    def __init__(self, instructions: str = "") -> None:
        self.instructions = instructions
        self.messages: list[Message] = []

    def append(self, message: Message) -> None:
        """Add a message; `UnpairedCalls` when it must not stand there."""
        last = self.messages[-1] if self.messages else None
        both = merge_replies(last, message)
        if both is not None:  # only while a conversation of an old version is read: `check_next` lets none come
            self.messages[-1] = both
            return
        check_next(last, message)
        self.messages.append(message)

    def __len__(self) -> int:
        return len(self.messages)


def message_events(message: AssistantMessage) -> Iterator[ModelEvent]:
    """The events that a stream of this answer would have had, `Replied` last."""
    calls = 0
    for part in message.parts:
        match part:
            case Text(text=text):
                yield from (TextDelta(piece) for piece in _pieces(text))
            case Thinking(text=text):
                yield from (ThinkingDelta(piece) for piece in _pieces(text))
            case CallPart(name=name, arguments=arguments):
                yield CallDelta(calls, name=name)
                yield CallDelta(calls, arguments=arguments)
                calls += 1
            case _:
                pass  # media has no deltas
    yield Replied(message)


def _pieces(text: str) -> Iterator[str]:
    """The text in a few pieces, cut after blanks where it has them."""
    step, start = max(_LEAST_DELTA, -(-len(text) // _MOST_DELTAS)), 0
    while start < len(text):
        blank = text.find(" ", start + step, start + 2 * step)
        end = min(blank + 1 if blank >= 0 else start + step, len(text))
        yield text[start:end]
        start = end
