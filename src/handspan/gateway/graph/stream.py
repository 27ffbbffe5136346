"""`stream`: what happens, chunk by chunk, as it happens (graph.md 7)."""

from typing import Final

from handspan.core.errors import StoreError
from handspan.gateway.graph.asking import body_of
from handspan.gateway.graph.chunks import Chunks
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.lines import LineReader, Lines
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.graph.state import state_of
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.streams import LINES, Streamed
from handspan.wire.graph import reading as graph
from handspan.wire.graph.requests import Asked

_HEADERS: Final = {"cache-control": "no-cache, no-transform"}


async def stream(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> AsgiResponse:
    """Lines of JSON. What fails before the first of them is an ordinary answer."""
    lines = doors.open_streams.open(request.scope["state"]["admitted"].token)
    body = await body_of(request)
    lines.refuse()
    key = request.headers.get("idempotency-key", "")[:200]
    told = await doors.streams.answer(
        client.id, key, fingerprint(body), lambda: _begin(doors, client, graph.read_asked(body), lines, key)
    )
    return Streamed(LineReader(told), LINES, _HEADERS, patience=None)


async def _begin(doors: GraphDoors, client: GraphClient, asked: Asked, lines: Lines, key: str) -> Lines:
    doors.runs.start(_run(doors, client, asked, lines, key))
    await lines.begun()
    return lines


async def _run(doors: GraphDoors, client: GraphClient, asked: Asked, lines: Lines, key: str) -> None:
    """The run, told to its end."""
    chunks = Chunks(asked.response_granularity, lines.put, place=lines.place)
    try:
        run = await doors.runs.run(client, asked, chunks)
        chunks.ended(run, await state_of(doors, client, run.meta.thread_id) if chunks.wants_state else None)
    except Exception as error:  # whatever it was: who reads hears of it, and that it is over
        if chunks.has_begun:
            chunks.failed(error)
        else:
            lines.error = error
        if isinstance(error, StoreError):
            doors.streams.forget(client.id, key)  # who asks again is heard again (graph.md 5.6)
    finally:
        lines.end()
