"""The same request twice is one request, for a while: by the key that the client chose (http.md 5.6)."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from msgspec import Struct

from handspan.gateway.graph.faults import GraphFault

SECONDS: Final = 600.0
_T = TypeVar("_T")


class _Kept(Struct, Generic[_T]):
    asked: bytes
    answer: "asyncio.Future[_T]"
    until: float


class Replays(Generic[_T]):
    """Answers by client and key, bounded in number and age."""

    def __init__(self, most: int = 1000, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
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
        elif kept.asked != asked:
            raise GraphFault(409, "GRAPH_BUSY", "This Idempotency-Key was used for another request: choose a new one.")
        return await asyncio.shield(kept.answer)

    def _tidy(self) -> None:
        now = self._clock()
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            if oldest.until > now and len(self._kept) < self._most:
                return
            del self._kept[key]
