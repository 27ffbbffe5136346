"""Our messages as content blocks of the Anthropic Messages API.

What the model sent goes back as it came (`Native`), except for three rules of the API: each `tool_use` has its result
and a unique id, no block is blank, and no message ends with thinking.
"""

import hashlib
import re
from base64 import b64encode
from collections import deque
from typing import Final

from handspan.core.images import ImageLimits
from handspan.core.messages import AssistantMessage, CallPart, Media, ResultsMessage, Text, UserMessage
from handspan.core.names import outside_name
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_objects, parse_json

_ID_OR_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""The ids and names of calls that the API takes."""
_THINKING: Final = ("thinking", "redacted_thinking")
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_LARGEST_IMAGE: Final = 5 * 1024 * 1024
"""Bytes in base64. A larger image makes the API refuse this request and every later one of the conversation."""
IMAGES: Final = ImageLimits(
    frozenset(("image/png", "image/jpeg", "image/gif", "image/webp")), _LARGEST_IMAGE // 4 * 3, 20_000_000
)
_LARGEST_PDF: Final = 24 * 1024 * 1024
"""Bytes in base64; a whole request may have 32 MB."""
_LONGEST_TITLE: Final = 200


def user_blocks(message: UserMessage) -> list[JsonObject]:
    """Return the blocks of a person's message, at least one: the API refuses a message without content."""
    blocks = [_media(part.attachment) if type(part) is Media else _text(part.text) for part in message.parts]
    return [block for block in blocks if not _is_blank(block)] or [_text("(an empty message)")]


def wire_ids(message: AssistantMessage) -> dict[str, str]:
    """Return the ids that this API gave to the calls, by our ids. An id that the API would refuse is left out.

    Ids of other APIs are not used: many servers count anew in each answer, and this API wants different ids in all of a
    conversation.
    """
    if message.native is None or message.native.api != "anthropic":
        return {}
    first = {call.wire_id: call.id for call in reversed(message.calls)}
    return {call_id: wire_id for wire_id, call_id in first.items() if _ID_OR_NAME.fullmatch(wire_id)}


def result_blocks(message: ResultsMessage, ids: dict[str, str]) -> list[JsonObject]:
    """Return the results of a turn side by side, followed by the media that can't stand inside a result.

    `ids` are the calls' ids on the wire, by our ids. A call that is not among them keeps our id.
    """
    results: list[JsonObject] = []
    after: list[JsonObject] = []
    for result in message.results:
        media = [_media(attachment) for attachment in result.attachments]
        if result.is_error:  # the API takes only text inside an error
            after += media
            media = []
        words = [_text(result.envelope)] if result.envelope.strip() else []
        content: Json = [*words, *media] if media else result.envelope
        block: JsonObject = {"type": "tool_result", "tool_use_id": _wire_id(result.call_id, ids)}
        results.append({**block, "is_error": result.is_error, "content": content})
    return results + after


def assistant_blocks(message: AssistantMessage, ids: dict[str, str], model: str = "") -> list[JsonObject]:
    """Return what the model said: verbatim if this API sent it, else made from the parts and without thinking.

    The list is empty when nothing of the message can be sent. The `tool_use` blocks are exactly the message's calls.
    With a `model`, thinking of another model is left out.
    """
    native = message.native
    if native is None or native.api != "anthropic" or not isinstance(native.content, list):
        return _blocks_from_parts(message, ids)
    calls = deque(message.calls)
    unwanted = _THINKING if model and native.model != model else ()
    kept: list[JsonObject] = []
    for block in json_objects(native.content):
        if block.get("type") == "tool_use":
            if calls and calls[0].wire_id == (block.get("id") or ""):  # a call that was cut off is left out
                kept.append(_native_call(block, calls.popleft(), ids))
        elif not _is_blank(block) and block.get("type") not in unwanted:
            kept.append(block)
    return _blocks_from_parts(message, ids) if calls else _drop_loose_end(kept, paused=message.stop == "other")


