"""Files of the owner, which are artifacts: uploaded as a form, read by range (graph.md 9.4)."""

from typing import Final

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import StoreError, ToolError, WireError
from handspan.gateway.graph.asking import id_of
from handspan.gateway.graph.doors import BODY_SECONDS, GraphDoors
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.files import NoFile, download, uploaded_file
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.files import FileAnswer, FileUrlAnswer, MultimodalAnswer, UploadAnswer

_FIELD: Final = "file"
_MB: Final = 1024 * 1024


async def upload(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> UploadAnswer:
    """Keep a file."""
    try:
        coming = await uploaded_file(request, _FIELD, doors.upload_bytes, BODY_SECONDS)
        ref = await doors.artifacts.receive(
            coming.bytes(), owner=client.who.owner, media_type=coming.media_type, name=coming.name
        )
    except WireError as error:
        kind = "missing" if isinstance(error, NoFile) else "value_error"
        raise BodyError([Detail(["body", _FIELD], str(error), kind)]) from None
    except ToolError as error:
        raise _not_kept(error) from error
    return UploadAnswer(
        file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or ref.id, url=_url(ref)
    )


async def file(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> AsgiResponse:
    """The file, or the part of it that `Range` names; never as something that a browser runs."""
    return download(request, doors.artifacts, await _ref(doors, client, request), client.who.owner)


async def file_info(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> FileAnswer:
    """What is known of it."""
    ref = await _ref(doors, client, request)
    return FileAnswer(file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or None)


async def file_url(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> FileUrlAnswer:
    """Where it is; whoever asks there needs the token too."""
    ref = await _ref(doors, client, request)
    return FileUrlAnswer(file_id=ref.id, url=_url(ref), mime_type=ref.media_type)


async def multimodal(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> MultimodalAnswer:
    """How large a file may be."""
    return MultimodalAnswer(media_max_size_mb=doors.upload_bytes / _MB)


async def _ref(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ArtifactRef:
    return await doors.artifacts.get(id_of(request, "file_id"), owner=client.who.owner)


def _url(ref: ArtifactRef) -> str:
    return f"/v1/files/{ref.id}"


def _not_kept(error: ToolError) -> Refusal | StoreError:
    if error.code == "file_too_large":
        return Refusal(413, "too_large", error.message)
    return error if isinstance(error, StoreError) else StoreError(error.message)
