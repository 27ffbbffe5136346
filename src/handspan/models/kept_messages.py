"""For models without an API: a projection that keeps messages as they are, and the events of a whole answer."""

from collections.abc import Iterator
from typing import Final, final

from handspan.core.messages import AssistantMessage, CallPart, Message, Text, Thinking, check_next, merge_replies
from handspan.models.model import CallDelta, ModelEvent, Replied, TextDelta, ThinkingDelta

_MAX_DELTAS: Final = 8
_MIN_DELTA: Final = 24


@final
class KeptMessages:
    """A conversation as a list of our own messages."""

    __slots__ = ("instructions", "messages")

    def __init__(self, instructions: str = "") -> None:
        self.instructions = instructions
        self.messages: list[Message] = []

    def append(self, message: Message) -> None:
        """Add a message, or merge two replies in a row. Raises `UnpairedCalls` when it must not follow the last one."""
        last = self.messages[-1] if self.messages else None
        merged = merge_replies(last, message)
        if merged is not None:  # only old versions stored two replies in a row: `Conversation.append` refuses that
            self.messages[-1] = merged
            return
        check_next(last, message)
        self.messages.append(message)

    def __len__(self) -> int:
        return len(self.messages)


def message_events(message: AssistantMessage) -> Iterator[ModelEvent]:
    """Yield the events that a stream of this answer would have, `Replied` last."""
    calls = 0
    for part in message.parts:
        match part:
            case Text(text=text):
                yield from (TextDelta(piece) for piece in _split_text(text))
            case Thinking(text=text):
                yield from (ThinkingDelta(piece) for piece in _split_text(text))
            case CallPart(name=name, arguments=arguments):
                yield CallDelta(calls, name=name)
                yield CallDelta(calls, arguments=arguments)
                calls += 1
            case _:
                pass  # media has no deltas
    yield Replied(message)


def _split_text(text: str) -> Iterator[str]:
    """Yield the text in a few pieces, cut after spaces where possible."""
    step, start = max(_MIN_DELTA, -(-len(text) // _MAX_DELTAS)), 0
    while start < len(text):
        blank = text.find(" ", start + step, start + 2 * step)
        end = min(blank + 1 if blank >= 0 else start + step, len(text))
        yield text[start:end]
        start = end
