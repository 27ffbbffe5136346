"""What a request brings, in the gateway's own types: messages of a person, and results of calls (graph.md 2.4, 5)."""

import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Media, Part, Text, Thinking, UserMessage
from handspan.core.results import Attachment, AttachmentKind, Failure, Success, ToolResult
from handspan.core.values import Json, strip_invisible
from handspan.gateway.runs.results import GivenResult
from handspan.sources.ws.outcome import attachment, code_of_client
from handspan.wire.graph import blocks
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.requests import AddedMessage, RequestMessage, RunRequest

_PLACE: Final = ["body", "messages"]


async def read_user_message(content: Sequence[blocks.Block], artifacts: Artifacts, owner: str) -> UserMessage:
    """Return the message that a person's blocks make. Raises `BodyError` when one of its media can't be read."""
    parts = [part for block in content for part in await _parts(block, artifacts, owner)]
    if not parts:
        raise _wrong("There is nothing in it: send at least one block with words or a medium.")
    return UserMessage(tuple(parts))


async def read_added_message(added: AddedMessage, artifacts: Artifacts, owner: str) -> UserMessage | AssistantMessage:
    """Return a message that a client puts into a thread. Raises `BodyError` when one of its media can't be read."""
    if added.role == "user":
        return await read_user_message(added.content, artifacts, owner)
    parts: list[Part] = []
    for block in added.content:
        if isinstance(block, blocks.ReasoningBlock):
            parts.append(Thinking(block.summary))
        else:
            parts += (await read_user_message([block], artifacts, owner)).parts
    return AssistantMessage(tuple(parts))


async def read_history(
    messages: Sequence[RequestMessage], artifacts: Artifacts, owner: str
) -> list[UserMessage | AssistantMessage]:
    """Return the messages with which a client begins a thread. Raises `BodyError` for media that can't be read.

    Instructions of the client become a message of the person that says so. Replies in a row become one reply.
    """
    history: list[UserMessage | AssistantMessage] = []
    for message in messages:
        role: Literal["user", "assistant"] = "assistant" if message.role == "assistant" else "user"
        content = [blocks.TextBlock("System:"), *message.content] if message.role == "system" else message.content
        read = await read_added_message(AddedMessage(role, content), artifacts, owner)
        before = history[-1] if history else None
        if isinstance(read, AssistantMessage) and isinstance(before, AssistantMessage):
            history[-1] = AssistantMessage((*before.parts, *read.parts))
        else:
            history.append(read)
    return history


async def _parts(block: blocks.Block, artifacts: Artifacts, owner: str) -> list[Text | Media]:
    """Return the parts of a message that this block stands for; none for a block that says nothing."""
    match block:
        case blocks.TextBlock(text=text):
            return [Text(text)]
        case blocks.ImageBlock(media=media):
            return [await _medium("image", media, artifacts, owner)]
        case blocks.AudioBlock(media=media):
            return [await _medium("audio", media, artifacts, owner)]
        case blocks.VideoBlock(media=media):
            return [await _medium("file", media, artifacts, owner)]
        case blocks.DocumentBlock(media=document, text=words):
            parts: list[Text | Media] = [Text(words)] if words else []
            return parts if document is None else [*parts, await _medium("file", document, artifacts, owner)]
        case blocks.DataBlock(mime_type=kind, data_base64=data, media=attached):
            medium = attached or blocks.MediaLocation("data", data_base64=data, mime_type=kind)
            return [await _medium("file", medium, artifacts, owner)]
        case _:
            return []


async def _medium(kind: AttachmentKind, media: blocks.MediaLocation, artifacts: Artifacts, owner: str) -> Text | Media:
    """Return an attachment of a message. Raises a `Refusal` for one without content."""
    name, media_type = media.filename or "", media.mime_type or ""
    if media.file_id:
        try:
            ref = await artifacts.get(media.file_id, owner=owner)
        except ToolError as error:
            raise _wrong(error.message) from None
        return Media(Attachment(kind, media_type or ref.media_type, artifact=ref, name=name or ref.name))
    if media.data_base64 is not None:
        try:
            data = b64decode(media.data_base64, validate=True)
        except (binascii.Error, ValueError):
            raise _wrong("A medium's data_base64 is not base64: encode its bytes so.") from None
        return Media(Attachment(kind, media_type or "application/octet-stream", data, name=name))
    if media.url:  # the gateway fetches nothing for a message: the model may, with a tool, under its rules
        return Text(f"[{kind} at {media.url}]")
    raise _wrong("A medium has neither file_id nor data_base64 nor url: send one of them.")


def _wrong(message: str) -> BodyError:
    return BodyError([Detail(_PLACE, message, "value_error")])


async def read_results(run_request: RunRequest, artifacts: Artifacts, owner: str) -> list[GivenResult]:
    """Return the results that a request brings. A part that can't be read makes its result a failure."""
    return [GivenResult(block.call_id, await _outcome(block, artifacts, owner)) for block in run_request.results]


async def _outcome(block: blocks.ToolResultBlock, artifacts: Artifacts, owner: str) -> ToolResult:
    if block.is_failure:
        return _failure(block.output)
    try:
        return Success(block.output, tuple([await attachment(part, artifacts, owner) for part in block.parts]))
    except ToolError as error:
        return Failure(error.code, error.message)


def _failure(output: Json) -> Failure:
    """Return what a client says of its failed call; without a message if it says nothing."""
    error = output.get("error", output) if isinstance(output, dict) else output
    code = output.get("code") if isinstance(output, dict) else None
    text = error if isinstance(error, str) else "" if error is None else msgspec.json.encode(error).decode()
    return Failure(code_of_client(code), strip_invisible(text))
