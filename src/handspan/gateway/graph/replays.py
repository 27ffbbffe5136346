"""The same request twice is one request, for a while: by the key that the client chose (http.md 5.6)."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeVar

from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.gateway.graph.faults import GraphFault

SECONDS: Final = 600.0
_T = TypeVar("_T")


class _Kept(Struct, Generic[_T]):
    asked: bytes
    answer: "asyncio.Future[_T]"
    until: float


class Replays(Generic[_T]):
    """Answers by client and key, bounded in number, size and age."""

    def __init__(
        self,
        size_of: Callable[[_T], int],
        most: int = 1000,
        most_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size_of = size_of
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept[_T]] = OrderedDict()

    async def answer(self, client: str, key: str, body: bytes, begin: Callable[[], Awaitable[_T]]) -> _T:
        """What this request was, or is now, answered; `GraphFault` when the key was used for another one."""
        if not key:
            return await begin()
        self._tidy()
        asked = hashlib.sha256(body).digest()
        kept = self._kept.get((client, key))
        if kept is None:
            answer = asyncio.ensure_future(begin())
            kept = self._kept[client, key] = _Kept(asked, answer, self._clock() + SECONDS)
            answer.add_done_callback(partial(self._answered, (client, key), kept))
        elif kept.asked != asked:
            raise GraphFault(409, "GRAPH_BUSY", "This Idempotency-Key was used for another request: choose a new one.")
        return await asyncio.shield(kept.answer)

    def forget(self, client: str, key: str) -> None:
        """Let who asks again under this key be heard again: what came of it was not kept after all."""
        self._kept.pop((client, key), None)

    def _answered(self, key: tuple[str, str], kept: _Kept[_T], answer: "asyncio.Future[_T]") -> None:
        """What the disk did not take was not done: who asks again is heard again."""
        if (answer.cancelled() or isinstance(answer.exception(), StoreError)) and self._kept.get(key) is kept:
            del self._kept[key]

    def _tidy(self) -> None:
        now, size = self._clock(), sum(map(self._size, self._kept.values()))
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            if oldest.until > now and len(self._kept) < self._most and size <= self._most_bytes:
                return
            size -= self._size(oldest)
            del self._kept[key]

    def _size(self, kept: _Kept[_T]) -> int:
        answer = kept.answer
        return self._size_of(answer.result()) if answer.done() and not answer.exception() else 0
