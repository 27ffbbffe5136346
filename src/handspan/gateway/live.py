"""Live updates of lists, for pages and programs that show them: small words about what changed, to whoever listens.

Whoever publishes never waits. A listener has a bounded backlog; one that reads too slowly loses its stream, opens
another and reads the lists anew.
"""

import asyncio
from collections import deque
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.values import Json, encode

Topic: TypeAlias = Literal["sessions", "calls", "questions", "devices", "tools", "agents", "tokens"]
EVERYBODY: Final = ""
"""In place of an owner: what concerns all of them, as a tool that is switched off."""


class Update(Struct, frozen=True):
    """One change of one list."""

    topic: str
    data: Json
    encoded: bytes
    """`data` as JSON: it is written once, however many listen."""


class TooManyListeners(HandspanError):
    """There is no room for one more stream."""


class Stream:
    """What one listener has not heard yet. `async for update in stream`, or `next` with patience."""

    def __init__(self, live: "Live", owner: str, token: str, backlog: int) -> None:
        self.owner = owner
        self.token = token
        self.is_over = False
        self.was_slow = False
        self._live = live
        self._backlog = backlog
        self._waiting: deque[Update] = deque()
        self._changed = asyncio.Event()

    def put(self, update: Update) -> None:
        """One more; a full backlog ends the stream."""
        if len(self._waiting) >= self._backlog:
            self.was_slow = True
            self.end()
            return
        self._waiting.append(update)
        self._changed.set()

    async def next(self, patience: float | None = None) -> Update | None:
        """The next update; None when there was none for `patience` seconds, or the stream is over."""
        if not self._waiting and not self.is_over:
            self._changed.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._changed.wait()
            except TimeoutError:
                return None
        return self._waiting.popleft() if self._waiting else None

    def end(self) -> None:
        """Nobody listens any more, or nobody may."""
        self.is_over = True
        self._waiting.clear()
        self._changed.set()
        self._live.forget(self)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Update:
        update = await self.next()
        if update is None:
            raise StopAsyncIteration
        return update


class Live:
    """Who listens, by owner."""

    def __init__(self, *, backlog: int = 256, most_of_one_owner: int = 32, most: int = 1000) -> None:
        self._backlog = backlog
        self._most_of_one_owner = most_of_one_owner
        self._most = most
        self._streams: dict[str, set[Stream]] = {}
        self._is_open = True

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    def __bool__(self) -> bool:
        """Whether anybody listens; asked at the end of every call."""
        return bool(self._streams)

    def publish(self, owner: str, topic: Topic, data: Json) -> None:
        """Tell the owner's listeners, or with `EVERYBODY` all of them. Never waits, never fails."""
        listening = (
            [stream for streams in self._streams.values() for stream in streams]
            if owner == EVERYBODY
            else list(self._streams.get(owner, ()))
        )
        if listening:
            update = Update(topic, data, encode(data))
            for stream in listening:
                stream.put(update)

    def subscribe(self, owner: str, token: str = "") -> Stream:
        """A stream for this owner, until it is ended; `TooManyListeners` when there are enough of them."""
        streams = self._streams.get(owner, set())
        if not self._is_open or len(streams) >= self._most_of_one_owner or len(self) >= self._most:
            reason = "there are too many streams already: close one" if self._is_open else "the gateway stops"
            raise TooManyListeners(f"No stream can be opened: {reason}.")
        stream = Stream(self, owner, token, self._backlog)
        self._streams.setdefault(owner, set()).add(stream)
        return stream

    def forget(self, stream: Stream) -> None:
        """This one is over."""
        streams = self._streams.get(stream.owner, set())
        streams.discard(stream)
        if not streams:
            self._streams.pop(stream.owner, None)

    def drop(self, token: str) -> None:
        """The token (its hash) was revoked: whoever came with it hears nothing more."""
        for stream in self._all():
            if stream.token == token:
                stream.end()

    def close(self) -> None:
        """The gateway stops: every stream ends, and no other begins."""
        self._is_open = False
        for stream in self._all():
            stream.end()

    def _all(self) -> list[Stream]:
        return [stream for streams in self._streams.values() for stream in streams]
