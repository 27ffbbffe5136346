"""The UI message stream (version 1) of Vercel's AI SDK: the request of its `DefaultChatTransport`, and the chunks.

A field that a chunk does not need is left out: the client refuses null where a field is optional.
"""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handspan.core.errors import WireError
from handspan.core.values import Json, JsonObject

HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1", "cache-control": "no-cache, no-transform"}
LAST_LINE: Final = b"data: [DONE]\n"
FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]
Trigger: TypeAlias = Literal["submit-message", "regenerate-message"]

_STATIC: Final = "tool-"
"""A part of a tool that the client knows has its name in the type: `tool-NAME`."""


# The request. A null is as good as a missing field; other fields are ignored.


class GivenApproval(Struct, frozen=True):
    """The person's answer to an approval request."""

    id: str
    approved: bool | None = None
    reason: str | None = None


class UiPart(Struct, frozen=True):
    """A part of a message. Which fields count depends on the type."""

    type: str
    text: str | None = None
    state: str | None = None
    mediaType: str | None = None
    url: str | None = None
    filename: str | None = None
    toolCallId: str | None = None
    toolName: str | None = None
    input: Json | UnsetType = UNSET
    output: Json = None
    errorText: str | None = None
    preliminary: bool | None = None
    providerExecuted: bool | None = None
    approval: GivenApproval | None = None

    @property
    def tool(self) -> str:
        """The name of the tool; empty if the part is of no tool."""
        if self.type == "dynamic-tool":
            return self.toolName or ""
        return self.type.removeprefix(_STATIC) if self.type.startswith(_STATIC) else ""


class UiMessage(Struct, frozen=True):
    """One message."""

    role: Literal["system", "user", "assistant"]
    id: str = ""
    parts: list[UiPart] = []


class UiTool(Struct, frozen=True):
    """A tool that the client offers. `parameters` is another name of `inputSchema`."""

    name: str = ""
    description: str | None = None
    inputSchema: JsonObject | None = None
    parameters: JsonObject | None = None
    annotations: JsonObject | None = None
    """What the tool does, such as `read_only`: the AI SDK has no words for that."""


class UiBody(Struct, frozen=True):
    """The body of a request."""

    id: str
    """The client's name of the chat."""
    messages: list[UiMessage] | None = None
    message: UiMessage | None = None
    """The last message alone, from a client that sends only what is new."""
    trigger: Trigger = "submit-message"
    messageId: str | None = None
    tools: list[UiTool] | dict[str, UiTool] | None = None
    system: str | None = None


def read_ui_body(value: Json) -> UiBody:
    """Return the body of a request. Raises `WireError`, which names the place."""
    try:
        body = msgspec.convert(value, UiBody)
    except msgspec.ValidationError as error:
        raise WireError(f"The body can't be used. {error}") from None
    if body.messages is None and body.message is None:
        raise WireError("The body has no messages: send `messages`, or the last one as `message`.")
    return body


# The chunks.


class StartChunk(Struct, frozen=True, tag="start", omit_defaults=True):
    """A message begins. Without an id the client goes on with its last one."""

    messageId: str | UnsetType = UNSET


class StartStepChunk(Struct, frozen=True, tag="start-step"):
    """A round begins."""


class FinishStepChunk(Struct, frozen=True, tag="finish-step"):
    """A round is over."""


class ResetStepChunk(Struct, frozen=True, tag="reset-step"):
    """What was told of this round does not count: it is told anew."""


class TextStartChunk(Struct, frozen=True, tag="text-start"):
    """A text begins."""

    id: str


class TextDeltaChunk(Struct, frozen=True, tag="text-delta"):
    """More of a text."""

    id: str
    delta: str


class TextEndChunk(Struct, frozen=True, tag="text-end"):
    """A text is over."""

    id: str


class ReasoningStartChunk(Struct, frozen=True, tag="reasoning-start"):
    """Thinking begins."""

    id: str


class ReasoningDeltaChunk(Struct, frozen=True, tag="reasoning-delta"):
    """More of the thinking."""

    id: str
    delta: str


class ReasoningEndChunk(Struct, frozen=True, tag="reasoning-end"):
    """Thinking is over."""

    id: str


class ToolInputStartChunk(Struct, frozen=True, tag="tool-input-start"):
    """A call begins to be shown. No client runs it yet."""

    toolCallId: str
    toolName: str
    providerExecuted: bool | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET


class ToolInputDeltaChunk(Struct, frozen=True, tag="tool-input-delta"):
    """More of its arguments, as JSON."""

    toolCallId: str
    inputTextDelta: str


class ToolInputChunk(Struct, frozen=True, tag="tool-input-available"):
    """A call. With `providerExecuted` no client runs it."""

    toolCallId: str
    toolName: str
    input: Json
    providerExecuted: bool | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    """Whether the client has no types for this tool."""


class ApprovalChunk(Struct, frozen=True, tag="tool-approval-request"):
    """A person is asked whether a call may run."""

    approvalId: str
    toolCallId: str
    reason: str


class ToolOutputChunk(Struct, frozen=True, tag="tool-output-available"):
    """The result of a call."""

    toolCallId: str
    output: Json
    providerExecuted: bool | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    preliminary: bool | UnsetType = UNSET
    """Whether the tool still runs, and this is what it reports so far."""


class ToolErrorChunk(Struct, frozen=True, tag="tool-output-error"):
    """A call has failed."""

    toolCallId: str
    errorText: str
    providerExecuted: bool | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET


class ToolDeniedChunk(Struct, frozen=True, tag="tool-output-denied"):
    """A person has said no to a call."""

    toolCallId: str


class FileChunk(Struct, frozen=True, tag="file"):
    """A file."""

    url: str
    mediaType: str


class UiUsage(Struct, frozen=True, omit_defaults=True):
    """Tokens, in the AI SDK's words."""

    inputTokens: int
    outputTokens: int
    totalTokens: int
    cachedInputTokens: int = 0
    reasoningTokens: int = 0


class MessageMetadata(Struct, frozen=True, omit_defaults=True):
    """What is known of the message at its end."""

    model: str | UnsetType = UNSET
    usage: UiUsage | UnsetType = UNSET
    cost: float | UnsetType = UNSET
    """US dollars."""


class FinishChunk(Struct, frozen=True, tag="finish", omit_defaults=True):
    """The message is over for now."""

    finishReason: FinishReason
    messageMetadata: MessageMetadata | UnsetType = UNSET


class StoppedChunk(Struct, frozen=True, tag="abort"):
    """The run was stopped."""


class FailedChunk(Struct, frozen=True, tag="error"):
    """The run has failed."""

    errorText: str


UiChunk: TypeAlias = (
    StartChunk
    | StartStepChunk
    | FinishStepChunk
    | ResetStepChunk
    | TextStartChunk
    | TextDeltaChunk
    | TextEndChunk
    | ReasoningStartChunk
    | ReasoningDeltaChunk
    | ReasoningEndChunk
    | ToolInputStartChunk
    | ToolInputDeltaChunk
    | ToolInputChunk
    | ApprovalChunk
    | ToolOutputChunk
    | ToolErrorChunk
    | ToolDeniedChunk
    | FileChunk
    | FinishChunk
    | StoppedChunk
    | FailedChunk
)

_encode: Final = msgspec.json.Encoder().encode


def render_chunk(chunk: UiChunk) -> bytes:
    """Return a chunk as an event of the stream, without the empty line after it."""
    return b"data: %b\n" % _encode(chunk)
