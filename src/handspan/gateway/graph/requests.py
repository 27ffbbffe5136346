"""What a request brings, in the gateway's own types: messages of a person, and results of calls (graph.md 2.4, 5)."""

import binascii
import time
from base64 import b64decode
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct, UnsetType

from handspan.core.artifacts import Artifacts
from handspan.core.calls import CallRecord
from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Media, Part, Text, Thinking, UserMessage
from handspan.core.results import Attachment, AttachmentKind, Failure, Success, ToolResult
from handspan.core.store import Journal
from handspan.core.values import Json, strip_invisible
from handspan.gateway.http.refusals import Refusal
from handspan.sources.ws.outcome import attachment, code_of_client
from handspan.wire.graph.blocks import (
    AudioBlock,
    Block,
    DataBlock,
    DocumentBlock,
    ImageBlock,
    MediaLocation,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    VideoBlock,
)
from handspan.wire.graph.faults import MAX_DETAILS, BodyError, Detail
from handspan.wire.graph.requests import AddedMessage, RequestMessage, RunRequest

_PLACE: Final = ["body", "messages"]


async def read_user_message(blocks: Sequence[Block], artifacts: Artifacts, owner: str) -> UserMessage:
    """Return the message that a person's blocks make. Raises `BodyError` when one of its media can't be read."""
    parts = [part for block in blocks for part in await _parts(block, artifacts, owner)]
    if not parts:
        raise _wrong("There is nothing in it: send at least one block with words or a medium.")
    return UserMessage(tuple(parts))


async def read_added_message(added: AddedMessage, artifacts: Artifacts, owner: str) -> UserMessage | AssistantMessage:
    """Return a message that a client puts into a thread. Raises `BodyError` when one of its media can't be read."""
    if added.role == "user":
        return await read_user_message(added.content, artifacts, owner)
    parts: list[Part] = []
    for block in added.content:
        if isinstance(block, ReasoningBlock):
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
        content = [TextBlock("System:"), *message.content] if message.role == "system" else message.content
        read = await read_added_message(AddedMessage(role, content), artifacts, owner)
        before = history[-1] if history else None
        if isinstance(read, AssistantMessage) and isinstance(before, AssistantMessage):
            history[-1] = AssistantMessage((*before.parts, *read.parts))
        else:
            history.append(read)
    return history


async def _parts(block: Block, artifacts: Artifacts, owner: str) -> list[Text | Media]:
    match block:
        case TextBlock(text=text):
            return [Text(text)]
        case ImageBlock(media=media):
            return [await _medium("image", media, artifacts, owner)]
        case AudioBlock(media=media):
            return [await _medium("audio", media, artifacts, owner)]
        case VideoBlock(media=media):
            return [await _medium("file", media, artifacts, owner)]
        case DocumentBlock(media=document, text=words):
            parts: list[Text | Media] = [Text(words)] if words else []
            return parts if document is None else [*parts, await _medium("file", document, artifacts, owner)]
        case DataBlock(mime_type=kind, data_base64=data, media=attached):
            medium = attached or MediaLocation("data", data_base64=data, mime_type=kind)
            return [await _medium("file", medium, artifacts, owner)]
        case _:
            return []


async def _medium(kind: AttachmentKind, media: MediaLocation, artifacts: Artifacts, owner: str) -> Text | Media:
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


class AnsweredCall(Struct, frozen=True):
    """An open call, and the outcome that its client reports."""

    record: CallRecord
    outcome: ToolResult


