"""The images of a message, made fit for an API before the message is encoded (SPEC X4)."""

from typing import Final

from msgspec import structs

from handspan.core.errors import ToolError
from handspan.core.images import ImageLimits, ImageReader
from handspan.core.messages import CallResult, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.results import Attachment

_SEES_NONE: Final = ToolError("invalid_arguments", "this model sees no images")


def find_images(message: Message) -> list[Attachment]:
    """Return the images of a person's message or of results."""
    match message:
        case UserMessage(parts=parts):
            return [part.attachment for part in parts if type(part) is Media and _is_image(part.attachment)]
        case ResultsMessage(results=results):
            return [item for result in results if result.attachments for item in result.attachments if _is_image(item)]
        case _:
            return []


async def fit_images(message: Message, reader: ImageReader, limits: ImageLimits) -> Message:
    """Return the message with images that the API takes. An image that can't be shown is replaced by the reason.

    One image is read after the other: so a message with many images does not hold up those of other conversations.
    """
    match message:
        case UserMessage(parts=parts):
            return structs.replace(message, parts=tuple([await _fit_part(part, reader, limits) for part in parts]))
        case ResultsMessage(results=results):
            return ResultsMessage(tuple([await _fit_result(result, reader, limits) for result in results]))
        case _:
            return message


def note_images(message: Message) -> Message:
    """Return the message for a model that sees no images: a note stands in place of each."""
    match message:
        case UserMessage(parts=parts):
            return structs.replace(message, parts=tuple([_note_part(part) for part in parts]))
        case ResultsMessage(results=results):
            return ResultsMessage(tuple(map(_note_result, results)))
        case _:
            return message


def _note_part(part: Text | Media) -> Text | Media:
    if type(part) is Text or not _is_image(part.attachment):
        return part
    return Text(_reason(part.attachment, _SEES_NONE))


def _note_result(result: CallResult) -> CallResult:
    items = tuple([_note(item, _SEES_NONE) if _is_image(item) else item for item in result.attachments])
    return structs.replace(result, attachments=items)


async def _fit_part(part: Text | Media, reader: ImageReader, limits: ImageLimits) -> Text | Media:
    if type(part) is Text or not _is_image(part.attachment):
        return part
    try:
        return Media(await reader.read_image(part.attachment, limits))
    except ToolError as error:
        return Text(_reason(part.attachment, error))


async def _fit_result(result: CallResult, reader: ImageReader, limits: ImageLimits) -> CallResult:
    fitted = [await _fit_attachment(item, reader, limits) for item in result.attachments]
    return structs.replace(result, attachments=tuple(fitted))


async def _fit_attachment(item: Attachment, reader: ImageReader, limits: ImageLimits) -> Attachment:
    if not _is_image(item):
        return item
    try:
        return await reader.read_image(item, limits)
    except ToolError as error:
        return _note(item, error)


def _note(item: Attachment, error: ToolError) -> Attachment:
    """Return the reason as a text file, which every API shows."""
    return Attachment("file", "text/plain", _reason(item, error).encode(), name="note")


def _reason(item: Attachment, error: ToolError) -> str:
    name = f" {item.name!r}" if item.name else ""
    size = len(item.data) if item.artifact is None else item.artifact.size
    where = "" if item.artifact is None else f", kept as artifact {item.artifact.id!r}"
    return f"[The image{name} ({item.media_type}, {size} bytes{where}) can't be shown: {error.message.rstrip('.')}.]"


def _is_image(item: Attachment) -> bool:
    return item.kind == "image" or item.media_type.startswith("image/")
