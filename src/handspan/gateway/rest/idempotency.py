"""The same request twice is one request: by a key that the client chose.

A tool's call gets its id from owner and key, so the ledger knows it even after a restart. What was asked under a key is
also remembered here for a while, exactly; after that the call's record is compared.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.core.values import Json
from handspan.gateway.entry.private_files import read_private, write_private

_FILE: Final = "idempotency.key"
_KEY_BYTES: Final = 32
_MOST: Final = 10_000
_WEBHOOK_SECONDS: Final = 300.0


def fingerprint(request: Json) -> bytes:
    """The same for the same request, however it was written."""
    return hashlib.sha256(msgspec.json.encode(request, order="sorted")).digest()


class CallIds:
    """Ids of calls, made of owner and key: the same for the same, in UUID form, and nobody can guess one."""

    def __init__(self, state: Path) -> None:
        self._file = state / _FILE
        self._secret = b""
        self._loading = asyncio.Lock()
        self._asked: dict[str, bytes] = {}

    async def of(self, owner: str, key: str) -> str:
        """The id of the call that this owner asks for under this key."""
        async with self._loading:
            self._secret = self._secret or await asyncio.to_thread(self._load)
        text = msgspec.json.encode([owner, key])
        drawn = hmac.new(self._secret, text, hashlib.sha256).hexdigest()
        return f"{drawn[:8]}-{drawn[8:12]}-8{drawn[13:16]}-a{drawn[17:20]}-{drawn[20:32]}"

    def remember(self, call_id: str, asked: bytes) -> None:
        """What was asked under this id (`fingerprint`)."""
        self._asked[call_id] = asked
        if len(self._asked) > _MOST:
            del self._asked[next(iter(self._asked))]

    def asked(self, call_id: str) -> bytes | None:
        """What was asked under this id; None when that is long ago, or was in another process."""
        return self._asked.get(call_id)

    def _load(self) -> bytes:
        try:
            found = read_private(self._file) or self._make()
        except OSError as error:
            raise StoreError(f"{self._file} can't be used: {error.strerror}. Let this user write it.") from None
        if len(found) != _KEY_BYTES:
            raise StoreError(f"{self._file} is damaged: remove it. Calls that were made with a key may run again then.")
        return found

    def _make(self) -> bytes:
        """A new secret, unless another process has just made one."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}.new")
        write_private(fresh, secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(fresh, self._file)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        return read_private(self._file) or b""


class _Answer(Struct):
    asked: bytes
    at: float
    future: "asyncio.Future[Any]"


class Remembered:
    """Answers by owner and key, for some minutes; of an answer that is still to come, the promise."""

    def __init__(
        self, most: int = _MOST, seconds: float = _WEBHOOK_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._answers: dict[tuple[str, str], _Answer] = {}

    def find(self, owner: str, key: str) -> "tuple[bytes, asyncio.Future[Any]] | None":
        """What was asked under this key, and its answer."""
        self._forget_old()
        found = self._answers.get((owner, key))
        return None if found is None else (found.asked, found.future)

    def begin(self, owner: str, key: str, asked: bytes) -> "asyncio.Future[Any]":
        """An answer is on its way; set it, or cancel it to forget the key."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[owner, key] = _Answer(asked, self._clock(), future)
        future.add_done_callback(lambda done: self._ended(owner, key, done))
        if len(self._answers) > self._most:
            del self._answers[next(iter(self._answers))]
        return future

    def _ended(self, owner: str, key: str, done: "asyncio.Future[Any]") -> None:
        """Forget an answer that failed; one that has come is remembered from now on, as the newest."""
        known = self._answers.get((owner, key))
        if known is not None and known.future is done:
            del self._answers[owner, key]
            if not done.cancelled():
                self._answers[owner, key] = _Answer(known.asked, self._clock(), done)

    def _forget_old(self) -> None:
        too_old = self._clock() - self._seconds
        for place, answer in list(self._answers.items()):  # in the order they came
            if answer.at > too_old:
                return
            if answer.future.done():  # one that is still to come is not asked for twice, however long it takes
                del self._answers[place]
