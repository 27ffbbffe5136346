"""What a program sees of a call: its result (SPEC X1), and events while it runs, named in `event` (SPEC X5)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.core.results import Failure, ToolResult, envelope
from handspan.core.values import Json, encode
from handspan.gateway.http.streams import EVENTS, STILL_HERE, StreamKind, piece_of
from handspan.wire.rest.calls import (
    CallAsks,
    CallBegan,
    CallEnded,
    CallEnvelope,
    CallEvent,
    CallMissed,
    CallReported,
    CallWaits,
    FailedCall,
    SucceededCall,
)

_HEARTBEAT: Final = 15.0
_BACKLOG: Final = 1024 * 1024
"""Bytes of progress that wait for a client to read."""


def as_envelope(result: ToolResult) -> CallEnvelope:
    """The result as everybody sees it."""
    if isinstance(result, Failure):
        return FailedCall(result.error_type, result.code, result.message)
    attachments = envelope(result).get("attachments", [])
    return SucceededCall(result.value, attachments if isinstance(attachments, list) else [])  # type: ignore[arg-type] # `envelope` makes objects of them


Last: TypeAlias = Callable[[], Awaitable[CallEnded | CallWaits]]
"""How it ended, asked when the call is at work no more."""


class CallStream:
    """The events of one call for one client. Whoever puts some in never waits: what is too much is dropped."""

    def __init__(self, kind: StreamKind, token: str, last: Last, heartbeat: float = _HEARTBEAT) -> None:
        self.token = token
        """The hash of the token that the client came with."""
        self._kind = kind
        self._last = last
        self._heartbeat = heartbeat
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._missed = 0
        self._is_done = False
        self.is_over = False
        self._changed = asyncio.Event()

    def report(self, value: Json) -> None:
        """The tool reports."""
        self.put(CallReported(value))

    def ask(self, question_id: str) -> None:
        """A person is asked."""
        self.put(CallAsks(question_id))

    def put(self, event: CallBegan | CallReported | CallAsks) -> None:
        """One more. Progress is dropped while too much of it waits."""
        if self.is_over:
            return
        piece = self._piece(event)
        if type(event) is CallReported and self._size + len(piece) > _BACKLOG:
            self._missed += 1
            return
        if self._missed:
            self._add(self._piece(CallMissed(self._missed)))
            self._missed = 0
        self._add(piece)

    def done(self) -> None:
        """The call is at work no more: its end comes after what still waits."""
        self._is_done = True
        self._changed.set()

    async def next(self) -> bytes | None:
        """The next event, or a sign of life; None after the last one."""
        while not self.is_over:
            if self._waiting:
                piece = self._waiting.popleft()
                self._size -= len(piece)
                return piece
            if self._is_done:
                return await self._end()
            self._changed.clear()
            try:
                async with asyncio.timeout(self._heartbeat):
                    await self._changed.wait()
            except TimeoutError:
                if self._kind == EVENTS:
                    return STILL_HERE
        return None

    def end(self) -> None:
        """Nobody listens any more, or nobody may."""
        self.is_over = True
        self._waiting.clear()
        self._changed.set()

    async def _end(self) -> bytes:
        self.is_over = True
        missed = self._piece(CallMissed(self._missed)) if self._missed else b""
        return missed + self._piece(await self._last())

    def _add(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._size += len(piece)
        self._changed.set()

    def _piece(self, event: CallEvent) -> bytes:
        name = event.__struct_config__.tag
        assert isinstance(name, str)
        return piece_of(self._kind, name, encode(event))
