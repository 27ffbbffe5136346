"""What a conversation tells of turns that are over."""

from collections.abc import Sequence
from typing import Final

from handspan.agent.turn_events import AnsweredBefore
from handspan.core.events import Ended, EndReason
from handspan.core.messages import AssistantMessage, Message, StopReason, UserMessage

_REASONS: Final[dict[StopReason, EndReason]] = {"length": "length", "refusal": "refusal", "aborted": "aborted"}


def last_turn(messages: Sequence[Message]) -> str:
    """The turn in which something was said last; empty when nobody knows."""
    return next((message.turn for message in reversed(messages) if type(message) is UserMessage), "")


def how_answered(said: UserMessage, messages: Sequence[Message]) -> AnsweredBefore | None:
    """How this part of the conversation was answered; None when it was not, or not yet."""
    words: list[str] = []
    last: AssistantMessage | None = None
    for message in messages[messages.index(said) + 1 :]:
        if type(message) is UserMessage:
            if last is not None and message.turn != said.turn:
                break
            last = None  # it was said while the model was at work: the turn went on
        elif type(message) is AssistantMessage:
            words.append(message.text)
            last = None if message.calls else message
    if last is None:
        return None
    return AnsweredBefore(Ended(_REASONS.get(last.stop, "done"), last.text), "".join(words))
