"""What the fronts of a session hear: the events of its turns, and what the gateway has to add to them."""

from collections.abc import Sequence
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from handspan.agent.conversation import Conversation
from handspan.core.events import Ended, EndReason, Event, Titled
from handspan.core.messages import AssistantMessage, Message, StopReason, UserMessage
from handspan.core.questions import QuestionKind

END_REASONS: Final[dict[StopReason, EndReason]] = {"length": "length", "refusal": "refusal", "aborted": "aborted"}
"""How a turn ends by the reason for which the model stopped; all others are `done`."""


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


def last_turn(messages: Sequence[Message]) -> str:
    """The turn in which something was said last; empty when nobody knows."""
    return next((message.turn for message in reversed(messages) if type(message) is UserMessage), "")


def find_answer(said: UserMessage, messages: Sequence[Message]) -> AnsweredBefore | None:
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
    return AnsweredBefore(Ended(END_REASONS.get(last.stop, "done"), last.text), "".join(words))


def render_prompt(conversation: Conversation) -> Prompted:
    """What the model of this conversation is told now."""
    specs = conversation.caller.box.specs()
    tools = [{"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in specs]
    messages = [_for_model(message) for message in conversation.messages]
    told = {"instructions": conversation.caller.agent.instructions, "tools": tools, "messages": messages}
    encoded = msgspec.json.encode(told)
    return Prompted(encoded.decode(), len(encoded) // 4)


def _for_model(message: Message) -> Message:
    return structs.replace(message, id="", turn="") if type(message) is UserMessage else message