def _native_call(block: JsonObject, call: CallPart, ids: dict[str, str]) -> JsonObject:
    """Return the call's block as it came, with a valid id, name and input."""
    arguments = block.get("input")
    return {
        **block,
        "id": _wire_id(call.id, ids),
        "name": _wire_name(str(block.get("name") or call.name)),
        "input": arguments if isinstance(arguments, dict) else parse_arguments(call.arguments),
    }


def _drop_loose_end(blocks: list[JsonObject], *, paused: bool) -> list[JsonObject]:
    """Return the blocks without an end that the API refuses: thinking, or a server tool without its result.

    After `pause_turn` the server tool has to stay, because the server goes on from there.
    """
    loose = _THINKING if paused else (*_THINKING, *_SERVER_CALLS)
    while blocks and blocks[-1].get("type") in loose:
        blocks.pop()
    return blocks


def _blocks_from_parts(message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
    """Return the parts as blocks, the calls last: for a message of another API, or one that was aborted."""
    said: list[JsonObject] = []
    for part in message.parts:
        if type(part) is Text:
            said.append(_text(part.text))
        elif type(part) is Media:  # in this API an assistant's message can't hold media
            said.append(_describe(part.attachment, "made earlier in this conversation"))
    calls = [_native_call({"type": "tool_use"}, call, ids) for call in message.calls]
    return [block for block in said if not _is_blank(block)] + calls


def parse_arguments(arguments: str) -> JsonObject:
    """Return a call's arguments as an object, which the API wants. Broken arguments are shown to the model as text."""
    if not arguments.strip():
        return {}
    value = parse_json(arguments)
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}


def _wire_id(call_id: str, ids: dict[str, str]) -> str:
    """Return the id of a call on the wire: the model's own, else ours in a form that this API takes."""
    if call_id in ids:
        return ids[call_id]
    if _ID_OR_NAME.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _wire_name(name: str) -> str:
    return name if _ID_OR_NAME.fullmatch(name) else outside_name(name)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _is_blank(block: JsonObject) -> bool:
    """Return whether this is a text block without text, which the API refuses."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _media(item: Attachment) -> JsonObject:
    """Return the attachment as an image or a document, or a description where the API can't take it."""
    if not item.data:
        return _describe(item, f"kept as artifact {item.artifact.id!r}" if item.artifact else "empty")
    if item.media_type.startswith("image/"):
        return _image(item)
    if item.media_type == "application/pdf":
        return _pdf(item)
    if item.media_type.startswith("text/") or item.media_type == "application/json":
        text = item.data.decode("utf-8", "replace")
        source: JsonObject = {"type": "text", "media_type": "text/plain", "data": text}
        return _document(item, source) if text.strip() else _describe(item, "empty")
    return _describe(item, "not shown: this model API does not take such files")


def _image(item: Attachment) -> JsonObject:
    media_type = _detect_image_type(item)
    if media_type not in IMAGES.media_types:
        return _describe(item, "not shown: this model API takes only png, jpeg, gif and webp")
    source = b64encode(item.data).decode()
    if len(source) > _LARGEST_IMAGE:
        return _describe(item, "not shown: it is too large for this model API")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": source}}


def _detect_image_type(item: Attachment) -> str:
    """Return the type that the bytes show: the API refuses an image whose declared type differs."""
    head = item.data[:12]
    for start, media_type in ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif")):
        if head.startswith(start):
            return media_type
    return "image/webp" if head[:4] == b"RIFF" and head[8:] == b"WEBP" else item.media_type


def _pdf(item: Attachment) -> JsonObject:
    source = b64encode(item.data).decode()
    if len(source) > _LARGEST_PDF:
        return _describe(item, "not shown: it is too large for this model API")
    return _document(item, {"type": "base64", "media_type": "application/pdf", "data": source})


def _document(item: Attachment, source: JsonObject) -> JsonObject:
    title: JsonObject = {"title": item.name[:_LONGEST_TITLE]} if item.name.strip() else {}
    return {"type": "document", "source": source, **title}


def _describe(item: Attachment, how: str) -> JsonObject:
    name = f" {item.name!r}" if item.name else ""
    size = item.artifact.size if item.artifact else len(item.data)
    return _text(f"[{item.kind}{name}, {item.media_type}, {size} bytes, {how}]")
