"""Artifacts: images, sounds and files. Uploaded, and read by range (SPEC X3, X4; ws.md 5.10)."""

from typing import Final

from handspan.core.errors import ToolError
from handspan.gateway.http.bodies import read_pieces
from handspan.gateway.http.files import BINARY, download, file_name, media_type_of
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.artifacts import ShownArtifact, UploadQuery

family: Final = Family("artifacts")


@family.post("/api/artifacts", "device", status=201, takes=BINARY, size="upload", also_refuses=(404,))
async def upload(visit: Visit, query: UploadQuery) -> ShownArtifact:
    """Store the body of this request as an artifact. `Content-Type` is its media type."""
    request, artifacts, limits = visit.request, visit.parts.artifacts, visit.parts.limits
    await _check_session(visit, query.session)
    ref = await artifacts.receive(
        read_pieces(request, limits.of("upload"), limits.seconds),
        owner=visit.owner,
        session=query.session,
        media_type=media_type_of(request.headers.get("content-type", "")),
        name=file_name(query.name),
    )
    try:
        await _check_session(visit, query.session)
    except ToolError as error:
        if error.code == "file_not_found":  # deleted during the upload: its artifacts go too (SPEC S6)
            await artifacts.forget_session(query.session, owner=visit.owner)
        raise
    return ShownArtifact(ref.id, ref.size, ref.media_type, ref.name)


@family.get("/api/artifacts/{artifact_id}", media_type=BINARY, also={206: AsgiResponse}, also_refuses=(416,))
async def read(visit: Visit, artifact_id: str) -> AsgiResponse:
    """The artifact, or the part that `Range` names."""
    ref = await visit.parts.artifacts.get(artifact_id, owner=visit.owner)
    return download(visit.request, visit.parts.artifacts, ref, visit.owner)


async def _check_session(visit: Visit, session: str) -> None:
    if session:
        await visit.parts.sessions.record(session, visit.owner)
