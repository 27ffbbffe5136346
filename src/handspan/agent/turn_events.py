"""The events that listeners of a session get: those of its turns, and some that the gateway adds."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from handspan.agent.conversation import Conversation
from handspan.agent.limits import TurnCounts, TurnLimits
from handspan.core.errors import HandspanError, ToolError
from handspan.core.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Ended,
    EndReason,
    Event,
    RoundBegan,
    SessionChange,
    TextArrived,
    ThinkingArrived,
    TurnEnd,
    TurnFault,
)
from handspan.core.messages import AssistantMessage, Message, StopReason, UserMessage
from handspan.core.questions import QuestionKind
from handspan.models.model import ModelError, NoModel

END_REASONS: Final[dict[StopReason, EndReason]] = {"length": "length", "refusal": "refusal", "aborted": "aborted"}
"""How a turn ends, by the reason for which the model stopped. Other reasons of the model have no entry."""


@final
class Prompted(Struct, frozen=True, tag="prompt"):
    """The model's prompt in the first round, for a client that asked to see it (ws.md 3.6)."""

    messages: str
    """Instructions, tools and messages, as JSON."""
    estimated_tokens: int


@final
class QuestionOver(Struct, frozen=True, tag="question_over"):
    """A question is not open any more: it was answered, it expired, or its call was given up."""

    id: str
    kind: QuestionKind
    by: str = ""
    """The id of the WebSocket client that answered; empty for every other way to end."""


@final
class MessageStored(Struct, frozen=True, tag="accepted"):
    """A message is stored. Only its sender gets this event (ws.md 3.1)."""

    id: str


@final
class AnsweredBefore(Struct, frozen=True, tag="answered_before"):
    """The answer to a message that was sent before. Only the client that sends the message again gets this event."""

    ended: Ended
    text: str
    """The whole text of the answer."""


SessionEvent: TypeAlias = Event | Prompted | SessionChange | QuestionOver | MessageStored | AnsweredBefore


class RoundSoFar:
    """The events of the running round, for a listener that comes in the middle of the round (ws.md 3.7)."""

    __slots__ = ("_began", "_calls", "_text", "_thinking", "_turn")

    def __init__(self) -> None:
        self._began: RoundBegan | None = None
        self._turn = ""
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[str, dict[type[Event], Event]] = {}

    def note(self, event: Event | SessionChange, turn: str) -> None:
        """Note an event of this turn."""
        match event:
            case TextArrived(text=text):
                self._text.append(text)
            case ThinkingArrived(text=text):
                self._thinking.append(text)
            case CallStarted(id=call_id) | CallProgress(id=call_id) | CallFinished(id=call_id):
                self._calls.setdefault(call_id, {})[type(event)] = event
            case RoundBegan():
                self._begin(event, turn)
            case Ended():
                self._begin(None, turn)

    def has_finished(self, call_id: str) -> bool:
        """Whether the result of this call was noted."""
        return CallFinished in self._calls.get(call_id, {})

    def _begin(self, began: RoundBegan | None, turn: str) -> None:
        self._began, self._turn = began, turn
        self._text, self._thinking, self._calls = [], [], {}

    def events(self) -> list[tuple[Event, str]]:
        """Return the events so far, each with its turn: texts in one piece, of progress only the last."""
        if self._began is None:
            return []
        found: list[Event] = [self._began]
        found += [ThinkingArrived("".join(self._thinking))] if self._thinking else []
        found += [TextArrived("".join(self._text))] if self._text else []
        found += [event for of_call in self._calls.values() for event in of_call.values()]
        return [(event, self._turn) for event in found]


def failed_end(error: Exception) -> Ended:
    """Return the end of a turn that failed with this error."""
    match error:
        case ToolError(message=message, code=code):
            return Ended("error", message, TurnFault("call", code))
        case ModelError(fault=fault) | NoModel(fault=fault):
            return Ended("error", str(error), TurnFault("model", fault))
        case HandspanError():
            return Ended("error", str(error), TurnFault("inside", type(error).__name__))
    text = f"The turn failed inside the gateway ({type(error).__name__}): its log says more. Say it again."
    return Ended("error", text, TurnFault("inside", type(error).__name__))


def last_turn(messages: Sequence[Message]) -> str:
    """Return the id of the turn of the person's last message; empty when it is unknown."""
    return next((message.turn for message in reversed(messages) if isinstance(message, UserMessage)), "")


def find_answer(
    question: UserMessage, messages: Sequence[Message], limits: TurnLimits, ends: Mapping[int, TurnEnd] | None = None
) -> AnsweredBefore | None:
    """Return the answer to this message of the conversation; None while the message has no answer.

    `ends`: how turns ended, by the sequence numbers of their last messages.
    """
    texts: list[str] = []
    last: AssistantMessage | None = None
    counts, place = TurnCounts(), 0
    asked = messages.index(question) + 1
    for seq, message in enumerate(messages[asked:], asked + 1):
        if isinstance(message, UserMessage):
            if last is not None and message.turn != question.turn:
                break
            # This message joined while the model was at work; or the turn before failed, and the model answers both.
            last = None
        elif isinstance(message, AssistantMessage):
            texts.append(message.text)
            last, place = None if message.calls else message, seq
        counts.note(message)
    if last is None:
        return None
    if ends and place in ends:
        return AnsweredBefore(ends[place].to_event(last.text), "".join(texts))
    reason: EndReason = END_REASONS.get(last.stop) or counts.why_no_more_tools(limits) or "done"
    return AnsweredBefore(Ended(reason, last.text), "".join(texts))


def render_prompt(conversation: Conversation) -> Prompted:
    """Return the prompt of this conversation's next request to its model."""
    specs = conversation.specs_for_model()
    tools = [{"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in specs]
    messages = [_without_ids(message) for message in conversation.messages]
    prompt = {"instructions": conversation.instructions, "tools": tools, "messages": messages}
    encoded = msgspec.json.encode(prompt)
    return Prompted(encoded.decode(), len(encoded) // 4)


def _without_ids(message: Message) -> Message:
    return structs.replace(message, id="", turn="") if isinstance(message, UserMessage) else message
