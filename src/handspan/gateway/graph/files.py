"""Files of the owner, which are artifacts: uploaded as a form, read by range (http.md 9.4)."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import StoreError, ToolError, WireError
from handspan.gateway.graph.asking import id_of
from handspan.gateway.graph.doors import BODY_SECONDS, GraphDoors
from handspan.gateway.graph.faults import GraphFault
from handspan.gateway.graph.runs import Client
from handspan.gateway.rest.body import pieces
from handspan.gateway.rest.downloads import download, file_name, media_type_of
from handspan.wire.graph_faults import BodyError, Detail
from handspan.wire.graph_files import FileAnswer, FileUrlAnswer, MultimodalAnswer, UploadAnswer
from handspan.wire.multipart import Began, Data, Ended, Happening, Multipart

_FIELD: Final = "file"
_AROUND_IT: Final = 256 * 1024
"""Bytes of a form that are not of its file."""
_MB: Final = 1024 * 1024
_LONGEST_NAME: Final = 200


class _Upload:
    """The file in a form, as it comes. What is wrong with the form, also behind the file, is raised meanwhile."""

    def __init__(self, form: AsyncIterator[Happening], began: Began, most: int) -> None:
        self.name = file_name(began.file_name or "")[-_LONGEST_NAME:]
        self.media_type = media_type_of(began.media_type)
        self._form = form
        self._most = most

    async def bytes(self) -> AsyncIterator[bytes]:
        """All of it; then the rest of the form is read, in which no other file may be."""
        size = 0
        async for happening in self._form:
            if isinstance(happening, Ended):
                break
            assert isinstance(happening, Data), "a part begins when the one before it has ended"
            size += len(happening.data)
            if size > self._most:
                raise _too_large(self._most)
            yield happening.data
        async for happening in self._form:
            if isinstance(happening, Began) and happening.name == _FIELD:
                raise _wrong(f"There are two files: send one form for each, with one {_FIELD!r}.")


async def upload(doors: GraphDoors, client: Client, request: Request) -> UploadAnswer:
    """Keep a file."""
    coming = await _begun(request, doors.upload_bytes)
    try:
        ref = await doors.artifacts.receive(
            coming.bytes(), owner=client.who.owner, media_type=coming.media_type, name=coming.name
        )
    except ToolError as error:
        raise _not_kept(error) from error
    return UploadAnswer(
        file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or ref.id, url=_url(ref)
    )


async def file(doors: GraphDoors, client: Client, request: Request) -> Response:
    """The file, or the part of it that `Range` names; never as something that a browser runs."""
    return download(request, doors.artifacts, await _ref(doors, client, request), client.who.owner)


async def file_info(doors: GraphDoors, client: Client, request: Request) -> FileAnswer:
    """What is known of it."""
    ref = await _ref(doors, client, request)
    return FileAnswer(file_id=ref.id, mime_type=ref.media_type, size_bytes=ref.size, filename=ref.name or None)


async def file_url(doors: GraphDoors, client: Client, request: Request) -> FileUrlAnswer:
    """Where it is; whoever asks there needs the token too."""
    ref = await _ref(doors, client, request)
    return FileUrlAnswer(file_id=ref.id, url=_url(ref), mime_type=ref.media_type)


async def multimodal(doors: GraphDoors, client: Client, request: Request) -> MultimodalAnswer:
    """How large a file may be."""
    return MultimodalAnswer(media_max_size_mb=doors.upload_bytes / _MB)


async def _ref(doors: GraphDoors, client: Client, request: Request) -> ArtifactRef:
    return await doors.artifacts.get(id_of(request, "file_id"), owner=client.who.owner)


def _url(ref: ArtifactRef) -> str:
    return f"/v1/files/{ref.id}"


async def _begun(request: Request, most: int) -> _Upload:
    """The form up to where its file begins."""
    form = _form(request, most)
    async for happening in form:
        if isinstance(happening, Began) and happening.name == _FIELD:
            return _Upload(form, happening, most)
    raise _wrong(f"There is no file in the form: send it under the name {_FIELD!r}.", "missing")


async def _form(request: Request, most: int) -> AsyncIterator[Happening]:
    """What is in the form, to its end; what can't be a form is a `BodyError`."""
    try:
        form = Multipart(request.headers.get("content-type", ""))
        async for piece in pieces(request, most + _AROUND_IT, BODY_SECONDS):
            for happening in form.feed(piece):
                yield happening
        form.end()
    except WireError as error:
        raise _wrong(str(error)) from None


def _wrong(text: str, kind: str = "value_error") -> BodyError:
    return BodyError([Detail(["body", _FIELD], text, kind)])


def _too_large(most: int) -> GraphFault:
    text = f"The file has more than {most} bytes, which are the limit here (setting gateway.upload_bytes)."
    return GraphFault(413, "REQUEST_TOO_LARGE", text)


def _not_kept(error: ToolError) -> GraphFault | StoreError:
    if error.code == "file_too_large":
        return GraphFault(413, "REQUEST_TOO_LARGE", error.message)
    return error if isinstance(error, StoreError) else StoreError(error.message)
