"""`/v1/graph/ws`: runs over one WebSocket, a request at a time (graph.md 7.7)."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from handspan.core.values import Json
from handspan.gateway.clients.transport import EXTENSION, Socket
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.tokens import AGENTFLOW
from handspan.gateway.graph.chunks import ChunkWriter
from handspan.gateway.graph.request import BODY_BYTES, GraphParts
from handspan.gateway.graph.threads import state_of
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.runs.client import RunClient
from handspan.wire.graph import reading as graph
from handspan.wire.graph.faults import BodyError
from handspan.wire.graph.requests import Granularity, RunRequest, Stop

_PAUSE: Final = 0.1
"""Seconds without reading after a wrong message: a client that floods has to wait."""


class GraphSocketDoor:
    """The ASGI application of the WebSocket."""

    def __init__(self, auth: Auth, parts: GraphParts, backlog_bytes: int, is_open: Callable[[], bool]) -> None:
        self._auth = auth
        self._parts = parts
        self._backlog_bytes = backlog_bytes
        self._is_open = is_open
        self._connections: set[GraphConnection] = set()

    def revoke(self, token: str) -> None:
        """Close the connections that this token opened."""
        for connection in tuple(self._connections):
            if connection.token == token:
                connection.close(1008, "the token was revoked")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Accept a client, or refuse it."""
        admitted = await self._auth.admit_socket(scope, receive, send, self._is_open, needs="chat")
        if admitted is None:
            return
        offered = scope.get("subprotocols") or ()
        await send({"type": "websocket.accept", "subprotocol": AGENTFLOW if AGENTFLOW in offered else None})
        socket: Socket = scope["extensions"][EXTENSION]
        socket.backlog_limit = self._backlog_bytes
        socket.let_in(lambda: BODY_BYTES)
        connection = GraphConnection(
            self._parts, RunClient.of(admitted), admitted.token, socket, among=self._connections
        )
        self._connections.add(connection)
        socket.take(connection)


class GraphConnection:
    """One connection: reads requests, and sends the chunks of their runs."""

    def __init__(
        self, parts: GraphParts, client: RunClient, token: str, socket: Socket, among: "set[GraphConnection]"
    ) -> None:
        self._parts = parts
        self._runs = parts.runs
        self._client = client
        self._socket = socket
        self._all = among
        self._running: asyncio.Task[None] | None = None
        self._thread = ""
        """The thread of the connection's run, while the run is at work or suspended."""
        self._is_stopped = False
        """Whether the client wants to stop its run. The run is stopped as soon as its thread is known."""
        self.token = token

    def on_message(self, data: bytes) -> None:
        """Take one request."""
        try:
            message = graph.read_ws(data)
        except BodyError as error:
            self._refuse(error)
            self._socket.pause(_PAUSE)
            return
        if isinstance(message, Stop):
            self._stop()
        elif self._running is not None:
            text = "A run is at work on this connection: wait for its end, or use another connection."
            self._chunks("low").fail(Refusal(409, "GRAPH_BUSY", text))
        else:
            suspended, self._thread, self._is_stopped = self._thread, "", False
            self._running = self._runs.start(self._run(message.request, suspended))

    def on_close(self, code: int) -> None:
        """Forget the connection. Its run goes on, and ends in its thread (graph.md 4.7)."""
        self._all.discard(self)

    def close(self, code: int, reason: str) -> None:
        """Close the connection."""
        self._socket.close(code, reason)

    async def _run(self, run_request: RunRequest, suspended: str) -> None:
        """Run a request, and send its chunks. `suspended`: the thread whose run waits on this connection."""
        chunks = self._chunks(run_request.response_granularity, questions=run_request.questions)
        meta: Json = None
        try:
            end = await self._runs.run(self._client, run_request, chunks)
            state = await state_of(self._parts, self._client, end.thread_id) if chunks.wants_state else None
            chunks.finish(end, state, always=False)  # `done` ends the answer anyway
            meta = msgspec.to_builtins(end)
            self._thread = end.thread_id if end.status == "interrupted" else ""
        except Exception as error:  # any error: the client gets it, and then the end
            self._thread = "" if self._thread else suspended  # nothing has begun: the suspended run still waits
            chunks.fail(error)
        finally:
            self._running = None
            self._send_done(meta)
            if self._is_stopped:  # the run may be suspended now, and its thread was unknown before
                self._stop()

    def _refuse(self, error: BodyError) -> None:
        chunks = self._chunks("low")
        chunks.fail(Refusal(422, "VALIDATION_ERROR", f"Invalid request: {error}", details=error.details))
        if self._running is None:
            self._send_done(None)

    def _chunks(self, granularity: Granularity, *, questions: bool = False) -> ChunkWriter:
        return ChunkWriter(granularity, self._socket.send_text, self._began, questions=questions)

    def _began(self, thread: str) -> None:
        self._thread = thread
        if self._is_stopped:
            self._stop()

    def _stop(self) -> None:
        self._is_stopped = self._running is not None
        if self._thread:
            self._runs.start(self._runs.stop(self._client, self._thread))

    def _send_done(self, meta: Json) -> None:
        """Send `done`, which ends every answer: clients wait for it (graph.md 7.7)."""
        self._socket.send_text(msgspec.json.encode({"event": "updates", "data": {"status": "done", "meta": meta}}))
