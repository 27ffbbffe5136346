"""Idempotency: a request that is sent twice under one key of the client is done once.

`Replays` holds answers for some minutes; where there are other nodes, it shares them by the database (SPEC K5). Tool
calls do not need it: the store makes their id from owner and key, so the ledger knows them even after a restart, and on
every node; `RestState` remembers the exact request.
"""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.core.nodes import SharedRequests
from handspan.core.tasks import Tasks
from handspan.core.values import Json
from handspan.gateway.http.refusals import Refusal

_MAX_ENTRIES: Final = 10_000
_MAX_SHARED: Final = 16 * 1024 * 1024
"""Bytes of an answer that other nodes can give, too."""
_LOOK_SECONDS: Final = 0.25
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def fingerprint(request: Json | bytes) -> bytes:
    """Return a hash that is equal for equal requests; for a JSON value, whatever its formatting."""
    whole = request if isinstance(request, bytes) else msgspec.json.encode(request, order="sorted")
    return hashlib.sha256(whole).digest()


class AnswerCodec(Protocol[_T]):
    """Answers as bytes, for other nodes."""

    async def encode(self, answer: _T) -> bytes | None:
        """Return the answer as bytes, when it is complete; None when it must not be given again."""

    def decode(self, stored: bytes) -> _T:
        """Return the answer of these bytes."""


class BytesCodec:
    """Implements `AnswerCodec` for answers that are bytes."""

    async def encode(self, answer: bytes) -> bytes | None:
        """Return the answer."""
        return answer

    def decode(self, stored: bytes) -> bytes:
        """Return the answer."""
        return stored


class _SharedAnswer(Struct, frozen=True, array_like=True):
    """An answer in the database: of bytes, or a refusal."""

    body: bytes = b""
    status: int = 0
    """0: it is no refusal."""
    code: str = ""
    message: str = ""


_shared_answer: Final = msgspec.msgpack.Decoder(_SharedAnswer)


class _Answer(Struct, Generic[_T]):
    """A request and its answer, which may not be there yet."""

    fingerprint: bytes
    future: "asyncio.Future[_T]"
    whole: "asyncio.Future[_T]"
    """The same, done when the answer is complete: a stream is given before that."""
    at: float
    """When the request began; once its answer is complete, when that was."""
    is_forgotten: bool = False
    """Whether the next request under the same key begins anew."""


