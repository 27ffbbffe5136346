"""What a person says in a request, as a message of ours (graph.md 2.4)."""

import binascii
from base64 import b64decode
from collections.abc import Sequence

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.messages import Media, Text, UserMessage
from handspan.core.results import Attachment, AttachmentKind
from handspan.wire.graph.blocks import (
    AudioBlock,
    Block,
    DataBlock,
    DocumentBlock,
    ImageBlock,
    MediaLocation,
    TextBlock,
    VideoBlock,
)
from handspan.wire.graph.faults import BodyError, Detail

_PLACE = ["body", "messages"]


async def message_of(blocks: Sequence[Block], artifacts: Artifacts, owner: str) -> UserMessage:
    """The message; `BodyError` when one of its media can't be had."""
    parts = [part for block in blocks for part in await _parts(block, artifacts, owner)]
    if not parts:
        raise _wrong("There is nothing in it: send at least one block with words or a medium.")
    return UserMessage(tuple(parts))


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
            said: list[Text | Media] = [Text(words)] if words else []
            return said if document is None else [*said, await _medium("file", document, artifacts, owner)]
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
