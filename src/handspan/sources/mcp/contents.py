"""What an MCP server answers, in our words: text, JSON, images, sounds and files (SPEC X4)."""

import base64
import binascii
from typing import Any

import mcp_types as types
import msgspec

from handspan.core.errors import ToolError
from handspan.core.results import Attachment, AttachmentKind, Success
from handspan.core.tool import UNKNOWN_EFFECTS, Annotations, ToolSpec
from handspan.core.values import Json, JsonObject, strip_invisible, strip_schema


def read_tool(tool: types.Tool) -> ToolSpec:
    """Return the server's tool as data of ours. Its texts are from outside: invisible characters are removed (S4)."""
    description = strip_invisible(tool.description or tool.title or "")
    parameters = strip_schema(tool.input_schema)
    return ToolSpec(tool.name, description, parameters, annotations=_annotations(tool.annotations))


def _annotations(hints: types.ToolAnnotations | None) -> Annotations:
    """Return what the server claims about a tool. The protocol's default: the tool may destroy things."""
    if hints is None:
        return UNKNOWN_EFFECTS
    read_only = bool(hints.read_only_hint)
    return Annotations(
        read_only=read_only,
        destructive=not read_only and hints.destructive_hint is not False,
        idempotent=bool(hints.idempotent_hint) or read_only,
        open_world=hints.open_world_hint is not False,
    )


def read_result(result: types.CallToolResult) -> Success:
    """Return the success. Raises `ToolError` with the server's own words when the tool failed."""
    content = Content()
    for block in result.content:
        content.add(block)
    if result.is_error:
        raise ToolError("execution_failed", content.text() or "The tool failed and did not say why.")
    return content.success(result.structured_content)


class Content:
    """The parts of one answer, one after another."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.links: list[Json] = []
        self.attachments: list[Attachment] = []

    def add(self, block: types.ContentBlock) -> None:
        """Add one block."""
        match block:
            case types.TextContent(text=text):
                self.texts.append(strip_invisible(text))
            case types.ImageContent(data=data, mime_type=media_type):
                self.attachments.append(_attachment("image", media_type, data))
            case types.AudioContent(data=data, mime_type=media_type):
                self.attachments.append(_attachment("audio", media_type, data))
            case types.ResourceLink():
                self.links.append(describe(block))
            case types.EmbeddedResource(resource=resource):
                self.add_resource(resource)

    def add_resource(self, resource: types.TextResourceContents | types.BlobResourceContents) -> None:
        """Add the content of a resource: text as text, anything else as a file."""
        if isinstance(resource, types.TextResourceContents):
            self.texts.append(strip_invisible(resource.text))
            return
        media_type = resource.mime_type or "application/octet-stream"
        family = media_type.partition("/")[0]
        kind: AttachmentKind = "image" if family == "image" else "audio" if family == "audio" else "file"
        self.attachments.append(_attachment(kind, media_type, resource.blob, str(resource.uri)))

    def text(self) -> str:
        """Return all texts, one below the other."""
        return "\n".join(self.texts)

    def success(self, structured: Json) -> Success:
        """Return the structured value if there is one, else the text. Links are added as `resource_links`.

        Beside a structured value stand the texts that are not that value as JSON: they may say something else.
        """
        value: Json = self.text() if structured is None else structured
        beside: JsonObject = {}
        if structured is not None and (others := [text for text in self.texts if not _is_same_json(text, structured)]):
            beside["text"] = "\n".join(others)
        if self.links:
            beside["resource_links"] = self.links
        return Success({"result": value, **beside} if beside else value, tuple(self.attachments))


def _is_same_json(text: str, value: Json) -> bool:
    """Whether the text says nothing but the value; or what stands alone in the value, or an item of a list there."""
    alone = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    known = (value, alone, *(alone if isinstance(alone, list) else ()))
    if not text.strip() or text in known:
        return True
    try:
        return msgspec.json.decode(text) in known
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def describe(thing: types.Resource | types.ResourceTemplate | types.Prompt) -> JsonObject:
    """Return what a list says about a resource, a template or a prompt."""
    shown: dict[str, Any] = thing.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        key: strip_invisible(value) if isinstance(value, str) else value
        for key, value in shown.items()
        if key not in ("_meta", "icons", "type", "annotations")
    }


def _attachment(kind: AttachmentKind, media_type: str, data: str, name: str = "") -> Attachment:
    try:
        return Attachment(kind, media_type, base64.b64decode(data, validate=True), name=name)
    except (binascii.Error, ValueError):
        raise ToolError("execution_failed", "The MCP server's answer has a part that is not base64.") from None
