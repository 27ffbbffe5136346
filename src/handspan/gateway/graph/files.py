"""Files of the owner, stored as artifacts: uploaded as a form, read by range (graph.md 9.4)."""

from typing import Final

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import StoreError, ToolError, WireError
from handspan.gateway.graph.envelope import BODY_SECONDS, path_id
from handspan.gateway.graph.parts import GraphParts
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.files import NoFile, download, uploaded_file
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.files import FileAnswer, FileUrlAnswer, MultimodalAnswer, UploadAnswer

_FIELD: Final = "file"
_MB: Final = 1024 * 1024


async def upload(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> UploadAnswer:
    """Store a file."""
    try:
        upload_form = await uploaded_file(
            request, _FIELD, parts.gateway.app.settings.gateway.upload_bytes, BODY_SECONDS
        )
        ref = await parts.gateway.artifacts.receive(
            upload_form.bytes(), owner=client.who.owner, media_type=upload_form.media_type, name=upload_form.name
        )
    except WireError as error:
        kind = "missing" if isinstance(error, NoFile) else "value_error"
        raise BodyError([Detail(["body", _FIELD], str(error), kind)]) from None
    except ToolError as error:
        raise _upload_error(error) from error
    return UploadAnswer(
        file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or ref.id, url=_url(ref)
    )


async def file(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> AsgiResponse:
    """Return the file, or the part that `Range` names. Its headers keep a browser from running it."""
    return download(request, parts.gateway.artifacts, await _ref(parts, client, request), client.who.owner)


async def file_info(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> FileAnswer:
    """Return the type, size and name of a file."""
    ref = await _ref(parts, client, request)
    return FileAnswer(file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or None)


async def file_url(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> FileUrlAnswer:
    """Return the address of a file. Reading it needs the token too."""
    ref = await _ref(parts, client, request)
    return FileUrlAnswer(file_id=ref.id, url=_url(ref), mime_type=ref.media_type)


async def multimodal(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> MultimodalAnswer:
    """Return the largest size of a file."""
    return MultimodalAnswer(media_max_size_mb=parts.gateway.app.settings.gateway.upload_bytes / _MB)


async def _ref(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> ArtifactRef:
    return await parts.gateway.artifacts.get(path_id(request, "file_id"), owner=client.who.owner)


def _url(ref: ArtifactRef) -> str:
    return f"/v1/files/{ref.id}"


def _upload_error(error: ToolError) -> Refusal | StoreError:
    if error.code == "file_too_large":
        return Refusal(413, "too_large", error.message)
    return error if isinstance(error, StoreError) else StoreError(error.message)
