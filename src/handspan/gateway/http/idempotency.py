"""The same request twice is one request: by a key that the client chose.

`Replays` keeps answers for some minutes. The call of a tool needs none of them: the store makes its id from owner and
key, so the ledger knows it even after a restart; `AskedCalls` remembers exactly what was asked.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.values import Json
from handspan.gateway.http.refusals import Refusal

_MOST: Final = 10_000
_T = TypeVar("_T")


def fingerprint(request: Json | bytes) -> bytes:
    """The same for the same request; for a JSON value, however it was written."""
    whole = request if isinstance(request, bytes) else msgspec.json.encode(request, order="sorted")
    return hashlib.sha256(whole).digest()


class _Answer(Struct, Generic[_T]):
    asked: bytes
    future: "asyncio.Future[_T]"
    at: float
    """When it began; once it is there, when it came."""


class Replays(Generic[_T]):
    """Answers by owner and key, bounded in number, size and age. An answer that is still to come is waited for."""

    def __init__(
        self,
        seconds: float,
        *,
        conflict: Callable[[str], Refusal],
        forgets: type[Exception] = Exception,
        size_of: Callable[[_T], int] | None = None,
        most: int = _MOST,
        most_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`conflict` refuses a key that was used for another request. Errors are answers too, but for `forgets`."""
        self._seconds = seconds
        self._conflict = conflict
        self._forgets = forgets
        self._size_of = size_of
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        self._answers: OrderedDict[tuple[str, str], _Answer[_T]] = OrderedDict()

    async def answer(self, owner: str, key: str, asked: bytes, begin: Callable[[], Awaitable[_T]]) -> _T:
        """The answer to this request (its `fingerprint`), which begins now if there is none. An empty key is none."""
        if not key:
            return await begin()
        self._forget_old()
        known = self._answers.get((owner, key))
        if known is None:
            future = asyncio.ensure_future(begin())
            known = self._answers[owner, key] = _Answer(asked, future, self._clock())
            future.add_done_callback(partial(self._come, (owner, key), known))
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        elif known.asked != asked:
            raise self._conflict(key)
        return await asyncio.shield(known.future)

    def forget(self, owner: str, key: str) -> None:
        """Let the next request under this key begin anew: what came of the last one was not kept after all."""
        self._answers.pop((owner, key), None)

    def _come(self, place: tuple[str, str], answer: _Answer[_T], future: "asyncio.Future[_T]") -> None:
        is_none = future.cancelled() or isinstance(future.exception(), self._forgets)
        if self._answers.get(place) is answer:
            answer.at = self._clock()
            self._answers.move_to_end(place)  # the oldest answers stay in front
            if is_none:
                del self._answers[place]

    def _forget_old(self) -> None:
        too_old = self._clock() - self._seconds
        size = 0 if self._size_of is None else sum(map(self._size, self._answers.values()))
        for place, answer in list(self._answers.items()):
            if not answer.future.done():
                continue  # without it the same request would begin a second time, beside the first
            if answer.at > too_old and size <= self._most_bytes:
                return  # all others came later
            size -= self._size(answer)
            del self._answers[place]

    def _size(self, answer: _Answer[_T]) -> int:
        future = answer.future
        is_there = future.done() and not future.cancelled() and future.exception() is None
        return self._size_of(future.result()) if is_there and self._size_of is not None else 0


class AskedCalls:
    """What was asked under the ids of the last calls that came with a key."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._asked: dict[str, bytes] = {}

    def remember(self, call_id: str, asked: bytes) -> None:
        """What was asked under this id (`fingerprint`)."""
        self._asked[call_id] = asked
        if len(self._asked) > self._most:
            del self._asked[next(iter(self._asked))]

    def find(self, call_id: str) -> bytes | None:
        """What was asked under this id; None when that is long ago, or was in another process."""
        return self._asked.get(call_id)
