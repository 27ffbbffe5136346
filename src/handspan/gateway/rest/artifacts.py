"""Artifacts: images, sounds and files, uploaded and read by range (SPEC X3, X4; ws.md 5.10)."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote

from msgspec import Meta, Struct
from starlette.responses import Response, StreamingResponse

from handspan.core.artifacts import ArtifactRef
from handspan.core.clean import visible
from handspan.core.errors import ToolError
from handspan.gateway.rest.body import pieces
from handspan.gateway.rest.errors import PRIVATE, Problem
from handspan.gateway.rest.route import Family, Visit
from handspan.gateway.rest.shown import SessionId

family: Final = Family("artifacts")
_BINARY: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_PIECE: Final = 256 * 1024
_HARMLESS: Final = {
    # Somebody else's HTML or SVG must not run as if it were our page.
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}


class UploadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What is uploaded."""

    name: Annotated[str, Meta(max_length=200)] = ""
    session: SessionId = ""
    """It is deleted with this session."""


class ShownArtifact(Struct, frozen=True):
    """The handle of something kept aside."""

    id: str
    size: int
    media_type: str
    name: str


class _Part(NamedTuple):
    begin: int
    end: int
    """The first byte that does not belong to it."""


@family.post("/api/artifacts", "device", status=201, takes=_BINARY, size="upload", also_refuses=(404,))
async def upload(visit: Visit, query: UploadQuery) -> ShownArtifact:
    """Keep the body of this request; `Content-Type` says what it is."""
    request, artifacts, limits = visit.request, visit.doors.artifacts, visit.doors.limits
    await _check_session(visit, query.session)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    media_type = kind if _MEDIA_TYPE.fullmatch(kind) else _BINARY
    ref = await artifacts.receive(
        pieces(request, limits.of("upload"), limits.seconds),
        owner=visit.owner,
        session=query.session,
        media_type=media_type,
        name=_file_name(query.name),
    )
    try:
        await _check_session(visit, query.session)
    except ToolError as error:
        if error.code == "file_not_found":  # deleted while this came: what belongs to it goes with it (SPEC S6)
            await artifacts.forget_session(query.session, owner=visit.owner)
        raise
    return ShownArtifact(ref.id, ref.size, ref.media_type, ref.name)


@family.get("/api/artifacts/{artifact_id}", media_type=_BINARY, also={206: Response}, also_refuses=(416,))
async def read(visit: Visit, artifact_id: str) -> Response:
    """The artifact, or the part of it that `Range` names."""
    ref = await visit.doors.artifacts.get(artifact_id, owner=visit.owner)
    part = _part(visit.request.headers.get("range", ""), ref.size)
    headers = _headers(ref)
    if part is None:
        part, status = _Part(0, ref.size), 200
    else:
        status = 206
        headers["content-range"] = f"bytes {part.begin}-{part.end - 1}/{ref.size}"
    headers["content-length"] = str(part.end - part.begin)
    if visit.request.method == "HEAD":
        return Response(None, status, headers, ref.media_type)
    return StreamingResponse(_pieces(visit, ref, part), status, headers, ref.media_type)


async def _check_session(visit: Visit, session: str) -> None:
    if session:
        await visit.doors.store.conversations.get(session, owner=visit.owner)


async def _pieces(visit: Visit, ref: ArtifactRef, part: _Part) -> AsyncIterator[bytes]:
    at = part.begin
    while at < part.end:
        limit = min(_PIECE, part.end - at)
        data = await visit.doors.artifacts.read(ref.id, owner=visit.owner, offset=at, limit=limit)
        if not data:
            return
        at += len(data)
        yield data


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
        raise Problem(416, "range_not_satisfiable", text, {"content-range": f"bytes */{size}"})
    return _Part(begin, end)


def _file_name(given: str) -> str:
    """The last part of the name, without what nobody sees."""
    return " ".join(visible(given).split()).replace("\\", "/").rpartition("/")[2]
