"""Live updates of lists, for pages and programs that show them: each update says which list has changed.

A publisher never waits. Each listener has a bounded backlog. A listener that reads too slowly loses its stream: it
opens another one and reads the lists again.
"""

import asyncio
from collections import deque
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.values import Json, encode

Topic: TypeAlias = Literal[
    "sessions", "calls", "questions", "devices", "tools", "agents", "tokens", "models", "messages", "schedules"
]
ALL_OWNERS: Final = ""
"""In place of an owner: the update is for all owners, such as a tool that is switched off."""


class Update(Struct, frozen=True):
    """One change of one list."""

    topic: str
    data: Json
    encoded: bytes
    """`data` as JSON: encoded once for all listeners."""


class TooManyListeners(HandspanError):
    """No more streams can be opened."""


class Stream:
    """The updates that one listener has not read yet."""

    def __init__(self, live: "Live", owner: str, token: str, backlog: int) -> None:
        self.owner = owner
        self.token = token
        self.is_over = False
        self._live = live
        self._backlog = backlog
        self._waiting: deque[Update] = deque()
        self._changed = asyncio.Event()

    def put(self, update: Update) -> None:
        """Add an update. A full backlog ends the stream."""
        if len(self._waiting) >= self._backlog:
            self.end()
            return
        self._waiting.append(update)
        self._changed.set()

    async def next(self) -> Update | None:
        """Wait for the next update and return it; None when the stream is over."""
        if not self._waiting and not self.is_over:
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft() if self._waiting else None

    def end(self) -> None:
        """End the stream."""
        self.is_over = True
        self._waiting.clear()
        self._changed.set()
        self._live.forget(self)


class Live:
    """The open streams of all listeners, by owner."""

    def __init__(self, *, backlog: int = 256, max_of_one_owner: int = 32, limit: int = 1000) -> None:
        self._backlog = backlog
        self._max_of_one_owner = max_of_one_owner
        self._limit = limit
        self._streams: dict[str, set[Stream]] = {}
        self._is_open = True

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    def __bool__(self) -> bool:
        """Whether there is a stream; asked at the end of every call."""
        return bool(self._streams)

    def publish(self, owner: str, topic: Topic, data: Json) -> None:
        """Send an update to the owner's listeners, or with `ALL_OWNERS` to all of them. Never waits, never fails."""
        listening = self._all() if owner == ALL_OWNERS else list(self._streams.get(owner, ()))
        if listening:
            update = Update(topic, data, encode(data))
            for stream in listening:
                stream.put(update)

    def count(self, owner: str) -> int:
        """Return how many listeners this owner has."""
        return len(self._streams.get(owner, ()))

    def subscribe(self, owner: str, token: str = "") -> Stream:
        """Return an open stream for this owner. Raises `TooManyListeners` when there are too many."""
        streams = self._streams.get(owner, set())
        if not self._is_open or len(streams) >= self._max_of_one_owner or len(self) >= self._limit:
            reason = "there are too many streams already: close one" if self._is_open else "the gateway stops"
            raise TooManyListeners(f"No stream can be opened: {reason}.")
        stream = Stream(self, owner, token, self._backlog)
        self._streams.setdefault(owner, set()).add(stream)
        return stream

    def forget(self, stream: Stream) -> None:
        """Remove a stream that is over."""
        streams = self._streams.get(stream.owner, set())
        streams.discard(stream)
        if not streams:
            self._streams.pop(stream.owner, None)

    def drop(self, token: str) -> None:
        """End the streams of a revoked token (its hash)."""
        for stream in self._all():
            if stream.token == token:
                stream.end()

    def close(self) -> None:
        """End every stream, and open no more: the gateway stops."""
        self._is_open = False
        for stream in self._all():
            stream.end()

    def _all(self) -> list[Stream]:
        return [stream for streams in self._streams.values() for stream in streams]
