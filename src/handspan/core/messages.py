"""One entry of a conversation, in words of no model API (SPEC M2, M4, A2).

A conversation is a list of messages: `UserMessage`, `AssistantMessage`, and after every assistant message with calls
one `ResultsMessage` that answers each of them exactly once. A model does not speak twice in a row: somebody has to say
something, or its calls have to be answered, in between. What a model API sent is kept verbatim beside it
(`Native`), since signatures and reasoning items have to go back to that API unchanged; other APIs never see it.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final

from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.results import Attachment
from handspan.core.values import Json

Api: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]

StopReason: TypeAlias = Literal["end", "calls", "length", "refusal", "aborted", "other"]
"""Why the model stopped. `length`: cut off, and a call that was cut is not among the calls."""


@final
class Text(Struct, frozen=True, tag="text"):
    """Words."""

    text: str


@final
class Thinking(Struct, frozen=True, tag="thinking"):
    """What the model let us see of its reasoning. It goes back only inside `Native`."""

    text: str


@final
class Media(Struct, frozen=True, tag="media"):
    """An image, a sound or a file."""

    attachment: Attachment


@final
class CallPart(Struct, frozen=True, tag="call"):
    """A tool call that the model asks for."""

    id: str
    """Ours: unique for ever (`new_call_id`)."""
    name: str
    """The tool's name as our registry has it."""
    arguments: str
    """The JSON text as it came, even when it is broken: the engine says what is wrong with it. Empty means {}."""
    wire_id: str = ""
    """The model's own id for it; empty when it gave none."""


Part: TypeAlias = Text | Thinking | Media | CallPart


@final
class Native(Struct, frozen=True):
    """What an API sent, verbatim, to be sent back to the same API unchanged."""

    api: Api
    model: str
    content: Json
    """chat: the message object; responses: the output items; anthropic: the content blocks; gemini: the content."""


@final
class Usage(Struct, frozen=True):
    """Tokens of one reply. None is unknown, which is never the same as 0 (SPEC M6)."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    """Of `input`, read from a cache."""
    reasoning: int | None = None
    """Of `output`, spent on thinking."""


@final
class UserMessage(Struct, frozen=True, tag="user", omit_defaults=True):
    """What a person, or the world outside, says. Only the parts are for models."""

    parts: tuple[Text | Media, ...]
    id: str = ""
    """What its sender calls it, so that it is not said twice (ws.md 3.1); empty when nobody asked for that."""
    turn: str = ""
    """The turn that it began, or became part of."""


@final
class AssistantMessage(Struct, frozen=True, tag="assistant"):
    """What a model says and asks for."""

    parts: tuple[Part, ...]
    stop: StopReason = "end"
    model: str = ""
    usage: Usage | None = None
    native: Native | None = None

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if type(part) is CallPart)

    @property
    def text(self) -> str:
        """The words, without the thinking."""
        return "".join(part.text for part in self.parts if type(part) is Text)


@final
class CallResult(Struct, frozen=True):
    """The answer to one call, in the envelope that every model gets (SPEC X1)."""

    call_id: str
    name: str
    envelope: str
    """JSON text: {"status": "success", …} or {"status": "error", …}."""
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()


@final
class ResultsMessage(Struct, frozen=True, tag="results"):
    """The answers to all calls of the assistant message before it, in the order of the calls."""

    results: tuple[CallResult, ...]


Message: TypeAlias = UserMessage | AssistantMessage | ResultsMessage


class UnpairedCalls(HandspanError):
    """A conversation in which a call and its result do not stand together; no API would take it (SPEC M4)."""


class RepliesInARow(UnpairedCalls):
    """A model's message straight after another one: some APIs refuse it, others lose one of them (SPEC M4)."""


def check_next(last: Message | None, coming: Message) -> None:
    """Refuse a message that must not follow that one. Checking each append keeps the whole conversation right."""
    _check_calls(last, coming)
    if type(last) is AssistantMessage and type(coming) is AssistantMessage:
        raise RepliesInARow(
            "an assistant message can't follow another one: a user message has to stand between them, or results"
        )


def check_all(messages: Sequence[Message]) -> None:
    """Refuse a conversation that is not paired throughout; for loading, where nothing is known yet.

    Replies in a row pass here, since versions that kept them wrote conversations that have to load; `check_next` lets
    no new ones come, and projections send them as one (`as_one`).
    """
    last: Message | None = None
    for message in messages:
        _check_calls(last, message)
        last = message


def as_one(last: Message | None, coming: Message) -> AssistantMessage | None:
    """Two replies in a row as the one that an API takes for them; None where these messages are something else.

    What an API sent verbatim is left out: two of its answers are not one that it gave.
    """
    if type(last) is not AssistantMessage or type(coming) is not AssistantMessage or last.calls:
        return None
    return AssistantMessage((*last.parts, *coming.parts), coming.stop, coming.model)


def _check_calls(last: Message | None, coming: Message) -> None:
    """Refuse a message that leaves a call without its result, or answers one that was not asked for."""
    open_calls = last.calls if type(last) is AssistantMessage else ()
    if type(coming) is ResultsMessage:
        answered = [result.call_id for result in coming.results]
        if not open_calls or answered != [call.id for call in open_calls]:
            raise UnpairedCalls(f"results for {answered} can't follow calls {[call.id for call in open_calls]}")
    elif open_calls:
        raise UnpairedCalls(f"the calls {[call.id for call in open_calls]} have no results yet")
