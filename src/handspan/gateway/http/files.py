"""Downloads of artifacts, whole or by range, which no browser runs (SPEC X3, S4); uploads as forms."""

import re
from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from urllib.parse import quote

from handspan.core.artifacts import ArtifactRef, Artifacts
from handspan.core.errors import WireError
from handspan.core.values import strip_invisible
from handspan.gateway.http.bodies import read_pieces
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import StreamedResponse
from handspan.wire.multipart import Multipart, PartBegin, PartData, PartEnd, PartEvent

BINARY: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_RUNS_IN_PAGES: Final = re.compile(r"javascript|ecmascript|jscript|livescript|css")
"""Types that an address of ours in a `<script>` or a `<link>` would need: an artifact is never a part of a page."""
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_PIECE: Final = 256 * 1024
_FORM_BYTES: Final = 256 * 1024
"""Bytes of a form around its file."""
_LONGEST_NAME: Final = 200
_HARMLESS: Final = {
    # HTML or SVG of a stranger must not run as if it were our page.
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}


class _ByteRange(NamedTuple):
    begin: int
    end: int
    """The first byte after the range."""


def download(request: AsgiRequest, artifacts: Artifacts, ref: ArtifactRef, owner: str) -> AsgiResponse:
    """Return the artifact, or the part that `Range` names. Raises `Refusal` when there is no such part."""
    part = _read_range(request.headers.get("range", ""), ref.size)
    headers = _headers(ref.name or ref.id)
    if part is None:
        part, status = _ByteRange(0, ref.size), 200
    else:
        status = 206
        headers["content-range"] = f"bytes {part.begin}-{part.end - 1}/{ref.size}"
    headers["content-length"] = str(part.end - part.begin)
    if request.method == "HEAD":
        return AsgiResponse(None, status, headers, _type_sent(ref.media_type))
    pieces = FilePieces(artifacts, owner, ref, part)
    return StreamedResponse(pieces, _type_sent(ref.media_type), headers, piece_seconds=None, status=status)


class FilePieces:
    """Reads a part of an artifact piece by piece. Implements `PieceSource`."""

    def __init__(self, artifacts: Artifacts, owner: str, ref: ArtifactRef, part: _ByteRange) -> None:
        self._artifacts, self._owner, self._id = artifacts, owner, ref.id
        self._at, self._end = part

    async def next(self) -> bytes | None:
        """Return the next piece; None after the last one."""
        limit = min(_PIECE, self._end - self._at)
        if limit <= 0:
            return None
        data = await self._artifacts.read(self._id, owner=self._owner, offset=self._at, limit=limit)
        self._at += len(data)
        return data or None

    def end(self) -> None:
        """Stop: the client has gone, and gets no next piece."""
        self._at = self._end


class NoFile(WireError):
    """A form has no file under the expected name."""


class UploadedFile:
    """The file in a form, while it arrives."""

    def __init__(self, form: AsyncIterator[PartEvent], began: PartBegin, limit: int) -> None:
        self.name = file_name(began.file_name or "")[-_LONGEST_NAME:]
        self.media_type = media_type_of(began.media_type)
        self._field = began.name
        self._form = form
        self._limit = limit

    async def bytes(self) -> AsyncIterator[bytes]:
        """Yield the file, then check the rest of the form. Raises `Refusal` or `WireError` for a bad form."""
        size = 0
        async for event in self._form:
            if isinstance(event, PartEnd):
                break
            assert isinstance(event, PartData), "a part begins when the one before it has ended"
            size += len(event.data)
            if size > self._limit:
                text = f"The file has more than {self._limit} bytes, which are the limit here"
                raise Refusal(413, "too_large", f"{text} (setting gateway.upload_bytes).")
            yield event.data
        async for event in self._form:
            if isinstance(event, PartBegin) and event.name == self._field:
                raise WireError(f"There are two files: send one form for each, with one {self._field!r}.")


async def uploaded_file(request: AsgiRequest, field: str, limit: int, seconds: float) -> UploadedFile:
    """Return the file of a form. Raises `NoFile`, `WireError` for a bad form, `Refusal` when it is too large."""
    form = _form(request, limit + _FORM_BYTES, seconds)
    async for event in form:
        if isinstance(event, PartBegin) and event.name == field:
            return UploadedFile(form, event, limit)
    raise NoFile(f"There is no file in the form: send it under the name {field!r}.")


async def _form(request: AsgiRequest, limit: int, seconds: float) -> AsyncIterator[PartEvent]:
    form = Multipart(request.headers.get("content-type", ""))
    async for piece in read_pieces(request, limit, seconds):
        for event in form.feed(piece):
            yield event
    form.end()


def media_type_of(header: str) -> str:
    """Return the header's media type if it is valid; else that of plain bytes."""
    kind = header.partition(";")[0].strip().lower()
    return kind if _MEDIA_TYPE.fullmatch(kind) else BINARY


def file_name(given: str) -> str:
    """Return the last part of a path, without invisible characters."""
    return " ".join(strip_invisible(given).split()).replace("\\", "/").rpartition("/")[2]


def respond_bytes(data: bytes, media_type: str, name: str) -> AsgiResponse:
    """Return a small file, with the headers of a download."""
    return AsgiResponse(data, headers=_headers(name), media_type=_type_sent(media_type_of(media_type)))


def _type_sent(media_type: str) -> str:
    """Return the type that a browser is told: it takes a script or a style of another type from nowhere (nosniff)."""
    return "text/plain" if _RUNS_IN_PAGES.search(media_type) else media_type


def _headers(name: str) -> dict[str, str]:
    return {
        **PRIVATE,
        **_HARMLESS,
        "accept-ranges": "bytes",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }


def _read_range(header: str, size: int) -> _ByteRange | None:
    """Return the range of a `Range` header; None for the whole. Invalid headers are ignored (RFC 9110 14.2)."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found.groups()
    if not first and not size and int(last):
        return None  # RFC 9110 14.1.2: a suffix of an empty file is the whole
    begin = int(first) if first else max(0, size - int(last))
    end = size if not first or not last else min(size, int(last) + 1)
    if first and last and int(last) < int(first):
        return None
    if begin >= size or begin >= end:
        text = f"The artifact has {size} bytes: there is nothing at {header[:60]!r}."
        raise Refusal(416, "range_not_satisfiable", text, headers={"content-range": f"bytes */{size}"})
    return _ByteRange(begin, end)
