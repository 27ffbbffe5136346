"""The events of a run as chunks of a stream (graph.md 7.2)."""

import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct, structs

from handspan.core.errors import StoreError
from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.envelope import refusal_of
from handspan.gateway.graph.listener import INTERRUPTED, MODEL, TOOLS
from handspan.gateway.http.refusals import log_own_fault
from handspan.wire.graph.answers import ChunkEvent, GraphChunk, GraphMessage, GraphState, Meta
from handspan.wire.graph.faults import error_code
from handspan.wire.graph.requests import Granularity

_LETS_THROUGH: Final[dict[Granularity, frozenset[ChunkEvent]]] = {
    "low": frozenset({"message", "error"}),
    "partial": frozenset({"message", "error", "state"}),
    "full": frozenset({"message", "error", "state", "updates"}),
}
"""The events that a client gets, by the granularity that it wants."""
_log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class RunLocation(Struct):
    """The thread and the id of a run. Filled when the run begins."""

    thread: str = ""
    run: str = ""
    is_new: bool = False

    def chunk(
        self, event: ChunkEvent, message: GraphMessage | None, data: Json, metadata: JsonObject | None = None
    ) -> GraphChunk:
        """Return a chunk with the thread and the run in it."""
        about: JsonObject = {"is_new_thread": self.is_new, "thread_id": self.thread}
        return GraphChunk(
            event=event,
            message=message,
            data=data,
            thread_id=self.thread,
            run_id=self.run,
            metadata={**metadata, **about} if metadata else about,
            timestamp=time.time(),
        )


def error_chunk(error: Exception, place: RunLocation) -> bytes:
    """Return an error as a chunk, with a code of graph.md 1.3. An unexpected one is logged, and the chunk hides it."""
    refusal = refusal_of(error)
    log_own_fault(_log, "A run of the graph API failed", error, refusal)
    data: JsonObject = {"reason": refusal.message, "code": error_code(refusal.status, refusal.code)}
    return _encode(place.chunk("error", None, data))


class ChunkWriter:
    """Sends the messages of a run as chunks. Implements `RunOutput`.

    The last chunks are held back until `finish`: a call is sent once it is stored.
    """

    streams = True

    def __init__(
        self,
        granularity: Granularity,
        send: Callable[[bytes], None],
        began: Callable[[str], None] | None = None,
        place: RunLocation | None = None,
        questions: bool = False,
    ) -> None:
        """`began` gets the thread when the run begins; `place` is filled then. `questions`: the client shows them."""
        self._shows_questions = questions
        self._passes = _LETS_THROUGH[granularity]
        self.wants_state = "state" in self._passes
        """Whether the client wants the state of the thread at the end."""
        self._send = send
        self._began = began
        self._place = place or RunLocation()
        self._ends = False
        """Whether chunks are held back."""
        self.has_begun = False
        """Whether something was sent. Then an error has to be a chunk."""
        self._held: list[GraphChunk] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Note the thread and the run: every chunk has them."""
        self._place.thread, self._place.run, self._place.is_new = thread, run, is_new
        if self._began is not None:
            self._began(thread)

    def message(self, message: GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """Send a `message` chunk."""
        self._put("message", message, data, metadata)

    def update(self, data: JsonObject) -> None:
        """Send an `updates` chunk, if the client wants those."""
        if "updates" in self._passes:
            self._put("updates", None, data)

    def question(self, data: JsonObject) -> None:
        """Send a question, or its end, if the client shows questions: at every granularity (graph.md 7.10)."""
        if self._shows_questions:
            self._put("updates", None, data)

    def end(self) -> None:
        """Hold back every chunk from now on, until `finish` or `fail`."""
        self._ends = True

    def finish(self, run: Meta, state: GraphState | None = None, *, always: bool = True) -> None:
        """Send the last chunks, with the run's `meta` (graph.md 7.6). `always`: even if none is held back (7.8)."""
        if not self._held and always:
            self._held.append(self._end_chunk(run))
        if state is not None:
            state_chunk = structs.replace(self._place.chunk("state", None, None), state=state)
            self._held.insert(len(self._held) - 1, state_chunk)
        if self._held:
            last = self._held.pop()
            meta = {**last.metadata, "meta": msgspec.to_builtins(run)}
            self._held.append(structs.replace(last, metadata=meta))
        self._flush()

    def fail(self, error: Exception) -> None:
        """Send an error. Chunks that were held back are dropped if they may not be stored (graph.md 1.7)."""
        if isinstance(error, StoreError):
            self._held.clear()
        self._flush()
        self.has_begun = True
        self._send(error_chunk(error, self._place))

    def _end_chunk(self, meta: Meta) -> GraphChunk:
        if not self._place.thread:  # no event came: the run still waits, or another client has ended it
            self.begin(meta.thread_id, meta.run_id, meta.is_new_thread)
        is_waiting = meta.status == "interrupted"
        node, reason = (TOOLS, INTERRUPTED) if is_waiting else (MODEL, str(meta.status))
        return self._place.chunk("updates", None, {"status": "graph_invoked", "node": node, "reason": reason})

    def _put(
        self, event: ChunkEvent, message: GraphMessage | None, data: Json, metadata: JsonObject | None = None
    ) -> None:
        chunk = self._place.chunk(event, message, data, metadata)
        if self._ends:
            self._held.append(chunk)
        else:
            self._send_chunk(chunk)

    def _flush(self) -> None:
        held, self._held = self._held, []
        for chunk in held:
            self._send_chunk(chunk)

    def _send_chunk(self, chunk: GraphChunk) -> None:
        self.has_begun = True
        self._send(_encode(chunk))
