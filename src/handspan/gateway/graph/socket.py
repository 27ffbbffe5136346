"""`/v1/graph/ws`: runs over one WebSocket, a request at a time (graph.md 7.7)."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from handspan.core.values import Json
from handspan.gateway.clients.transport import EXTENSION, Socket
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.tokens import AGENTFLOW
from handspan.gateway.graph.chunks import Chunks
from handspan.gateway.graph.doors import BODY_BYTES, GraphDoors
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.graph.state import state_of
from handspan.gateway.http.refusals import Refusal, send_refusal
from handspan.wire.graph import reading as graph
from handspan.wire.graph.faults import BodyError
from handspan.wire.graph.requests import Asked, Granularity, Stop

_PAUSE: Final = 0.1
"""Seconds in which nothing is read after something that made no sense: whoever floods waits."""


class GraphSocketDoor:
    """The ASGI callable."""

    def __init__(self, auth: Auth, doors: GraphDoors, backlog_bytes: int, is_open: Callable[[], bool]) -> None:
        self._auth = auth
        self._doors = doors
        self._backlog_bytes = backlog_bytes
        self._is_open = is_open
        self._connections: set[GraphConnection] = set()

    def revoke(self, token: str) -> None:
        """Close what came in with this token."""
        for connection in tuple(self._connections):
            if connection.token == token:
                connection.close(1008, "the token was revoked")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a client in, or say why not."""
        await receive()
        try:
            admitted = await self._auth.admit(scope)
            client = GraphClient.of(admitted)
            if not self._is_open():
                raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
        except Refusal as refused:
            await send_refusal(refused, scope, send)
            return
        offered = scope.get("subprotocols") or ()
        await send({"type": "websocket.accept", "subprotocol": AGENTFLOW if AGENTFLOW in offered else None})
        socket: Socket = scope["extensions"][EXTENSION]
        socket.backlog_limit = self._backlog_bytes
        socket.let_in(BODY_BYTES)
        connection = GraphConnection(self._doors, client, admitted.token, socket, self._connections)
        self._connections.add(connection)
        socket.take(connection)


class GraphConnection:
    """One connection: reads requests, and shows the runs that they begin."""

    def __init__(
        self, doors: GraphDoors, client: GraphClient, token: str, socket: Socket, among: "set[GraphConnection]"
    ) -> None:
        self._doors = doors
        self._runs = doors.runs
        self._client = client
        self._socket = socket
        self._all = among
        self._running: asyncio.Task[None] | None = None
        self._thread = ""
        """Of its run, while that is at work or suspended."""
        self._is_stopped = False
        """Its run is to be stopped as soon as its thread is known."""
        self.token = token

    def on_message(self, data: bytes) -> None:
        """One request."""
        try:
            request = graph.read_ws(data)
        except BodyError as error:
            self._refuse(error)
            self._socket.pause(_PAUSE)
            return
        if isinstance(request, Stop):
            self._stop()
        elif self._running is not None:
            text = "A run is at work on this connection: wait for its end, or use another connection."
            self._chunks("low").failed(Refusal(409, "GRAPH_BUSY", text))
        else:
            suspended, self._thread, self._is_stopped = self._thread, "", False
            self._running = self._runs.start(self._run(request.asked, suspended))

    def on_close(self, code: int) -> None:
        """It is gone; a run goes on, and is in its thread (graph.md 4.7)."""
        self._all.discard(self)

    def close(self, code: int, reason: str) -> None:
        """Say goodbye."""
        self._socket.close(code, reason)

    async def _run(self, asked: Asked, suspended: str) -> None:
        chunks = self._chunks(asked.response_granularity)
        meta: Json = None
        try:
            run = await self._runs.run(self._client, asked, chunks)
            state = await state_of(self._doors, self._client, run.meta.thread_id) if chunks.wants_state else None
            chunks.ended(run, state, says_so=False)  # `done` does
            meta = msgspec.to_builtins(run.meta)
            self._thread = run.meta.thread_id if run.meta.status == "interrupted" else ""
        except Exception as error:  # whatever it was: the client hears of it, and that it is over
            self._thread = "" if self._thread else suspended  # nothing has begun: it is as it was
            chunks.failed(error)
        finally:
            self._running = None
            self._done(meta)
            if self._is_stopped:  # it may wait now, and nobody was told its thread before
                self._stop()

    def _refuse(self, error: BodyError) -> None:
        chunks = self._chunks("low")
        chunks.failed(Refusal(422, "VALIDATION_ERROR", f"Invalid request: {error}", details=error.details))
        if self._running is None:
            self._done(None)

    def _chunks(self, granularity: Granularity) -> Chunks:
        return Chunks(granularity, self._socket.send_text, self._began)

    def _began(self, thread: str) -> None:
        self._thread = thread
        if self._is_stopped:
            self._stop()

    def _stop(self) -> None:
        self._is_stopped = self._running is not None
        if self._thread:
            self._runs.start(self._runs.stop(self._client, self._thread))

    def _done(self, meta: Json) -> None:
        """Always: clients wait for it (graph.md 7.7)."""
        self._socket.send_text(msgspec.json.encode({"event": "updates", "data": {"status": "done", "meta": meta}}))
