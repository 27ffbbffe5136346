"""Our messages as content blocks of the Anthropic Messages API.

What the model sent is sent back as it came (`Native`), but for what the API insists on: each `tool_use` has its
result and an id of its own, no block is blank, and no message ends with thinking.
"""

import hashlib
import re
from base64 import b64encode
from collections import deque
from typing import Final

import msgspec

from handspan.core.messages import AssistantMessage, CallPart, Media, ResultsMessage, Text, UserMessage
from handspan.core.names import outside_name
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject

_PLAIN: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""What the API takes as the id or the name of a call."""
_THINKING: Final = ("thinking", "redacted_thinking")
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LARGEST_IMAGE: Final = 5 * 1024 * 1024
"""In base64. A larger one makes the API refuse the whole request, and with it every later one."""
_LARGEST_PDF: Final = 24 * 1024 * 1024
"""In base64; a whole request may have 32 MB."""
_LONGEST_TITLE: Final = 200

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def user_blocks(message: UserMessage) -> list[JsonObject]:
    """What a person said. Never empty: the API refuses a message without content."""
    blocks = [_media(part.attachment) if type(part) is Media else _text(part.text) for part in message.parts]
    return [block for block in blocks if not _is_blank(block)] or [_text("(an empty message)")]


def wire_ids(message: AssistantMessage) -> dict[str, str]:
    """By our ids of the calls, those that this API gave them itself: where it did, and where it takes them again.

    Ids of other APIs stay there: many begin anew with each answer, and here all of a conversation have to differ.
    """
    if message.native is None or message.native.api != "anthropic":
        return {}
    first = {call.wire_id: call.id for call in reversed(message.calls)}
    return {call_id: wire_id for wire_id, call_id in first.items() if _PLAIN.fullmatch(wire_id)}


def result_blocks(message: ResultsMessage, ids: dict[str, str]) -> list[JsonObject]:
    """All results of a turn, first and with nothing between them; what can't stand inside a result comes after.

    `ids` are the calls' ids on the wire by ours; a call that is not among them goes by ours.
    """
    results: list[JsonObject] = []
    after: list[JsonObject] = []
    for result in message.results:
        media = [_media(attachment) for attachment in result.attachments]
        if result.is_error:  # inside an error the API takes nothing but text
            after += media
            media = []
        words = [_text(result.envelope)] if result.envelope.strip() else []
        content: Json = [*words, *media] if media else result.envelope
        block: JsonObject = {"type": "tool_result", "tool_use_id": _sent_id(result.call_id, ids)}
        results.append({**block, "is_error": result.is_error, "content": content})
    return results + after


def assistant_blocks(message: AssistantMessage, ids: dict[str, str], thinker: str = "") -> list[JsonObject]:
    """What the model said: verbatim where this API sent it, else in its words and without the thinking.

    Empty when nothing of it can be sent. The `tool_use` blocks are exactly the message's calls. Thinking is left out
    where it is of another model than the `thinker`, when that is given.
    """
    replayed = _replayed(message, ids, thinker)
    return _retold(message, ids) if replayed is None else replayed


def _replayed(message: AssistantMessage, ids: dict[str, str], thinker: str) -> list[JsonObject] | None:
    """The native blocks without the calls that were cut off; None when they are not this API's, or not whole."""
    native = message.native
    if native is None or native.api != "anthropic" or not isinstance(native.content, list):
        return None
    calls = deque(message.calls)
    unwanted = _THINKING if thinker and native.model != thinker else ()
    kept: list[JsonObject] = []
    for block in native.content:
        if not isinstance(block, dict):
            return None
        if block.get("type") == "tool_use":
            if calls and calls[0].wire_id == (block.get("id") or ""):
                kept.append(_replayed_call(block, calls.popleft(), ids))
        elif not _is_blank(block) and block.get("type") not in unwanted:
            kept.append(block)
    return None if calls else _without_loose_end(kept, paused=message.stop == "other")


def _replayed_call(block: JsonObject, call: CallPart, ids: dict[str, str]) -> JsonObject:
    arguments = block.get("input")
    return {
        **block,
        "id": _sent_id(call.id, ids),
        "name": _wire_name(str(block.get("name") or call.name)),
        "input": arguments if isinstance(arguments, dict) else as_object(call.arguments),
    }


