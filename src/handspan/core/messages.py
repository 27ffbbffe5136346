"""One entry of a conversation, in the words of no model API (SPEC M2, M4, A2).

A conversation is a list of messages: `UserMessage`, `AssistantMessage`, and after every assistant message with calls
one `ResultsMessage` that answers each call exactly once. An assistant message never follows another one: a user message
or results stand between them. What a model API sent is stored verbatim beside the message (`Native`), because
signatures and reasoning items have to go back to that API unchanged; other APIs never get it.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final

from msgspec import UNSET, Struct, UnsetType

from handspan.core.errors import HandspanError
from handspan.core.results import Attachment
from handspan.core.values import Json

Api: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]

StopReason: TypeAlias = Literal["end", "calls", "length", "refusal", "aborted", "other"]
"""Why the model stopped. `length`: it was cut off; a call that was cut off is not among the calls."""


@final
class Text(Struct, frozen=True, tag="text"):
    """Text."""

    text: str


@final
class Thinking(Struct, frozen=True, tag="thinking"):
    """What the model shows of its reasoning. It goes back only inside `Native`."""

    text: str


@final
class Media(Struct, frozen=True, tag="media"):
    """An image, a sound or a file."""

    attachment: Attachment


@final
class CallPart(Struct, frozen=True, tag="call"):
    """A tool call that the model asks for."""

    id: str
    """Our id: unique for ever (`new_call_id`)."""
    name: str
    """The tool's name in our registry."""
    arguments: str
    """The JSON text as it came, even if it is broken: the engine reports what is wrong with it. Empty means {}."""
    wire_id: str = ""
    """The model's own id of the call; empty if it gave none."""


Part: TypeAlias = Text | Thinking | Media | CallPart


@final
class Native(Struct, frozen=True):
    """What an API sent, verbatim. It is sent back only to the same API, unchanged."""

    api: Api
    model: str
    content: Json
    """chat: the message object; responses: the output items; anthropic: the content blocks; gemini: the content."""


@final
class Usage(Struct, frozen=True):
    """The tokens of one reply. None means unknown, which is not 0 (SPEC M6)."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    """The part of `input` that was read from a cache."""
    reasoning: int | None = None
    """The part of `output` that was spent on thinking."""
    cache_written: int | None = None
    """The part of `input` that was written to a cache."""


@final
class UserMessage(Struct, frozen=True, tag="user", omit_defaults=True):
    """What a person or a program says. Models get only the parts."""

    parts: tuple[Text | Media, ...]
    id: str = ""
    """The sender's own id of the message, so that it is not added twice (ws.md 3.1); empty if it has none."""
    turn: str = ""
    """The turn that it began or joined."""


@final
class Substitution(Struct, frozen=True):
    """Another model answers in place of the one that was meant (SPEC L6). The models have the names of the settings."""

    by: str
    of: str
    reason: str
    """Why the other one did not answer, in words for a person."""


@final
class AssistantMessage(Struct, frozen=True, tag="assistant"):
    """What a model says and which tools it calls."""

    parts: tuple[Part, ...]
    stop: StopReason = "end"
    model: str = ""
    usage: Usage | None = None
    native: Native | None = None
    substitution: Substitution | UnsetType = UNSET
    """Set when another model than the one that was meant has answered."""
    agent: str | UnsetType = UNSET
    """The name of the agent; unset for the built-in one, as for replies of earlier versions."""

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The tool calls, in order."""
        return tuple([part for part in self.parts if type(part) is CallPart])

    @property
    def text(self) -> str:
        """The text, without the thinking."""
        return "".join(part.text for part in self.parts if type(part) is Text)


@final
class CallResult(Struct, frozen=True):
    """The answer to one call, in the envelope that models get (SPEC X1)."""

    call_id: str
    name: str
    envelope: str
    """JSON text: {"status": "success", …} or {"status": "error", …}."""
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()


@final
class ResultsMessage(Struct, frozen=True, tag="results"):
    """The answers to all calls of the assistant message before it, in their order."""

    results: tuple[CallResult, ...]


Message: TypeAlias = UserMessage | AssistantMessage | ResultsMessage


class UnpairedCalls(HandspanError):
    """A call is not followed by its result, or a result not preceded by its call; no API accepts that (SPEC M4)."""


class RepliesInARow(UnpairedCalls):
    """An assistant message follows another one: some APIs refuse that, others lose one of them (SPEC M4)."""


def check_next(last: Message | None, coming: Message) -> None:
    """Raise `UnpairedCalls` if `coming` must not follow `last`. If each append is checked, a conversation is valid."""
    _check_calls(last, coming)
    if type(last) is AssistantMessage and type(coming) is AssistantMessage:
        raise RepliesInARow(
            "an assistant message can't follow another one: a user message has to stand between them, or results"
        )


def check_all(messages: Sequence[Message]) -> None:
    """Raise `UnpairedCalls` if calls and results do not pair in a conversation that was loaded.

    Replies in a row pass here, because older versions stored them; `check_next` refuses new ones, and a projection
    sends them as one (`merge_replies`).
    """
    last: Message | None = None
    for message in messages:
        _check_calls(last, message)
        last = message


def merge_replies(last: Message | None, coming: Message) -> AssistantMessage | None:
    """Return two replies in a row as one message that an API accepts; None for other messages.

    What is `native` of them is left out: no API has sent the merged message.
    """
    if type(last) is not AssistantMessage or type(coming) is not AssistantMessage or last.calls:
        return None
    return AssistantMessage((*last.parts, *coming.parts), coming.stop, coming.model)


def _check_calls(last: Message | None, coming: Message) -> None:
    """Raise `UnpairedCalls` if `coming` leaves a call without its result, or answers a call that is not open."""
    if type(last) is not AssistantMessage and type(coming) is not ResultsMessage:
        return  # nothing is open, and nothing is answered
    parts = last.parts if type(last) is AssistantMessage else ()
    open_calls = [part.id for part in parts if type(part) is CallPart]
    if type(coming) is ResultsMessage:
        answered = [result.call_id for result in coming.results]
        if not open_calls or answered != open_calls:
            raise UnpairedCalls(f"results for {answered} can't follow calls {open_calls}")
    elif open_calls:
        raise UnpairedCalls(f"the calls {open_calls} have no results yet")
