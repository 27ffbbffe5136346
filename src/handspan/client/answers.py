"""The answer to a call: what its code gave back, as the frame that the gateway takes (ws.md 5.2, 5.10, 5.12)."""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import structs

from handspan.client.results import Image, ToolCallResult
from handspan.client.sizes import fits
from handspan.core.errors import ToolError
from handspan.core.results import Attachment, Failure, Pending, Success, succeed
from handspan.core.values import Json
from handspan.wire.json_size import is_deeper
from handspan.wire.ws_frames import FailureFrame, MediaPart, ResultFrame, WireLimits

MOST_INLINE: Final = 256 * 1024
"""Bytes of attachments that come in the frame itself, where messages are large; what is beyond is uploaded."""
_SHARE_INLINE: Final = 4
"""Of smaller messages they take a quarter, and a third when they are base64."""

Upload: TypeAlias = Callable[[bytes, str, str], Awaitable[str]]
"""Bytes, media type and name → the id of the artifact."""


class Answers:
    """Makes frames of results."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload

    async def frame(
        self, call_id: str, value: Any, agreed: frozenset[str], limits: WireLimits
    ) -> ResultFrame | FailureFrame:
        """The answer; `ToolError` when the value can't be sent."""
        match value:
            case Failure(code=code, message=text):
                return FailureFrame(id=call_id, error=text, code=code)
            case ToolCallResult.Failure(error=text, code=given):
                return FailureFrame(id=call_id, error=text, code=given or "")
            case ToolCallResult.Success(output=output):
                return await self.frame(call_id, output, agreed, limits)
            case Pending():
                raise ToolError("execution_failed", "A tool of a client can't answer later: it has to wait and return.")
        plain, attachments = _taken_apart(value)
        output = succeed(plain).value
        if attachments and "parts" not in agreed:
            output = _noted(output, len(attachments))
            attachments = ()
        if not agreed and not isinstance(output, str):  # a gateway of the seed's reads text alone
            output = msgspec.json.encode(output).decode()
        frame = ResultFrame(
            id=call_id, output=output, parts=await self._parts(attachments, limits) if attachments else []
        )
        if not fits(frame, limits):
            frame = await self.fitting(frame, agreed, limits)
        _check_depth(frame, limits)
        return frame

    async def fitting(self, frame: ResultFrame, agreed: frozenset[str], limits: WireLimits) -> ResultFrame:
        """The answer in a form that a message can hold; `ToolError` when it has none."""
        if fits(frame, limits):
            return frame
        size = len(_data(frame.output))
        if "parts" in agreed:
            if len(msgspec.json.encode(frame.output)) > limits.message_bytes // 2:
                frame = await self._moved_out(frame)
            if not fits(frame, limits):
                frame = structs.replace(frame, parts=[await self._uploaded(part) for part in frame.parts])
        if not fits(frame, limits):
            raise _too_large(size, len(frame.parts), limits)
        return frame

    async def _parts(self, attachments: Sequence[Attachment], limits: WireLimits) -> list[MediaPart]:
        parts: list[MediaPart] = []
        room = min(MOST_INLINE, limits.message_bytes // _SHARE_INLINE)
        for one in attachments:
            if one.artifact is not None:
                parts.append(MediaPart(one.kind, one.media_type, artifact=one.artifact.id, name=one.name))
            elif len(one.data) <= room:
                room -= len(one.data)
                parts.append(MediaPart(one.kind, one.media_type, b64encode(one.data).decode(), name=one.name))
            else:
                artifact = await self._upload(one.data, one.media_type, one.name)
                parts.append(MediaPart(one.kind, one.media_type, artifact=artifact, name=one.name))
        return parts

    async def _moved_out(self, frame: ResultFrame) -> ResultFrame:
        """The answer with its output as a file beside it."""
        data, is_text = _data(frame.output), isinstance(frame.output, str)
        media_type, name = ("text/plain", "result.txt") if is_text else ("application/json", "result.json")
        artifact = await self._upload(data, media_type, name)
        note = f"The result has {len(data)} bytes and came as the file {name!r}."
        return structs.replace(
            frame, output=note, parts=[*frame.parts, MediaPart("file", media_type, artifact=artifact, name=name)]
        )

    async def _uploaded(self, part: MediaPart) -> MediaPart:
        if not part.data:
            return part
        artifact = await self._upload(b64decode(part.data), part.media_type, part.name)
        return structs.replace(part, data="", artifact=artifact)


def _taken_apart(value: Any) -> tuple[Any, tuple[Attachment, ...]]:
    """The plain value, and the images, sounds and files that come with it."""
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


_BINARY: Final = (Attachment, Image, bytes, bytearray)


def _attachment(value: Attachment | Image | bytes | bytearray) -> Attachment:
    match value:
        case Attachment():
            return value
        case Image(data=data, media_type=media_type, name=name):
            return Attachment("image", media_type, data, name=name)
    return Attachment("file", "application/octet-stream", bytes(value))


def _noted(output: Json, count: int) -> Json:
    """An output that says what could not come with it."""
    note = f"({count} attachment{'s' * (count > 1)} could not be sent: this gateway takes text alone.)"
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return f"{text}\n{note}" if text else note


def _data(output: Json) -> bytes:
    """The output as a file has it."""
    return output.encode() if isinstance(output, str) else msgspec.json.encode(output)


def _too_large(size: int, parts: int, limits: WireLimits) -> ToolError:
    what = f"{size} bytes{f' and {parts} attachments' if parts else ''}"
    return ToolError(
        "execution_failed",
        f"The tool ran, but its result of {what} is too large to be sent: a message to the gateway has at most "
        f"{limits.message_bytes} bytes. Ask it for a smaller part, or let it return less.",
    )


def _check_depth(frame: ResultFrame, limits: WireLimits) -> None:
    if isinstance(frame.output, dict | list) and is_deeper(frame.output, limits.depth - 1):  # the frame is a level too
        text = f"its result can't be sent: it is nested more than {limits.depth} levels deep. Give it a flatter form."
        raise ToolError("execution_failed", f"The tool ran, but {text}")
