"""Artifacts: images, sounds and files. Uploaded, and read by range (SPEC X3, X4; ws.md 5.10)."""

from collections.abc import Sequence
from typing import Final

from handspan.core.artifacts import StoredArtifact
from handspan.core.errors import ToolError
from handspan.core.results import Attachment
from handspan.gateway.http.bodies import read_pieces
from handspan.gateway.http.files import BINARY, download, file_name, media_type_of, respond_bytes
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest.artifacts import ArtifactList, ArtifactView, ListedArtifact, UploadQuery

family: Final = Family("artifacts")


@family.post("/api/artifacts", "device", status=201, takes=BINARY, size="upload", also_refuses=(404,))
async def upload(request: RestRequest, query: UploadQuery) -> ArtifactView:
    """Store the body of this request as an artifact. `Content-Type` is its media type."""
    asgi, artifacts, limits = request.asgi, request.parts.artifacts, request.rest.limits
    await _check_session(request, query.session)
    ref = await artifacts.receive(
        read_pieces(asgi, limits.of("upload"), limits.seconds),
        owner=request.owner,
        session=query.session,
        media_type=media_type_of(asgi.headers.get("content-type", "")),
        name=file_name(query.name),
    )
    try:
        await _check_session(request, query.session)
    except ToolError as error:
        if error.code == "file_not_found":  # deleted during the upload: its artifacts go too (SPEC S6)
            await artifacts.forget_session(query.session, owner=request.owner)
        raise
    return ArtifactView(ref.id, ref.size, ref.media_type, ref.name)


async def respond_attachment(request: RestRequest, attachments: Sequence[Attachment], index: str) -> AsgiResponse:
    """Return the file with this number, as the path names it. Raises `Refusal` (404) when there is none."""
    number = int(index) if index.isdecimal() and len(index) < 10 else -1
    if not 0 <= number < len(attachments):
        raise Refusal(404, "not_found", f"There is no file {index[:20]!r}: it has {len(attachments)}, counted from 0.")
    wanted = attachments[number]
    if wanted.artifact is None:
        return respond_bytes(wanted.data, wanted.media_type, wanted.name or "file")
    ref = await request.parts.artifacts.get(wanted.artifact.id, owner=request.owner)
    return download(request.asgi, request.parts.artifacts, ref, request.owner)


@family.get("/api/artifacts")
async def artifacts(request: RestRequest) -> ArtifactList:
    """The caller's artifacts, the newest first."""
    found = await request.parts.artifacts.all(owner=request.owner)
    deleted = await request.store.conversations.deleted(owner=request.owner)  # they go with their session, a bit later
    return ArtifactList([_render_stored(one) for one in found if one.session not in deleted])


@family.get("/api/artifacts/{artifact_id}", media_type=BINARY, also={206: AsgiResponse}, also_refuses=(416,))
async def read(request: RestRequest, artifact_id: str) -> AsgiResponse:
    """The artifact, or the part that `Range` names."""
    ref = await request.parts.artifacts.get(artifact_id, owner=request.owner)
    return download(request.asgi, request.parts.artifacts, ref, request.owner)


def _render_stored(one: StoredArtifact) -> ListedArtifact:
    ref = one.ref
    return ListedArtifact(ref.id, ref.size, ref.media_type, ref.name, session=one.session, at=moment(one.at))


async def _check_session(request: RestRequest, session: str) -> None:
    if session:
        await request.find_session(session)