class ResultReader:
    """Finds the calls that the results of a request answer. One wrong result refuses the whole request."""

    def __init__(self, journal: Journal, artifacts: Artifacts) -> None:
        self._journal = journal
        self._artifacts = artifacts

    async def read(self, run_request: RunRequest, *, owner: str, client: str) -> tuple[str, list[AnsweredCall]]:
        """Return the thread of the run, and its calls with their outcomes. Raises `Refusal` for a wrong result."""
        faults: list[tuple[str, Detail]] = []
        answered: list[AnsweredCall] = []
        seen: set[str] = set()
        for place, block in zip(run_request.result_places, run_request.results, strict=True):
            record = await self._journal.find(block.call_id)
            why = _refusal(record, block.call_id, seen, owner, client)
            seen.add(block.call_id)
            if why is not None or record is None:
                code, text = why or ("GRAPH_UNKNOWN_CALL", "")
                faults.append((code, Detail([*place, "call_id"], text, "value_error")))
                if len(faults) == MAX_DETAILS:  # an answer names no more than that
                    break
                continue
            answered.append(AnsweredCall(record, await self._outcome(block, record.name, owner)))
        if faults:
            code, first = faults[0]
            raise Refusal(422, code, first.msg, details=[detail for _, detail in faults])
        return _one_thread(answered, run_request.config.thread_id), answered

    async def read_repeated(self, run_request: RunRequest, *, owner: str, client: str) -> tuple[str, CallRecord] | None:
        """Return the thread of a run, and one of its calls, if each of these results was taken before; None otherwise.

        A client repeats results whose answer it did not get.
        """
        records = [await self._journal.find(block.call_id) for block in run_request.results]
        taken = [record for record in records if record is not None and _was_taken(record, owner, client)]
        if len(taken) < len(records) or len({record.session for record in taken}) != 1:
            return None
        return taken[0].session, taken[0]

    async def _outcome(self, block: ToolResultBlock, name: str, owner: str) -> ToolResult:
        """Return the result that this block brings. A part that can't be read makes it a failure."""
        if block.is_failure:
            return _failure(block.output, name)
        try:
            return Success(
                block.output, tuple([await attachment(part, self._artifacts, owner) for part in block.parts])
            )
        except ToolError as error:
            return Failure(error.code, error.message)


def _refusal(
    record: CallRecord | None, call_id: str, seen: set[str], owner: str, client: str
) -> tuple[str, str] | None:
    """Return why a result is refused: code and message. None: it is accepted."""
    quoted = repr(call_id[:80])
    if call_id in seen:
        return "GRAPH_ANSWERED_CALL", f"The call {quoted} is answered twice in this request: send one result for each."
    if record is None or record.owner != owner or not is_call_of(record, client):
        return (
            "GRAPH_UNKNOWN_CALL",
            f"No call {quoted} waits for a result of this client: send the ids of its open calls.",
        )
    if isinstance(record.result, UnsetType):
        return None
    if isinstance(record.result, Failure) and record.result.code == "timeout" and _is_late(record):
        return "GRAPH_EXPIRED_CALL", f"The call {quoted} has expired: its run waits no longer. Send a new request."
    if isinstance(record.result, Failure) and record.result.code == "cancelled":
        return "GRAPH_ANSWERED_CALL", f"The call {quoted} was given up: its run was stopped, or a new one begun."
    return "GRAPH_ANSWERED_CALL", f"The call {quoted} has its result: each call can be answered only once."


def _was_taken(record: CallRecord, owner: str, client: str) -> bool:
    """Whether this client has answered this call."""
    if record.owner != owner or not is_call_of(record, client) or isinstance(record.result, UnsetType):
        return False
    return not isinstance(record.result, Failure) or record.result.code not in ("timeout", "cancelled", "interrupted")


def is_call_of(record: CallRecord, client: str) -> bool:
    """Whether this call was sent to this client."""
    tool = record.tool
    return tool.answered_by == "request" and tool.origin is not None and tool.origin.name == client


def _is_late(record: CallRecord) -> bool:
    return record.expires_at is not None and record.expires_at <= time.time()


def _one_thread(answered: Sequence[AnsweredCall], wanted: str) -> str:
    """Return the thread of all these calls. Raises `Refusal` if they have several, or not the wanted one."""
    threads = {one.record.session for one in answered}
    if len(threads) > 1:
        text = "These calls belong to several runs: send the results of one run in one request."
        raise Refusal(422, "GRAPH_WRONG_THREAD", text)
    thread = next(iter(threads))
    if wanted and wanted != thread:
        text = f"These calls belong to another thread than {wanted[:80]!r}: leave thread_id out, or send theirs."
        raise Refusal(422, "GRAPH_WRONG_THREAD", text)
    return thread


def _failure(output: Json, name: str) -> Failure:
    error = output.get("error", output) if isinstance(output, dict) else output
    code = output.get("code") if isinstance(output, dict) else None
    text = error if isinstance(error, str) else "" if error is None else msgspec.json.encode(error).decode()
    return Failure(code_of_client(code), strip_invisible(text) or f"Tool {name!r} failed and did not say why.")
