"""Files up and down: artifacts as answers, whole or by range, of which nothing runs (SPEC X3, S4); uploads as forms."""

import re
from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from urllib.parse import quote

from handspan.core.artifacts import ArtifactRef, Artifacts
from handspan.core.errors import WireError
from handspan.core.values import strip_invisible
from handspan.gateway.http.bodies import pieces
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import Streamed
from handspan.wire.multipart import Began, Data, Happening, Multipart, PartEnd

BINARY: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_PIECE: Final = 256 * 1024
_AROUND_IT: Final = 256 * 1024
"""Bytes of a form that are not of its file."""
_LONGEST_NAME: Final = 200
_HARMLESS: Final = {
    # Somebody else's HTML or SVG must not run as if it were our page.
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}


class _Part(NamedTuple):
    begin: int
    end: int
    """The first byte that does not belong to it."""


def download(request: AsgiRequest, artifacts: Artifacts, ref: ArtifactRef, owner: str) -> AsgiResponse:
    """The artifact, or the part of it that `Range` names; raises `Refusal` when there is no such part."""
    part = _part(request.headers.get("range", ""), ref.size)
    headers = _headers(ref)
    if part is None:
        part, status = _Part(0, ref.size), 200
    else:
        status = 206
        headers["content-range"] = f"bytes {part.begin}-{part.end - 1}/{ref.size}"
    headers["content-length"] = str(part.end - part.begin)
    if request.method == "HEAD":
        return AsgiResponse(None, status, headers, ref.media_type)
    pieces = FilePieces(artifacts, owner, ref, part)
    return Streamed(pieces, ref.media_type, headers, patience=None, status=status)


class FilePieces:
    """A part of an artifact, in pieces that fit into memory."""

    def __init__(self, artifacts: Artifacts, owner: str, ref: ArtifactRef, part: _Part) -> None:
        self._artifacts, self._owner, self._id = artifacts, owner, ref.id
        self._at, self._end = part

    async def next(self) -> bytes | None:
        """The next piece; None after the last one."""
        limit = min(_PIECE, self._end - self._at)
        if limit <= 0:
            return None
        data = await self._artifacts.read(self._id, owner=self._owner, offset=self._at, limit=limit)
        self._at += len(data)
        return data or None

    def end(self) -> None:
        """The client has gone: there is no next piece."""
        self._at = self._end


class NoFile(WireError):
    """A form has no file under the name that is wanted."""


class UploadedFile:
    """The file in a form, as it comes. What is wrong with the form, also behind the file, is raised meanwhile."""

    def __init__(self, form: AsyncIterator[Happening], began: Began, most: int) -> None:
        self.name = file_name(began.file_name or "")[-_LONGEST_NAME:]
        self.media_type = media_type_of(began.media_type)
        self._field = began.name
        self._form = form
        self._most = most

    async def bytes(self) -> AsyncIterator[bytes]:
        """All of it; then the rest of the form is read, in which no other file may be."""
        size = 0
        async for happening in self._form:
            if isinstance(happening, PartEnd):
                break
            assert isinstance(happening, Data), "a part begins when the one before it has ended"
            size += len(happening.data)
            if size > self._most:
                text = f"The file has more than {self._most} bytes, which are the limit here"
                raise Refusal(413, "too_large", f"{text} (setting gateway.upload_bytes).")
            yield happening.data
        async for happening in self._form:
            if isinstance(happening, Began) and happening.name == self._field:
                raise WireError(f"There are two files: send one form for each, with one {self._field!r}.")


async def uploaded_file(request: AsgiRequest, field: str, most: int, seconds: float) -> UploadedFile:
    """The file of a form; raises `NoFile`, `WireError` for what is no such form, `Refusal` when it is too much."""
    form = _form(request, most + _AROUND_IT, seconds)
    async for happening in form:
        if isinstance(happening, Began) and happening.name == field:
            return UploadedFile(form, happening, most)
    raise NoFile(f"There is no file in the form: send it under the name {field!r}.")


async def _form(request: AsgiRequest, most: int, seconds: float) -> AsyncIterator[Happening]:
    form = Multipart(request.headers.get("content-type", ""))
    async for piece in pieces(request, most, seconds):
        for happening in form.feed(piece):
            yield happening
    form.end()


def media_type_of(header: str) -> str:
    """What the bytes are said to be, where that can be said again; else just bytes."""
    kind = header.partition(";")[0].strip().lower()
    return kind if _MEDIA_TYPE.fullmatch(kind) else BINARY


def file_name(given: str) -> str:
    """The last part of the name, without what nobody sees."""
    return " ".join(strip_invisible(given).split()).replace("\\", "/").rpartition("/")[2]


def _headers(ref: ArtifactRef) -> dict[str, str]:
    name = quote(ref.name or ref.id, safe="")
    return {
        **PRIVATE,
        **_HARMLESS,
        "accept-ranges": "bytes",
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
    }


def _part(asked: str, size: int) -> _Part | None:
    """The one range that was asked for; None for the whole. What is no such range is passed over (RFC 9110 14.2)."""
    found = _RANGE.fullmatch(asked.strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found.groups()
    begin = int(first) if first else max(0, size - int(last))
    end = size if not first or not last else min(size, int(last) + 1)
    if first and last and int(last) < int(first):
        return None
    if begin >= size or begin >= end:
        text = f"The artifact has {size} bytes: there is nothing at {asked[:60]!r}."
        raise Refusal(416, "range_not_satisfiable", text, headers={"content-range": f"bytes */{size}"})
    return _Part(begin, end)