class Replays(Generic[_T]):
    """Answers by owner and key, bounded in number, size and age. A second request waits for the first one's answer."""

    def __init__(
        self,
        seconds: float,
        *,
        shared: SharedRequests,
        codec: Callable[[], AnswerCodec[_T]],
        conflict: Callable[[str], Refusal],
        forgets: type[Exception] | tuple[type[Exception], ...] = Exception,
        size_of: Callable[[_T], int] | None = None,
        wait_for_end: Callable[[_T], Awaitable[None]] | None = None,
        limit: int = _MAX_ENTRIES,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`shared` are the requests of all nodes, `codec` makes the form in which they give each other the answers.

        `conflict` makes the refusal for a key of another request. Errors are answers too, except `forgets`.

        `wait_for_end` waits until an answer is complete, where answers are given before that.
        """
        self._seconds = seconds
        self._conflict = conflict
        self._forgets = forgets
        self._size_of = size_of
        self._wait_for_end = wait_for_end
        self._limit = limit
        self._max_bytes = max_bytes
        self._clock = clock
        self._answers: OrderedDict[tuple[str, str], _Answer[_T]] = OrderedDict()
        self._shared = shared
        self._codec = codec
        self._sharing = Tasks()

    async def answer(self, owner: str, key: str, fingerprint: bytes, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Return the known answer to this request (its `fingerprint`), or begin it. An empty key always begins."""
        if not key:
            return await begin()
        self._forget_old()
        if (owner, key) not in self._answers:
            stored = await self._claim(owner, key, fingerprint)
            if stored is not None:
                return self._codec().decode(stored)
        known = self._answers.get((owner, key))
        if known is None:
            future = asyncio.ensure_future(begin())
            whole = (
                future if self._wait_for_end is None else asyncio.create_task(self._wait(future, self._wait_for_end))
            )
            known = self._answers[owner, key] = _Answer(fingerprint, future, whole, self._clock())
            whole.add_done_callback(partial(self._note_done, (owner, key), known))
            self._sharing.start(self._share((owner, key), known))
            if len(self._answers) > self._limit:
                self._forget_old()
        elif known.fingerprint != fingerprint:
            raise self._conflict(key)
        return await asyncio.shield(known.future)

    async def _wait(self, future: "asyncio.Future[_T]", wait_for_end: Callable[[_T], Awaitable[None]]) -> _T:
        answer = await future
        await wait_for_end(answer)
        return answer

    async def _claim(self, owner: str, key: str, fingerprint: bytes) -> bytes | None:
        """Return the answer of the node that has the request, when it has come; None: this node has to answer.

        Raises `Refusal` for a conflict, and when the answer of the other node is a refusal.
        """
        end = self._clock() + self._seconds
        while (owner, key) not in self._answers:
            claimed = await self._shared.claim(owner, key, fingerprint, self._seconds)
            if claimed.fingerprint != fingerprint:
                raise self._conflict(key)
            if claimed.answer is not None:
                answer = _shared_answer.decode(claimed.answer)
                if answer.status:
                    raise Refusal(answer.status, answer.code, answer.message)
                return answer.body
            if claimed.is_own:
                return None
            if self._clock() >= end:
                text = "Another node is still at work on the request with this key: send it again later."
                raise Refusal(409, "answered_elsewhere", text, 1)
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    async def _share(self, key: tuple[str, str], known: _Answer[_T]) -> None:
        """Give the other nodes the answer, when it is there."""
        await asyncio.wait([known.future])
        try:
            await self._shared.answer(*key, partial(self._encode, known))
        except StoreError as error:
            _log.warning("The answer to a request is not known to the other nodes: %s", error)

    async def _encode(self, known: _Answer[_T]) -> bytes | None:
        """Return the answer, when it is complete, as other nodes read it; None when the request may begin anew."""
        answer = await self._answer_of(known)
        return None if answer is None or known.is_forgotten else msgspec.msgpack.encode(answer)

    async def _answer_of(self, known: _Answer[_T]) -> _SharedAnswer | None:
        """Return what other nodes give as the answer to this request; None if the request may begin anew."""
        if known.future.cancelled():
            return None
        error = known.future.exception()
        if error is not None:  # any other error than a refusal comes again when the request begins anew
            if not isinstance(error, Refusal) or isinstance(error, self._forgets):
                return None
            return _SharedAnswer(b"", error.status, error.code, error.message)
        body = await self._codec().encode(known.future.result())
        if body is None or len(body) <= _MAX_SHARED:
            return None if body is None else _SharedAnswer(body)
        text = "Another node has answered the request with this key, and the answer is too large to be given again."
        return _SharedAnswer(b"", 409, "answered_elsewhere", text)

    def forget(self, owner: str, key: str) -> None:
        """Let the next request under this key begin anew: the last answer was not stored."""
        answer = self._answers.pop((owner, key), None)
        if answer is not None:
            answer.is_forgotten = True

    def _note_done(self, key: tuple[str, str], answer: _Answer[_T], future: "asyncio.Future[_T]") -> None:
        is_no_answer = future.cancelled() or isinstance(future.exception(), self._forgets)
        if self._answers.get(key) is answer:
            answer.at = self._clock()
            self._answers.move_to_end(key)  # the oldest answers stay in front
            if is_no_answer:
                del self._answers[key]

    def _forget_old(self) -> None:
        """Forget answers that are too old, too many, or too large together, the oldest first."""
        too_old = self._clock() - self._seconds
        size = 0 if self._size_of is None else sum(map(self._size, self._answers.values()))
        for key, answer in list(self._answers.items()):
            if not answer.whole.done():
                continue  # it must stay: else the same request would run a second time, beside the first
            if answer.at > too_old and size <= self._max_bytes and len(self._answers) <= self._limit:
                return  # all others are newer
            size -= self._size(answer)
            del self._answers[key]

    def _size(self, answer: _Answer[_T]) -> int:
        future = answer.future
        is_there = future.done() and not future.cancelled() and future.exception() is None
        return self._size_of(future.result()) if is_there and self._size_of is not None else 0
