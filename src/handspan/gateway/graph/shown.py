"""Conversations in the words of http.md 2: messages, blocks, and the ids by which a client finds them again."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    ResultsMessage,
    Text,
    Thinking,
    Usage,
    UserMessage,
)
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject
from handspan.wire.graph_answers import CallShown, FunctionShown, GraphMessage, Usages
from handspan.wire.graph_blocks import (
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    RemoteToolCallBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from handspan.wire.graph_blocks import Media as MediaBlock
from handspan.wire.ws import as_object

_KEPT_AT: Final = 0.0
"""The time of a message whose time nobody noted."""


class _Envelope(Struct):
    status: str
    result: Json = None
    code: str = ""
    message: str = ""


_read_envelope: Final = msgspec.json.Decoder(_Envelope).decode


class Shower:
    """Shows the messages of one thread. `names` has the client's own names for its tools."""

    def __init__(self, thread: str, names: Mapping[str, str] | None = None) -> None:
        self.thread = thread
        self.names: Mapping[str, str] = names or {}

    def id(self, seq: int, place: int | None = None) -> str:
        """How a message is called: by its place in the thread, and for a result by its own place in the round."""
        return f"{self.thread}:{seq}" if place is None else f"{self.thread}:{seq}.{place}"

    def all(self, messages: Sequence[Message], times: Sequence[float] = ()) -> Iterator[GraphMessage]:
        """The whole conversation."""
        calls: tuple[CallPart, ...] = ()
        for seq, message in enumerate(messages, 1):
            at = times[seq - 1] if seq <= len(times) else _KEPT_AT
            if type(message) is UserMessage:
                yield self.said(seq, message, at)
            elif type(message) is AssistantMessage:
                calls = message.calls
                yield self.replied(seq, message, at)
            elif type(message) is ResultsMessage:
                for place, (call, result) in enumerate(zip(calls, message.results, strict=False)):
                    yield self.result(seq, place, call, result, at)

    def said(self, seq: int, message: UserMessage, at: float) -> GraphMessage:
        """What a person said."""
        content = [TextBlock(part.text) if type(part) is Text else _medium(part.attachment) for part in message.parts]
        return GraphMessage(message_id=self.id(seq), role="user", content=content, timestamp=at)

    def replied(self, seq: int, message: AssistantMessage, at: float) -> GraphMessage:
        """What the model said and asked for."""
        content: list[Block] = []
        for part in message.parts:
            if type(part) is Text:
                content.append(TextBlock(part.text))
            elif type(part) is Thinking:
                content.append(ReasoningBlock(part.text))
            elif type(part) is CallPart:
                content.append(ToolCallBlock(part.id, self.name(part), as_object(part.arguments)))
            elif type(part) is Media:
                content.append(_medium(part.attachment))
        return GraphMessage(
            message_id=self.id(seq),
            role="assistant",
            content=content,
            tools_calls=[self._call(call) for call in message.calls] or None,
            reasoning="".join(part.text for part in message.parts if type(part) is Thinking) or None,
            timestamp=at,
            usages=_usages(message.usage),
        )

    def result(self, seq: int, place: int, call: CallPart, result: CallResult, at: float) -> GraphMessage:
        """What came of a call."""
        message = self.outcome(seq, place, call, result.envelope, at)
        return msgspec.structs.replace(message, content=[*message.content, *map(_medium, result.attachments)])

    def outcome(self, seq: int, place: int, call: CallPart, envelope: str, at: float) -> GraphMessage:
        """The same, of the envelope alone."""
        block = _outcome(call.id, envelope)
        known: JsonObject = {
            "function_name": self.name(call),
            "function_argument": as_object(call.arguments),
            "tool_call_id": call.id,
        }
        return GraphMessage(message_id=self.id(seq, place), role="tool", content=[block], metadata=known, timestamp=at)

    def asked(self, seq: int, place: int, call: CallPart, at: float) -> GraphMessage:
        """A call that waits for the client (http.md 4.5)."""
        block = RemoteToolCallBlock(call.id, self.name(call), as_object(call.arguments))
        return GraphMessage(
            message_id=self.id(seq, place), role="tool", content=[block], metadata={"is_remote": True}, timestamp=at
        )

    def delta(self, seq: int, text: str, at: float, *, thinking: bool = False) -> GraphMessage:
        """More of what the model says (http.md 7.3)."""
        block: Block = ReasoningBlock(text) if thinking else TextBlock(text)
        return GraphMessage(message_id=self.id(seq), role="assistant", content=[block], delta=True, timestamp=at)

    def name(self, call: CallPart) -> str:
        """What the client calls the tool."""
        return self.names.get(call.name, call.name)

    def _call(self, call: CallPart) -> CallShown:
        return CallShown(call.id, FunctionShown(self.name(call), call.arguments or "{}"))


def _outcome(call_id: str, envelope: str) -> ToolResultBlock:
    read = _read_envelope(envelope)
    if read.status == "success":
        return ToolResultBlock(call_id, read.result, status="completed")
    return ToolResultBlock(call_id, {"error": read.message, "code": read.code}, is_error=True, status="failed")


def _medium(attachment: Attachment) -> ImageBlock | AudioBlock | DocumentBlock:
    name, kind = attachment.name or None, attachment.media_type
    if attachment.artifact is not None:
        media = MediaBlock("file_id", file_id=attachment.artifact.id, mime_type=kind, filename=name)
    else:
        media = MediaBlock("data", data_base64=b64encode(attachment.data).decode(), mime_type=kind, filename=name)
    match attachment.kind:
        case "image":
            return ImageBlock(media)
        case "audio":
            return AudioBlock(media)
        case "file":
            return DocumentBlock(media)


def _usages(usage: Usage | None) -> Usages | None:
    if usage is None:
        return None
    known = usage.input is not None and usage.output is not None
    return Usages(
        completion_tokens=usage.output,
        prompt_tokens=usage.input,
        total_tokens=(usage.input or 0) + (usage.output or 0) if known else None,
        reasoning_tokens=usage.reasoning,
        cache_read_input_tokens=usage.cached,
    )
