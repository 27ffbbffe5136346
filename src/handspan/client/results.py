"""The results of a client's tools: what their code may return, and the frame made from it (ws.md 5.2, 5.10, 5.12)."""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from handspan.client.sizes import fits
from handspan.core.errors import ErrorCode, ToolError
from handspan.core.results import Attachment, Failure, Pending, Success, succeed
from handspan.core.values import Arguments, Json, is_deeper
from handspan.wire.ws_frames import FailureFrame, MediaPart, ResultFrame, WireLimits

MAX_INLINE: Final = 256 * 1024
"""Bytes of attachments that one frame carries at most. Attachments beyond that are uploaded."""
_INLINE_SHARE: Final = 4
"""Attachments take at most this part of a message: a quarter, which base64 makes a third."""

Upload: TypeAlias = Callable[[bytes, str, str], Awaitable[str]]
"""Uploads bytes with their media type and name. Returns the id of the artifact."""


@final
class Image(Struct, frozen=True):
    """A picture as a tool's result."""

    data: bytes
    media_type: str = "image/png"
    name: str = ""


@final
class ToolCallRequest(Struct, frozen=True):
    """A call, as `tool_call_handler` gets it."""

    id: str
    name: str
    args: Arguments


@final
class CallSuccess(Struct, frozen=True):
    """The call succeeded."""

    output: "Output" = ""


@final
class CallFailure(Struct, frozen=True):
    """The call failed."""

    error: str
    code: ErrorCode | None = None


class ToolCallResult:
    """What `tool_call_handler` returns: `ToolCallResult.Success(output)` or `ToolCallResult.Failure(error)`."""

    Success: TypeAlias = CallSuccess
    Failure: TypeAlias = CallFailure


Output: TypeAlias = Json | bytes | Image
_BINARY: Final = (Attachment, Image, bytes, bytearray)


class ResultEncoder:
    """Makes the frame of an answer from what a tool returned."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload

    async def encode(
        self, call_id: str, value: Any, capabilities: frozenset[str], limits: WireLimits
    ) -> ResultFrame | FailureFrame:
        """Return the answer with this value. Raises `ToolError` when the value can't be sent."""
        match value:
            case Failure(code=code, message=text):
                return FailureFrame(id=call_id, error=text, code=code)
            case CallFailure(error=text, code=given):
                return FailureFrame(id=call_id, error=text, code=given or "")
            case CallSuccess(output=output):
                return await self.encode(call_id, output, capabilities, limits)
            case Pending():
                raise ToolError("execution_failed", "A tool of a client can't answer later: it has to wait and return.")
        plain, attachments = _split_attachments(value)
        output = succeed(plain).value
        if attachments and "parts" not in capabilities:
            output = _add_note(output, len(attachments))
            attachments = ()
        if not capabilities and not isinstance(output, str):  # a gateway without capabilities takes text only
            output = msgspec.json.encode(output).decode()
        parts = await self._encode_parts(attachments, limits) if attachments else []
        frame = ResultFrame(id=call_id, output=output, parts=parts)
        if not fits(frame, limits):
            frame = await self.shrink(frame, capabilities, limits)
        _check_depth(frame, limits)
        return frame

    async def shrink(self, frame: ResultFrame, capabilities: frozenset[str], limits: WireLimits) -> ResultFrame:
        """Return the answer in a form that fits into a message: large contents are uploaded.

        Raises `ToolError` if no form fits.
        """
        if fits(frame, limits):
            return frame
        size = len(_output_bytes(frame.output))
        if "parts" in capabilities:
            if len(msgspec.json.encode(frame.output)) > limits.message_bytes // 2:
                frame = await self._upload_output(frame)
            if not fits(frame, limits):
                frame = structs.replace(frame, parts=[await self._upload_part(part) for part in frame.parts])
        if not fits(frame, limits):
            raise _too_large(size, len(frame.parts), limits)
        return frame

    async def _encode_parts(self, attachments: Sequence[Attachment], limits: WireLimits) -> list[MediaPart]:
        """Return the attachments as parts of the frame. Those that are too large for it are uploaded."""
        parts: list[MediaPart] = []
        left = min(MAX_INLINE, limits.message_bytes // _INLINE_SHARE)
        for one in attachments:
            if one.artifact is not None:
                parts.append(MediaPart(one.kind, one.media_type, artifact=one.artifact.id, name=one.name))
            elif len(one.data) <= left:
                left -= len(one.data)
                parts.append(MediaPart(one.kind, one.media_type, b64encode(one.data).decode(), name=one.name))
            else:
                artifact = await self._upload(one.data, one.media_type, one.name)
                parts.append(MediaPart(one.kind, one.media_type, artifact=artifact, name=one.name))
        return parts

    async def _upload_output(self, frame: ResultFrame) -> ResultFrame:
        """Return the answer with its output as an uploaded file beside it."""
        data, is_text = _output_bytes(frame.output), isinstance(frame.output, str)
        media_type, name = ("text/plain", "result.txt") if is_text else ("application/json", "result.json")
        artifact = await self._upload(data, media_type, name)
        note = f"The result has {len(data)} bytes and came as the file {name!r}."
        return structs.replace(
            frame, output=note, parts=[*frame.parts, MediaPart("file", media_type, artifact=artifact, name=name)]
        )

    async def _upload_part(self, part: MediaPart) -> MediaPart:
        if not part.data:
            return part
        artifact = await self._upload(b64decode(part.data), part.media_type, part.name)
        return structs.replace(part, data="", artifact=artifact)


def _split_attachments(value: Any) -> tuple[Any, tuple[Attachment, ...]]:
    """Return the plain value, and the images, sounds and files that come with it."""
    match value:
        case Success(value=plain, attachments=attachments):
            return plain, attachments
        case Attachment() | Image() | bytes() | bytearray():
            return "", (_attachment(value),)
        case list() | tuple() if any(isinstance(one, _BINARY) for one in value):
            plain = [one for one in value if not isinstance(one, _BINARY)]
            attachments = tuple(_attachment(one) for one in value if isinstance(one, _BINARY))
            return (plain[0] if len(plain) == 1 else plain or ""), attachments
    return value, ()


def _attachment(value: Attachment | Image | bytes | bytearray) -> Attachment:
    match value:
        case Attachment():
            return value
        case Image(data=data, media_type=media_type, name=name):
            return Attachment("image", media_type, data, name=name)
    return Attachment("file", "application/octet-stream", bytes(value))


def _add_note(output: Json, count: int) -> Json:
    """Return the output with a note that its attachments could not be sent."""
    note = f"({count} attachment{'s' * (count > 1)} could not be sent: this gateway takes text alone.)"
    text = _output_bytes(output).decode()
    return f"{text}\n{note}" if text else note


def _output_bytes(output: Json) -> bytes:
    """Return the output as the content of a file."""
    return output.encode() if isinstance(output, str) else msgspec.json.encode(output)


def _too_large(size: int, parts: int, limits: WireLimits) -> ToolError:
    what = f"{size} bytes{f' and {parts} attachments' if parts else ''}"
    return ToolError(
        "execution_failed",
        f"The tool ran, but its result of {what} is too large to be sent: a message to the gateway has at most "
        f"{limits.message_bytes} bytes. Ask it for a smaller part, or let it return less.",
    )


def _check_depth(frame: ResultFrame, limits: WireLimits) -> None:
    if isinstance(frame.output, dict | list) and is_deeper(frame.output, limits.depth - 1):  # the frame is a level, too
        text = f"its result can't be sent: it is nested more than {limits.depth} levels deep. Give it a flatter form."
        raise ToolError("execution_failed", f"The tool ran, but {text}")