def _without_loose_end(blocks: list[JsonObject], *, paused: bool) -> list[JsonObject]:
    """The blocks without what the API refuses at the end: thinking, and a server tool that never got to answer.

    After `pause_turn` the unanswered server tool has to stay: the server goes on from there.
    """
    loose = _THINKING if paused else (*_THINKING, *_SERVER_CALLS)
    while blocks and blocks[-1].get("type") in loose:
        blocks.pop()
    return blocks


def _retold(message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
    """The parts as blocks, the calls last: what another API's model said, or one that was aborted."""
    said: list[JsonObject] = []
    for part in message.parts:
        if type(part) is Text:
            said.append(_text(part.text))
        elif type(part) is Media:  # an assistant's message can't hold one here
            said.append(_described(part.attachment, "made earlier in this conversation"))
    calls: list[JsonObject] = [
        {
            "type": "tool_use",
            "id": _sent_id(call.id, ids),
            "name": _wire_name(call.name),
            "input": as_object(call.arguments),
        }
        for call in message.calls
    ]
    return [block for block in said if not _is_blank(block)] + calls


def as_object(arguments: str) -> JsonObject:
    """A call's arguments as the object that the API wants. Broken ones are shown to the model as they are."""
    if not arguments.strip():
        return {}
    try:
        value: Json = _decode(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}


def encoded(value: Json) -> bytes:
    """The value as JSON; halves of surrogate pairs, which UTF-8 can't say, are replaced."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(mended(value))


def mended(value: Json) -> Json:
    """The value with the halves of surrogate pairs put together, and those that stand alone replaced."""
    match value:
        case str():
            return mended_text(value)
        case dict():
            return {mended_text(key): mended(item) for key, item in value.items()}
        case list():
            return [mended(item) for item in value]
        case _:
            return value


def mended_text(text: str) -> str:
    """The text with the halves of surrogate pairs put together, and those that stand alone replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _sent_id(call_id: str, ids: dict[str, str]) -> str:
    """The id of a call on the wire: the model's own, else ours in a form that this API takes."""
    if call_id in ids:
        return ids[call_id]
    if _PLAIN.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _wire_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else outside_name(name)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _is_blank(block: JsonObject) -> bool:
    """Whether the API would refuse this block because nothing is in it."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _media(item: Attachment) -> JsonObject:
    """The attachment as an image or a document; words about it where the API can't take it."""
    if not item.data:
        return _described(item, f"kept as artifact {item.artifact.id!r}" if item.artifact else "empty")
    if item.media_type.startswith("image/"):
        return _image(item)
    if item.media_type == "application/pdf":
        return _pdf(item)
    if item.media_type.startswith("text/") or item.media_type == "application/json":
        return _plain_document(item)
    return _described(item, "not shown: this model API does not take such files")


def _image(item: Attachment) -> JsonObject:
    media_type = _true_image_type(item)
    if media_type not in _IMAGE_TYPES:
        return _described(item, "not shown: this model API takes only png, jpeg, gif and webp")
    source = b64encode(item.data).decode()
    if len(source) > _LARGEST_IMAGE:
        return _described(item, "not shown: it is too large for this model API")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": source}}


def _true_image_type(item: Attachment) -> str:
    """The type that the bytes show: the API refuses a request in which the two differ."""
    head = item.data[:12]
    for start, media_type in ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif")):
        if head.startswith(start):
            return media_type
    return "image/webp" if head[:4] == b"RIFF" and head[8:] == b"WEBP" else item.media_type


def _pdf(item: Attachment) -> JsonObject:
    source = b64encode(item.data).decode()
    if len(source) > _LARGEST_PDF:
        return _described(item, "not shown: it is too large for this model API")
    return _document(item, {"type": "base64", "media_type": "application/pdf", "data": source})


def _plain_document(item: Attachment) -> JsonObject:
    text = item.data.decode("utf-8", "replace")
    if not text.strip():
        return _described(item, "empty")
    return _document(item, {"type": "text", "media_type": "text/plain", "data": text})


def _document(item: Attachment, source: JsonObject) -> JsonObject:
    title: JsonObject = {"title": item.name[:_LONGEST_TITLE]} if item.name.strip() else {}
    return {"type": "document", "source": source, **title}


def _described(item: Attachment, how: str) -> JsonObject:
    name = f" {item.name!r}" if item.name else ""
    size = item.artifact.size if item.artifact else len(item.data)
    return _text(f"[{item.kind}{name}, {item.media_type}, {size} bytes, {how}]")
