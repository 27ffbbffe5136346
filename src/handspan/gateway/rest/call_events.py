"""The result of a call as REST shows it (SPEC X1), and the stream of its events (SPEC X5)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.core.questions import Question
from handspan.core.results import Failure, ToolResult, envelope
from handspan.core.values import Json, encode
from handspan.gateway.http.streams import StreamKind, piece_of
from handspan.wire.rest import calls as wire

_BACKLOG: Final = 1024 * 1024
"""Bytes of progress that wait for a client to read."""


def render_result(result: ToolResult) -> wire.CallEnvelope:
    """Return the result in the form that every client sees."""
    if isinstance(result, Failure):
        return wire.FailedCall(result.error_type, result.code, result.message)
    attachments = envelope(result).get("attachments", [])
    return wire.SucceededCall(result.value, attachments if isinstance(attachments, list) else [], result.notice)  # type: ignore[arg-type] # `envelope` makes objects of them


LastEvent: TypeAlias = Callable[[], Awaitable[wire.CallEnded | wire.CallWaits]]
"""Makes the last event, once the call has ended or waits."""


class CallStream:
    """The events of one call for one client. Implements `CallListener` and `PieceSource`.

    `put` never waits: progress is dropped when the client reads slowly.
    """

    def __init__(self, kind: StreamKind, token: str, last: LastEvent) -> None:
        self.token = token
        """The hash of the client's token."""
        self._kind = kind
        self._last = last
        self._waiting: deque[bytes] = deque()
        self._size = 0
        """Bytes that wait."""
        self._missed = 0
        """Reports of progress that were dropped since the last event."""
        self._is_done = False
        self.is_over = False
        self._changed = asyncio.Event()

    def report(self, value: Json) -> None:
        """Add progress of the tool."""
        self.put(wire.CallReported(value))

    def ask(self, question: Question) -> None:
        """Add a question to a person."""
        self.put(wire.CallAsks(question.id, question.device))

    def put(self, event: wire.CallBegan | wire.CallReported | wire.CallAsks) -> None:
        """Add an event. Progress is dropped while too many bytes wait."""
        if self.is_over:
            return
        piece = self._piece(event)
        if isinstance(event, wire.CallReported) and self._size + len(piece) > _BACKLOG:
            self._missed += 1
            return
        if self._missed:
            self._add(self._piece(wire.CallMissed(self._missed)))
            self._missed = 0
        self._add(piece)

    def on_done(self) -> None:
        """Say that the call is over. The last event follows those that wait."""
        self._is_done = True
        self._changed.set()

    async def next(self) -> bytes | None:
        """Return the next event; None after the last one."""
        while not self.is_over:
            if self._waiting:
                piece = self._waiting.popleft()
                self._size -= len(piece)
                return piece
            if self._is_done:
                return await self._last_piece()
            self._changed.clear()
            await self._changed.wait()
        return None

    def end(self) -> None:
        """End the stream: the client is gone, or its token was revoked."""
        self.is_over = True
        self._waiting.clear()
        self._changed.set()

    async def _last_piece(self) -> bytes:
        missed = self._piece(wire.CallMissed(self._missed)) if self._missed else b""
        piece = missed + self._piece(await self._last())
        self.is_over = True
        return piece

    def _add(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._size += len(piece)
        self._changed.set()

    def _piece(self, event: wire.CallEvent) -> bytes:
        name = event.__struct_config__.tag
        assert isinstance(name, str)
        return piece_of(self._kind, name, encode(event))
