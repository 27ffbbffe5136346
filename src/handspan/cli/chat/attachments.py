"""Files that a person sends with a message. Their content is no order: only the person's own words are (SPEC X4)."""

import mimetypes
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from handspan.cli.artifacts import read_file, upload
from handspan.cli.requests import Requests, segment
from handspan.config.tool_settings import MediaSettings
from handspan.core.errors import HandspanError, ToolError
from handspan.core.images import ImageLimits
from handspan.media.workers import MediaWorkers
from handspan.wire.rest.sessions import MessageList
from handspan.wire.ws_frames import MediaPart

_MOST_TEXT: Final = 500_000
"""Bytes of a text that goes inside the message, so that every model reads it. A message has 1 MiB, in base64."""
_TEXT: Final = "text/plain"
_SHOWN: Final = ImageLimits(frozenset(("image/png",)), 2_000_000, 2_000_000, 800)
"""The limits of an image that a terminal shows."""


async def attach_file(requests: Requests, path: Path, session: str) -> MediaPart:
    """Return a file of this computer as a part of the next message. Raises `HandspanError` when it can't be read."""
    return await attach_data(requests, path.name, read_file(path), session)


async def attach_data(requests: Requests, name: str, data: bytes, session: str) -> MediaPart:
    """Return these bytes as a part of the next message: a text inside it, all else as an upload."""
    kind, media_type = kind_of(name)
    if kind == "file" and _is_short_text(data):
        return MediaPart(kind, _TEXT, b64encode(data).decode(), name=name)
    stored = await upload(requests, name, data, session)
    return MediaPart(kind, stored.media_type or media_type, artifact=stored.id, name=name)


def kind_of(name: str) -> tuple[Literal["image", "audio", "file"], str]:
    """Return what a file is by its name, and its media type."""
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    family = media_type.partition("/")[0]
    return ("image" if family == "image" else "audio" if family == "audio" else "file"), media_type


def _is_short_text(data: bytes) -> bool:
    if not data or len(data) > _MOST_TEXT or b"\0" in data:
        return False
    with suppress(UnicodeDecodeError):
        data.decode()
        return True
    return False


async def small_png(data: bytes) -> bytes:
    """Return an image as a small PNG. A process of its own reads the image. Raises `ToolError` when it can't."""
    workers = MediaWorkers(MediaSettings())
    workers.open()
    return (await workers.fit_image(data, _SHOWN)).data


async def result_images(requests: Requests, session: str, calls: frozenset[str]) -> list[tuple[str, bytes]]:
    """Return the images in the results of these calls, each with its name. One that can't be loaded is left out."""
    path = f"/api/sessions/{segment(session)}/messages"
    listed = (await requests.get(path, MessageList, full="true")).messages
    files = [
        (file, f"{path}/{message.seq}/files/{file.index}")
        for message in listed
        if message.call_id in calls
        for file in message.files
        if file.kind == "image"
    ]
    loaded = []
    for file, where in files:
        with suppress(HandspanError, ToolError):
            loaded.append((file.name or file.media_type, (await requests.send("GET", where)).body))
    return [(name, data) for name, data in loaded if data]
