"""What happens in a run, as chunks (graph.md 7.2)."""

import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct, structs

from handspan.core.errors import StoreError
from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.envelope import refusal_of
from handspan.gateway.graph.following import INTERRUPTED, MODEL, TOOLS
from handspan.gateway.graph.runs import RunState
from handspan.gateway.http.refusals import is_own_fault
from handspan.wire.graph.answers import ChunkEvent, GraphChunk, GraphMessage, GraphState, Meta
from handspan.wire.graph.faults import code_of
from handspan.wire.graph.requests import Granularity

_LETS_THROUGH: Final[dict[Granularity, frozenset[ChunkEvent]]] = {
    "low": frozenset({"message", "error"}),
    "partial": frozenset({"message", "error", "state"}),
    "full": frozenset({"message", "error", "state", "updates"}),
}
_log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class RunPlace(Struct):
    """Where a run is; known when it has begun."""

    thread: str = ""
    run: str = ""
    is_new: bool = False

    def chunk(
        self, event: ChunkEvent, message: GraphMessage | None, data: Json, metadata: JsonObject | None = None
    ) -> GraphChunk:
        """A chunk that says where it belongs."""
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


def error_chunk(error: Exception, place: RunPlace) -> bytes:
    """What went wrong, in the words of graph.md 1.3; what nobody foresaw is in the log, and in no chunk."""
    refusal = refusal_of(error)
    if is_own_fault(error, refusal):
        _log.error("A run of the graph API failed", exc_info=error)
    data: JsonObject = {"reason": refusal.message, "code": code_of(refusal.status, refusal.code)}
    return _encode(place.chunk("error", None, data))


class Chunks:
    """An `Out` that sends each thing as a chunk; the last ones wait for the end, so a call is asked when it is kept."""

    streams = True

    def __init__(
        self,
        granularity: Granularity,
        send: Callable[[bytes], None],
        began: Callable[[str], None] | None = None,
        place: RunPlace | None = None,
    ) -> None:
        """`began` hears the thread; `place` is filled when it is known."""
        self._passes = _LETS_THROUGH[granularity]
        self._send = send
        self._began = began
        self._place = place or RunPlace()
        self._ends = False
        self._sent = False
        self._held: list[GraphChunk] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Every chunk says where it belongs."""
        self._place.thread, self._place.run, self._place.is_new = thread, run, is_new
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

    @property
    def wants_state(self) -> bool:
        """Whether the state of the thread is to be told at the end."""
        return "state" in self._passes

    def ended(self, run: RunState, state: GraphState | None = None, *, says_so: bool = True) -> None:
        """Tell how the run stands (graph.md 7.6); `says_so`: in a chunk of its own if there is no other (7.8)."""
        if not self._held and says_so:
            self._held.append(self._end_of(run.meta))
        if state is not None:
            told = structs.replace(self._place.chunk("state", None, None), state=state)
            self._held.insert(len(self._held) - 1, told)
        if self._held:
            last = self._held.pop()
            meta = {**last.metadata, "meta": msgspec.to_builtins(run.meta)}
            self._held.append(structs.replace(last, metadata=meta))
        self._flush()

    def failed(self, error: Exception) -> None:
        """Tell what went wrong. What was held back is not shown if it may not be kept (graph.md 1.7)."""
        if isinstance(error, StoreError):
            self._held.clear()
        self._flush()
        self._sent = True
        self._send(error_chunk(error, self._place))

    def _end_of(self, meta: Meta) -> GraphChunk:
        if not self._place.thread:  # nothing was heard of it: it waits on, or somebody else has ended it
            self.begin(meta.thread_id, meta.run_id, meta.is_new_thread)
        waits = meta.status == "interrupted"
        node, reason = (TOOLS, INTERRUPTED) if waits else (MODEL, str(meta.status))
        return self._place.chunk("updates", None, {"status": "graph_invoked", "node": node, "reason": reason})

    def _put(
        self, event: ChunkEvent, message: GraphMessage | None, data: Json, metadata: JsonObject | None = None
    ) -> None:
        chunk = self._place.chunk(event, message, data, metadata)
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
