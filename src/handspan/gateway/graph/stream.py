"""`stream`: what happens, chunk by chunk, as it happens (http.md 7)."""

import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.doors import BODY_BYTES, BODY_SECONDS, GraphDoors
from handspan.gateway.graph.faults import fault_of
from handspan.gateway.graph.lines import Lines
from handspan.gateway.graph.runs import Client, Run
from handspan.gateway.rest.body import read_whole
from handspan.wire import graph
from handspan.wire.graph_answers import ChunkEvent, GraphChunk, GraphMessage
from handspan.wire.graph_requests import Asked, Granularity

_LETS_THROUGH: Final[dict[Granularity, frozenset[ChunkEvent]]] = {
    "low": frozenset({"message", "error"}),
    "partial": frozenset({"message", "error", "state"}),
    "full": frozenset({"message", "error", "state", "updates"}),
}
_HEADERS: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
_INSIDE: Final = "The gateway failed inside: its log says more. Try again."
_log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class Chunks:
    """An `Out` that sends each thing as a chunk; the last ones wait for the end, so a call is asked when it is kept."""

    streams = True

    def __init__(
        self, granularity: Granularity, send: Callable[[bytes], None], began: Callable[[str], None] | None = None
    ) -> None:
        """`began` hears the thread."""
        self._passes = _LETS_THROUGH[granularity]
        self._send = send
        self._began = began
        self._thread = ""
        self._run = ""
        self._is_new = False
        self._ends = False
        self._sent = False
        self._held: list[GraphChunk] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Every chunk says where it belongs."""
        self._thread, self._run, self._is_new = thread, run, is_new
        if self._began is not None:
            self._began(thread)

    @property
    def has_begun(self) -> bool:
        """Whether something was sent: an error has to be a chunk, then."""
        return self._sent

    def message(self, message: GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """A `message` chunk."""
        self._put("message", message, data, metadata)

    def update(self, data: JsonObject) -> None:
        """An `updates` chunk."""
        if "updates" in self._passes:
            self._put("updates", None, data)

    def end(self) -> None:
        """Hold back what comes from now on until `ended`."""
        self._ends = True

    def ended(self, run: Run) -> None:
        """Tell how the run stands (http.md 7.6)."""
        if self._held:
            last = self._held.pop()
            meta = {**last.metadata, "meta": msgspec.to_builtins(run.meta)}
            self._held.append(structs.replace(last, metadata=meta))
        self._flush()

    def failed(self, error: Exception) -> None:
        """Tell what went wrong."""
        fault = fault_of(error)
        if fault is None:
            _log.error("A run of the graph API failed", exc_info=error)
        told: JsonObject = {"reason": fault.message, "code": fault.code} if fault else {"reason": _INSIDE}
        self._flush()
        self._out(self._chunk("error", None, told))

    def _put(
        self, event: ChunkEvent, message: GraphMessage | None, data: Json, metadata: JsonObject | None = None
    ) -> None:
        chunk = self._chunk(event, message, data, metadata)
        if self._ends:
            self._held.append(chunk)
        else:
            self._out(chunk)

    def _flush(self) -> None:
        held, self._held = self._held, []
        for chunk in held:
            self._out(chunk)

    def _out(self, chunk: GraphChunk) -> None:
        self._sent = True
        self._send(_encode(chunk))

    def _chunk(
        self, event: ChunkEvent, message: GraphMessage | None, data: Json, metadata: JsonObject | None = None
    ) -> GraphChunk:
        about: JsonObject = {"is_new_thread": self._is_new, "thread_id": self._thread}
        return GraphChunk(
            event=event,
            message=message,
            data=data,
            thread_id=self._thread,
            run_id=self._run,
            metadata={**metadata, **about} if metadata else about,
            timestamp=time.time(),
        )


async def stream(doors: GraphDoors, client: Client, request: Request) -> Response:
    """Lines of JSON. What fails before the first of them is an ordinary answer."""
    body = await read_whole(request, BODY_BYTES, BODY_SECONDS)
    key = request.headers.get("idempotency-key", "")[:200]
    lines = await doors.streams.answer(client.id, key, body, lambda: _begin(doors, client, graph.read_asked(body)))
    return StreamingResponse(aiter(lines), headers=_HEADERS, media_type="application/x-ndjson")


async def _begin(doors: GraphDoors, client: Client, asked: Asked) -> Lines:
    lines = Lines()
    doors.runs.start(_run(doors, client, asked, lines))
    await lines.begun()
    return lines


async def _run(doors: GraphDoors, client: Client, asked: Asked, lines: Lines) -> None:
    """The run, told to its end."""
    chunks = Chunks(asked.response_granularity, lines.put)
    try:
        chunks.ended(await doors.runs.run(client, asked, chunks))
    except Exception as error:
        if chunks.has_begun:
            chunks.failed(error)
        else:
            lines.error = error
    finally:
        lines.end()
