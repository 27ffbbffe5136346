"""Files that a person sends with a message: images and sounds as they are, texts as words (SPEC X4)."""

import mimetypes
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from handspan.cli.artifacts import upload_file
from handspan.cli.requests import Requests, segment
from handspan.config.settings import MediaSettings
from handspan.core.errors import HandspanError, ToolError
from handspan.core.images import ImageLimits
from handspan.media.workers import MediaWorkers
from handspan.wire.rest.sessions import FileView, MessageList
from handspan.wire.ws_frames import MediaPart

_MOST_TEXT: Final = 200_000
"""Bytes of a text that becomes part of the message."""
_SHOWN: Final = ImageLimits(frozenset(("image/png",)), 2_000_000, 2_000_000, 800)
"""The image as a terminal gets it."""


class AttachedFile(Struct, frozen=True):
    """A file for the next message."""

    name: str
    part: MediaPart | None = None
    """An image, a sound or a file that was uploaded."""
    text: str = ""
    """The content, if it is a text."""

    @property
    def words(self) -> str:
        """The text as part of a message."""
        return f"The file {self.name}:\n\n{self.text}" if self.text else ""


async def attach_file(requests: Requests, path: Path, session: str) -> AttachedFile:
    """Read a file of this computer for the next message. Raises `HandspanError` when it can't be read."""
    kind, media_type = kind_of(path)
    if kind == "file" and (text := _read_text(path)):
        return AttachedFile(path.name, text=text)
    stored = await upload_file(requests, path, session)
    return AttachedFile(path.name, MediaPart(kind, stored.media_type or media_type, artifact=stored.id, name=path.name))


def kind_of(path: Path) -> tuple[Literal["image", "audio", "file"], str]:
    """Return what a file is by its name, and its media type."""
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    family = media_type.partition("/")[0]
    return ("image" if family == "image" else "audio" if family == "audio" else "file"), media_type


def _read_text(path: Path) -> str:
    """Return the content of a text file that is not too long; else an empty text."""
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_TEXT else b""
    except OSError as error:
        raise HandspanError(f"{str(path)!r} can't be read: {error.strerror}.") from None
    try:
        return "" if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return ""


async def small_png(data: bytes) -> bytes:
    """Return an image as a terminal can show it. It is read in a process of its own; raises `ToolError`."""
    workers = MediaWorkers(MediaSettings())
    workers.open()
    return (await workers.fit_image(data, _SHOWN)).data


async def result_images(requests: Requests, session: str, calls: frozenset[str]) -> list[tuple[str, bytes]]:
    """Return the images in the results of these calls, each with its name. One that can't be had is left out."""
    path = f"/api/sessions/{segment(session)}/messages"
    listed = (await requests.get(path, MessageList, full="true")).messages
    files = [
        (file, f"{path}/{message.seq}/files/{file.index}")
        for message in listed
        if message.call_id in calls
        for file in message.files
        if file.kind == "image"
    ]
    loaded = [(_name(file), await _load(requests, where)) for file, where in files]
    return [(name, data) for name, data in loaded if data]


async def _load(requests: Requests, path: str) -> bytes:
    try:
        return (await requests.send("GET", path)).body
    except (HandspanError, ToolError):
        return b""


def _name(file: FileView) -> str:
    return file.name or file.media_type
