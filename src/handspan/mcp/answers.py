"""Tools, results and answers between our words and those of the MCP SDK."""

import base64
from contextlib import suppress
from typing import Final

import mcp_types as types
import msgspec

from handspan.core.errors import ERROR_TYPES
from handspan.core.questions import Answer
from handspan.core.results import Attachment, Failure, ToolResult
from handspan.core.tool import NO_CLAIMS, UNKNOWN_EFFECTS, Annotations
from handspan.core.values import Json, JsonObject
from handspan.mcp.offer import PromptContent
from handspan.mcp.provider import ProvidedTool

_TEXTS: Final = frozenset({"application/json", "application/xml", "application/javascript", "application/yaml"})
"""Media types of text that do not begin with `text/`."""


def encode_tool(tool: ProvidedTool) -> types.Tool:
    """Return the tool as clients list it."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **tool.parameters},
        output_schema=tool.output_schema,
        annotations=_hints(tool.annotations),
    )


def repeats_in_headers(schema: JsonObject) -> bool:
    """Whether requests have to repeat an argument of this schema in a header.

    True also when the text `x-mcp-header` only stands elsewhere in the schema: then the SDK answers the call.
    """
    return b'"x-mcp-header"' in msgspec.json.encode(schema)


def _hints(annotations: Annotations) -> types.ToolAnnotations | None:
    """Return what the tool claims of its effects, in the SDK's words; None without claims."""
    if annotations is NO_CLAIMS or annotations is UNKNOWN_EFFECTS:
        return None
    return types.ToolAnnotations(
        read_only_hint=annotations.read_only,
        destructive_hint=annotations.destructive,
        idempotent_hint=annotations.idempotent,
        open_world_hint=annotations.open_world,
    )


def encode_result(result: ToolResult, *, is_modern: bool) -> types.CallToolResult:
    """Return the result. A failed call is a result, too: the client's model can read it and do better.

    `is_modern`: the client speaks the newer era, in which a structured value need not be an object.
    """
    if isinstance(result, Failure):
        text = types.TextContent(text=result.message)
        return types.CallToolResult(content=[text], is_error=True, _meta=failure_meta(result))
    value = result.value
    content: list[types.ContentBlock] = [] if value is None and result.attachments else [_text(value)]
    content += [_encode_attachment(attachment) for attachment in result.attachments]
    if result.notice:
        content.append(_text(result.notice))
    has_structure = is_structured(value) if is_modern else isinstance(value, dict)
    return types.CallToolResult(content=content, structured_content=value if has_structure else None)


def is_structured(value: Json) -> bool:
    """Whether a value says more than its text: `0` and "0" are the same text. Null says no more than its text."""
    return value is not None and not isinstance(value, str)


def failure_meta(failure: Failure) -> JsonObject:
    """Return the code and the type of a failed call, for programs: the protocol has only the text (SPEC X2)."""
    return {"handspan/code": failure.code, "handspan/error_type": ERROR_TYPES[failure.code]}


def _text(value: Json) -> types.TextContent:
    return types.TextContent(text=value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _encode_attachment(item: Attachment) -> types.ContentBlock:
    """Return an image as an image, a sound as a sound, and everything else as a file. Large ones are links."""
    if item.artifact is not None:
        kept = item.artifact
        name, uri = item.name or kept.name or kept.id, f"artifact:///{kept.id}"
        return types.ResourceLink(uri=uri, name=name, mime_type=item.media_type, size=kept.size)
    if item.kind == "image":
        return types.ImageContent(data=_base64(item), mime_type=item.media_type)
    if item.kind == "audio":
        return types.AudioContent(data=_base64(item), mime_type=item.media_type)
    # A file from another MCP server has its address as its name.
    uri = item.name if "://" in item.name else f"attachment:///{item.name or 'file'}"
    return types.EmbeddedResource(resource=encode_resource(uri, item))


def encode_prompt(content: PromptContent) -> types.GetPromptResult:
    """Return the messages of a prompt."""
    parts = (content,) if isinstance(content, str) else content
    blocks = (_text(part) if isinstance(part, str) else _encode_attachment(part) for part in parts)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


def encode_resource(uri: str, item: Attachment) -> types.TextResourceContents | types.BlobResourceContents:
    """Return the data of a resource: text as text, everything else as base64."""
    if _is_text(item.media_type):
        with suppress(UnicodeDecodeError):
            return types.TextResourceContents(uri=uri, mime_type=item.media_type, text=item.data.decode())
    return types.BlobResourceContents(uri=uri, mime_type=item.media_type, blob=_base64(item))


def _is_text(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))


def _base64(item: Attachment) -> str:
    return base64.b64encode(item.data).decode()


def encode_question(text: str, schema: JsonObject) -> types.ElicitRequest:
    """Return a question to the person at the client."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=text, requested_schema=schema))


def read_answer(result: types.ElicitResult) -> Answer:
    """Return what the person at the client answered."""
    if result.action == "accept":
        value: Json = msgspec.to_builtins(result.content)
        return Answer("allow", value=value)
    # "cancel" closes the question without an answer: as if its time had run out.
    return Answer("deny" if result.action == "decline" else "expired")
