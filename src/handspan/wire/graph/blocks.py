"""The blocks that make the content of a message (`protocol/graph.md` 2.3), one class each."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.wire.ws_frames import MediaPart


class MediaLocation(Struct, frozen=True, omit_defaults=True):
    """Where the bytes of a medium are: at a URL, in an uploaded file, or in this object."""

    kind: Literal["url", "file_id", "data"]
    url: str | None = None
    file_id: str | None = None
    """The id of an upload (graph.md 9.4)."""
    data_base64: str | None = None
    mime_type: str | None = None
    filename: str | None = None


class TextBlock(Struct, frozen=True, tag_field="type", tag="text"):
    """Text."""

    text: str
    annotations: list[Json] = []


class ImageBlock(Struct, frozen=True, tag_field="type", tag="image", omit_defaults=True):
    """An image."""

    media: MediaLocation
    alt_text: str | None = None


class AudioBlock(Struct, frozen=True, tag_field="type", tag="audio", omit_defaults=True):
    """A sound."""

    media: MediaLocation
    transcript: str | None = None


class VideoBlock(Struct, frozen=True, tag_field="type", tag="video", omit_defaults=True):
    """A video."""

    media: MediaLocation


class DocumentBlock(Struct, frozen=True, tag_field="type", tag="document", omit_defaults=True):
    """A document: its file, its text, or both."""

    media: MediaLocation | None = None
    text: str | None = None


class DataBlock(Struct, frozen=True, tag_field="type", tag="data", omit_defaults=True):
    """Bytes of another media type."""

    mime_type: str
    data_base64: str | None = None
    media: MediaLocation | None = None


class ToolCallBlock(Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A call of the model."""

    id: str
    name: str
    args: JsonObject
    tool_type: str | None = None


class RemoteToolCallBlock(Struct, frozen=True, tag_field="type", tag="remote_tool_call"):
    """A call that the client has to run (graph.md 4.5)."""

    id: str
    name: str
    args: JsonObject
    tool_type: Literal["remote"] = "remote"


class ToolResultBlock(Struct, frozen=True, tag_field="type", tag="tool_result"):
    """The result of a call (graph.md 5.1)."""

    call_id: str
    output: Json = None
    is_error: bool = False
    status: str | None = None
    parts: list[MediaPart] = []
    """Images, sounds and files of the result."""

    @property
    def is_failure(self) -> bool:
        """Whether the call failed."""
        return self.is_error or self.status == "failed"


class ReasoningBlock(Struct, frozen=True, tag_field="type", tag="reasoning"):
    """A summary of the model's thinking."""

    summary: str


class AnnotationBlock(Struct, frozen=True, tag_field="type", tag="annotation", omit_defaults=True):
    """A remark on other blocks."""

    kind: str = ""
    refs: list[Json] = []
    spans: list[Json] = []


class ErrorBlock(Struct, frozen=True, tag_field="type", tag="error", omit_defaults=True):
    """An error."""

    message: str
    code: str | None = None


Block: TypeAlias = (
    TextBlock
    | ImageBlock
    | AudioBlock
    | VideoBlock
    | DocumentBlock
    | DataBlock
    | ToolCallBlock
    | RemoteToolCallBlock
    | ToolResultBlock
    | ReasoningBlock
    | AnnotationBlock
    | ErrorBlock
)

PERSON_BLOCKS: Final = (TextBlock, ImageBlock, AudioBlock, VideoBlock, DocumentBlock, DataBlock)
"""The blocks that a person's message may hold (graph.md 2.4)."""
