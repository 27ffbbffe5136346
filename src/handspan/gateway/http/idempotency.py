"""Idempotency: a request that is sent twice under one key of the client is done once.

`Replays` holds answers for some minutes. Tool calls do not need it: the store makes their id from owner and key, so the
ledger knows them even after a restart; `AskedCalls` remembers the exact request.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.values import Json
from handspan.gateway.http.refusals import Refusal

_MAX_ENTRIES: Final = 10_000
_MAX_ASKED: Final = 1000
"""Calls whose exact request is remembered. Of older ones the stored record is compared."""
_T = TypeVar("_T")
ClaimRequest: TypeAlias = Callable[[str, str, float], Awaitable[bool]]
"""Owner, key, and for how many seconds."""


def fingerprint(request: Json | bytes) -> bytes:
    """Return a hash that is equal for equal requests; for a JSON value, whatever its formatting."""
    whole = request if isinstance(request, bytes) else msgspec.json.encode(request, order="sorted")
    return hashlib.sha256(whole).digest()


class _Answer(Struct, Generic[_T]):
    asked: bytes
    future: "asyncio.Future[_T]"
    at: float
    """When the request began; once it has its answer, when that was."""


class Replays(Generic[_T]):
    """Answers by owner and key, bounded in number, size and age. A second request waits for the first one's answer."""

    def __init__(
        self,
        seconds: float,
        *,
        conflict: Callable[[str], Refusal],
        forgets: type[Exception] = Exception,
        size_of: Callable[[_T], int] | None = None,
        limit: int = _MAX_ENTRIES,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`conflict` makes the refusal for a key of another request. Errors are answers too, except `forgets`."""
        self._seconds = seconds
        self._conflict = conflict
        self._forgets = forgets
        self._size_of = size_of
        self._limit = limit
        self._max_bytes = max_bytes
        self._clock = clock
        self._answers: OrderedDict[tuple[str, str], _Answer[_T]] = OrderedDict()
        self.claim: ClaimRequest | None = None
        """Claims a key for this node, where there are others; False: another node answers it, or has done so."""

    async def answer(self, owner: str, key: str, asked: bytes, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Return the known answer to this request (its `fingerprint`), or begin it. An empty key always begins."""
        if not key:
            return await begin()
        self._forget_old()
        if self.claim is not None and (owner, key) not in self._answers:
            await self._claim(self.claim, owner, key)
        known = self._answers.get((owner, key))
        if known is None:
            future = asyncio.ensure_future(begin())
            known = self._answers[owner, key] = _Answer(asked, future, self._clock())
            future.add_done_callback(partial(self._note_done, (owner, key), known))
            if len(self._answers) > self._limit:
                self._answers.popitem(last=False)
        elif known.asked != asked:
            raise self._conflict(key)
        return await asyncio.shield(known.future)

    async def _claim(self, claim: ClaimRequest, owner: str, key: str) -> None:
        """Raise `Refusal` when another node has the request with this key: it must not run twice."""
        if not await claim(owner, key, self._seconds):
            text = "Another node answers the request with this key, or has answered it: look there for what it did."
            raise Refusal(409, "answered_elsewhere", text, 1)

    def forget(self, owner: str, key: str) -> None:
        """Let the next request under this key begin anew: the last answer was not stored."""
        self._answers.pop((owner, key), None)

    def _note_done(self, key: tuple[str, str], answer: _Answer[_T], future: "asyncio.Future[_T]") -> None:
        is_no_answer = future.cancelled() or isinstance(future.exception(), self._forgets)
        if self._answers.get(key) is answer:
            answer.at = self._clock()
            self._answers.move_to_end(key)  # the oldest answers stay in front
            if is_no_answer:
                del self._answers[key]

    def _forget_old(self) -> None:
        too_old = self._clock() - self._seconds
        size = 0 if self._size_of is None else sum(map(self._size, self._answers.values()))
        for key, answer in list(self._answers.items()):
            if not answer.future.done():
                continue  # it must stay: else the same request would run a second time, beside the first
            if answer.at > too_old and size <= self._max_bytes:
                return  # all others are newer
            size -= self._size(answer)
            del self._answers[key]

    def _size(self, answer: _Answer[_T]) -> int:
        future = answer.future
        is_there = future.done() and not future.cancelled() and future.exception() is None
        return self._size_of(future.result()) if is_there and self._size_of is not None else 0


class AskedCalls:
    """The fingerprints of the last calls that were made with a key, by call id. The ledger knows the older ones."""

    def __init__(self, limit: int = _MAX_ASKED) -> None:
        self._limit = limit
        self._asked: dict[str, bytes] = {}

    def remember(self, call_id: str, asked: bytes) -> None:
        """Remember the `fingerprint` of this call's request."""
        self._asked[call_id] = asked
        if len(self._asked) > self._limit:
            del self._asked[next(iter(self._asked))]

    def find(self, call_id: str) -> bytes | None:
        """Return the fingerprint of this call's request; None when it is too old, or of another process."""
        return self._asked.get(call_id)
