"""Files of the owner, stored as artifacts: uploaded as a form, read by range (graph.md 9.4)."""

from typing import Final

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import StoreError, ToolError, WireError
from handspan.gateway.graph.request import BODY_SECONDS, GraphRequest
from handspan.gateway.http.files import NoFile, download, uploaded_file
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.wire.graph.answers import FileAnswer, FileUrlAnswer, MultimodalAnswer, UploadAnswer
from handspan.wire.graph.faults import BodyError, Detail

_FIELD: Final = "file"
_MB: Final = 1024 * 1024


async def upload(request: GraphRequest) -> UploadAnswer:
    """Store a file."""
    try:
        form = await uploaded_file(request.asgi, _FIELD, _limit(request), BODY_SECONDS)
        ref = await request.parts.artifacts.receive(
            form.bytes(), owner=request.owner, media_type=form.media_type, name=form.name
        )
    except WireError as error:
        kind = "missing" if isinstance(error, NoFile) else "value_error"
        raise BodyError([Detail(["body", _FIELD], str(error), kind)]) from None
    except ToolError as error:
        raise _upload_error(error) from error
    return UploadAnswer(
        file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or ref.id, url=_url(ref)
    )


async def file(request: GraphRequest) -> AsgiResponse:
    """Return the file, or the part that `Range` names. Its headers keep a browser from running it."""
    return download(request.asgi, request.parts.artifacts, await _ref(request), request.owner)


async def file_info(request: GraphRequest) -> FileAnswer:
    """Return the type, size and name of a file."""
    ref = await _ref(request)
    return FileAnswer(file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or None)


async def file_url(request: GraphRequest) -> FileUrlAnswer:
    """Return the address of a file. Reading it needs the token too."""
    ref = await _ref(request)
    return FileUrlAnswer(file_id=ref.id, url=_url(ref), mime_type=ref.media_type)


async def multimodal(request: GraphRequest) -> MultimodalAnswer:
    """Return the largest size of a file."""
    return MultimodalAnswer(media_max_size_mb=_limit(request) / _MB)


def _limit(request: GraphRequest) -> int:
    return request.parts.app.settings.gateway.upload_bytes


async def _ref(request: GraphRequest) -> ArtifactRef:
    return await request.parts.artifacts.get(request.path_id("file_id"), owner=request.owner)


def _url(ref: ArtifactRef) -> str:
    return f"/v1/files/{ref.id}"


def _upload_error(error: ToolError) -> Refusal | StoreError:
    if error.code == "file_too_large":
        return Refusal(413, "too_large", error.message)
    return error if isinstance(error, StoreError) else StoreError(error.message)
