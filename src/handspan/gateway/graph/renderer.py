"""Renders conversations as messages and blocks of the graph API, with their ids (graph.md 2)."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.calls import CallRecord
from handspan.core.messages import AssistantMessage, CallPart, CallResult, Media, Text, Thinking, Usage, UserMessage
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject, strip_all, strip_invisible
from handspan.gateway.runs.asked import arguments_of
from handspan.wire.graph import blocks
from handspan.wire.graph.answers import FunctionView, GraphCallView, GraphMessage, Usages
from handspan.wire.ws import arguments_object


class _Envelope(Struct):
    status: str
    result: Json = None
    code: str = ""
    message: str = ""


_read_envelope: Final = msgspec.json.Decoder(_Envelope).decode


class MessageNumbers(Struct, frozen=True):
    """The numbers of a thread's messages. A number stays when messages before it are removed."""

    known: Sequence[int] = ()
    """The numbers of the first messages, where they differ from the places."""
    removed: int = 0
    """How many messages were removed."""

    def of(self, seq: int) -> int:
        """Return the number of the message at this place, which may be one that is not there yet."""
        return self.known[seq - 1] if seq <= len(self.known) else seq + self.removed


class MessageRenderer:
    """Renders the messages of one thread. `names`: the client's own names of its tools, by the model's names."""

    def __init__(self, thread: str, names: Mapping[str, str] | None = None) -> None:
        self.thread = thread
        self.names: Mapping[str, str] = names or {}

    def id(self, number: int, place: int | None = None) -> str:
        """Return the id of a message: its number in the thread, and for a result its place in the round."""
        return f"{self.thread}:{number}" if place is None else f"{self.thread}:{number}.{place}"

    def user_message(self, number: int, message: UserMessage, at: float) -> GraphMessage:
        """Return a message of a person."""
        content = [
            blocks.TextBlock(part.text) if isinstance(part, Text) else _medium(part.attachment)
            for part in message.parts
        ]
        return GraphMessage(message_id=self.id(number), role="user", content=content, timestamp=at)

    def reply(self, number: int, message: AssistantMessage, at: float) -> GraphMessage:
        """Return a reply of the model, with its calls."""
        content: list[blocks.Block] = []
        for part in message.parts:
            if isinstance(part, Text):
                content.append(blocks.TextBlock(part.text))
            elif isinstance(part, Thinking):
                content.append(blocks.ReasoningBlock(part.text))
            elif isinstance(part, CallPart):
                content.append(
                    blocks.ToolCallBlock(part.id, self.own_name(part.name), arguments_object(part.arguments))
                )
            elif isinstance(part, Media):
                content.append(_medium(part.attachment))
        return GraphMessage(
            message_id=self.id(number),
            role="assistant",
            content=content,
            tools_calls=[self._call(call) for call in message.calls] or None,
            reasoning="".join(part.text for part in message.parts if isinstance(part, Thinking)) or None,
            timestamp=at,
            usages=_usages(message.usage),
        )

    def result(self, number: int, place: int, call: CallPart, result: CallResult, at: float) -> GraphMessage:
        """Return the result of a call, with its attachments."""
        message = self.outcome(number, place, call, result.envelope, at=at)
        return msgspec.structs.replace(message, content=[*message.content, *map(_medium, result.attachments)])

    def outcome(self, number: int, place: int, call: CallPart, envelope: str, at: float) -> GraphMessage:
        """Return the result of a call, from its envelope alone."""
        block = _outcome(call.id, envelope)
        metadata: JsonObject = {
            "function_name": self.own_name(call.name),
            "function_argument": arguments_object(call.arguments),
            "tool_call_id": call.id,
        }
        return GraphMessage(
            message_id=self.id(number, place), role="tool", content=[block], metadata=metadata, timestamp=at
        )

    def open_call(self, number: int, place: int, call: CallRecord, at: float) -> GraphMessage:
        """Return a call that waits for the client (graph.md 4.5), with the changes of hooks and persons (5.7)."""
        block = blocks.RemoteToolCallBlock(call.id, self.own_name(call.name), arguments_of(call))
        return GraphMessage(
            message_id=self.id(number, place), role="tool", content=[block], metadata={"is_remote": True}, timestamp=at
        )

    def delta(self, number: int, text: str, at: float, *, thinking: bool = False) -> GraphMessage:
        """Return the next piece of a reply (graph.md 7.3)."""
        block: blocks.Block = blocks.ReasoningBlock(text) if thinking else blocks.TextBlock(text)
        return GraphMessage(message_id=self.id(number), role="assistant", content=[block], delta=True, timestamp=at)

    def own_name(self, name: str) -> str:
        """Return the client's own name of a tool."""
        return self.names.get(name, name)

    def _call(self, call: CallPart) -> GraphCallView:
        return GraphCallView(call.id, FunctionView(self.own_name(call.name), call.arguments or "{}"))


def _outcome(call_id: str, envelope: str) -> blocks.ToolResultBlock:
    read = _read_envelope(envelope)
    if read.status == "success":
        return blocks.ToolResultBlock(call_id, strip_all(read.result), status="completed")
    error: JsonObject = {"error": strip_invisible(read.message), "code": read.code}
    return blocks.ToolResultBlock(call_id, error, is_error=True, status="failed")


def _medium(attachment: Attachment) -> blocks.ImageBlock | blocks.AudioBlock | blocks.DocumentBlock:
    """Return the block of an attachment: its bytes, or the id of its artifact."""
    name, kind = attachment.name or None, attachment.media_type
    if attachment.artifact is not None:
        media = blocks.MediaLocation("file_id", file_id=attachment.artifact.id, mime_type=kind, filename=name)
    else:
        media = blocks.MediaLocation(
            "data", data_base64=b64encode(attachment.data).decode(), mime_type=kind, filename=name
        )
    match attachment.kind:
        case "image":
            return blocks.ImageBlock(media)
        case "audio":
            return blocks.AudioBlock(media)
        case "file":
            return blocks.DocumentBlock(media)


def _usages(usage: Usage | None) -> Usages | None:
    """Return the counted tokens as the graph API names them."""
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
