"""The events of a stream. A field that is not set is left out: clients refuse null."""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handspan.core.values import Json, JsonObject

_encode: Final = msgspec.json.Encoder().encode


class TokenUsage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one model used in a run."""

    model: str
    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    total_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    cached_input_tokens: int | UnsetType = UNSET
    cache_write_input_tokens: int | UnsetType = UNSET


class Interrupt(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a run waits for: the answer of a person."""

    id: str
    reason: str
    message: str
    tool_call_id: str | UnsetType = UNSET
    response_schema: JsonObject | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    metadata: JsonObject | UnsetType = UNSET


class SuccessOutcome(Struct, frozen=True, rename="camel", omit_defaults=True, tag="success"):
    """The run is complete."""

    pending_tool_call_ids: list[str] | UnsetType = UNSET
    """The calls that the client has to run; unset: none, or the client does not know the field."""


class InterruptOutcome(Struct, frozen=True, tag="interrupt"):
    """The run waits for a person."""

    interrupts: list[Interrupt]


class CancelledOutcome(Struct, frozen=True, tag="cancelled"):
    """The run was stopped."""


Outcome: TypeAlias = SuccessOutcome | InterruptOutcome | CancelledOutcome


class AguiEvent(Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type"):
    """An event of a stream."""

    def encode(self) -> bytes:
        """Return the event as server-sent event, without the empty line after it."""
        return b"data: %b\n" % _encode(self)


class RunStarted(AguiEvent, frozen=True, tag="RUN_STARTED"):
    """The run has begun."""

    thread_id: str
    run_id: str
    protocol_version: str


class RunFinished(AguiEvent, frozen=True, tag="RUN_FINISHED"):
    """The run is over, or waits."""

    thread_id: str
    run_id: str
    outcome: Outcome | UnsetType = UNSET
    usage: list[TokenUsage] | UnsetType = UNSET


class RunError(AguiEvent, frozen=True, tag="RUN_ERROR"):
    """The run has failed."""

    message: str
    code: str
    usage: list[TokenUsage] | UnsetType = UNSET


class TextStart(AguiEvent, frozen=True, tag="TEXT_MESSAGE_START"):
    """A text of the agent begins, or goes on."""

    message_id: str
    role: str


class TextContent(AguiEvent, frozen=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of the text."""

    message_id: str
    delta: str


class TextEnd(AguiEvent, frozen=True, tag="TEXT_MESSAGE_END"):
    """The text ends."""

    message_id: str


class ReasoningStart(AguiEvent, frozen=True, tag="REASONING_START"):
    """The model begins to show its thinking."""

    message_id: str


class ReasoningMessageStart(AguiEvent, frozen=True, tag="REASONING_MESSAGE_START"):
    """A text of the thinking begins."""

    message_id: str
    role: str


class ReasoningContent(AguiEvent, frozen=True, tag="REASONING_MESSAGE_CONTENT"):
    """More of the thinking."""

    message_id: str
    delta: str


class ReasoningMessageEnd(AguiEvent, frozen=True, tag="REASONING_MESSAGE_END"):
    """A text of the thinking ends."""

    message_id: str


class ReasoningEnd(AguiEvent, frozen=True, tag="REASONING_END"):
    """The thinking ends."""

    message_id: str


class CallStart(AguiEvent, frozen=True, tag="TOOL_CALL_START"):
    """A call begins."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class CallArgs(AguiEvent, frozen=True, tag="TOOL_CALL_ARGS"):
    """The arguments of the call."""

    tool_call_id: str
    delta: str


class CallEnd(AguiEvent, frozen=True, tag="TOOL_CALL_END"):
    """The arguments of the call are complete."""

    tool_call_id: str


class CallOutcome(AguiEvent, frozen=True, tag="TOOL_CALL_RESULT"):
    """The result of a call: who gets it does not run the call."""

    message_id: str
    tool_call_id: str
    content: str
    role: Literal["tool"] | UnsetType = UNSET


class Snapshot(AguiEvent, frozen=True, tag="MESSAGES_SNAPSHOT"):
    """All messages of the conversation."""

    messages: list[JsonObject]


class Custom(AguiEvent, frozen=True, tag="CUSTOM"):
    """What the protocol has no word for."""

    name: str
    value: Json
