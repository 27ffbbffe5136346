"""Bounds of a provider: how often a consumer may call, and answers that are given again (cetp.md 1.7)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.core.bounded import BoundedDict
from handspan.wire.cetp import CetpResponse, CetpSuccess

CallKey: TypeAlias = tuple[str, ...]

_MAX_ANSWERS: Final = 256
_MAX_BYTES: Final = 16 * 1024 * 1024
_SECONDS: Final = 600.0
"""How long an answer is kept."""
_MAX_PROGRAMS: Final = 1000


class CallRate:
    """Limits the calls a minute of each program. Calls that were not used add up, to those of one minute at most."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._left: BoundedDict[str, tuple[float, float]] = BoundedDict(_MAX_PROGRAMS)
        """How many calls each program had left, and when that was counted."""

    def seconds_to_wait(self, program: str) -> float:
        """Count one call, and return 0. If the program has no call left, count nothing, and return how long to wait."""
        if not self._most:
            return 0.0
        now = self._clock()
        left, at = self._left.pop(program, (self._most, now))
        left = min(self._most, left + (now - at) * self._most / 60)
        may_run = left >= 1
        self._left[program] = (left - 1 if may_run else left, now)
        return 0.0 if may_run else (1 - left) * 60 / self._most


class AnswerMemory:
    """Answers by `request_id`: a call that is tried again gets the same answer, and its tool runs once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[CallKey, asyncio.Task[CetpResponse]] = {}
        self._kept: dict[CallKey, tuple[float, CetpSuccess]] = {}
        self._bytes = 0

    async def answer(self, key: CallKey, run: Callable[[], Awaitable[CetpResponse]]) -> CetpResponse:
        """Return the kept answer of this call; without one, the answer of the run that goes on, or of a new run.

        A run goes on when its caller is cancelled: the consumer may ask again.
        """
        self._drop_old()
        if key in self._kept:
            return self._kept[key][1]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._run(key, run))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End all runs."""
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: CallKey, run: Callable[[], Awaitable[CetpResponse]]) -> CetpResponse:
        """Run the call, and remember its answer for a request that comes again."""
        try:
            answer = await run()
        finally:
            del self._running[key]
        if isinstance(answer, CetpSuccess) and len(answer.data) < _MAX_BYTES:
            self._kept[key] = (self._clock(), answer)
            self._bytes += len(answer.data)
            self._drop_old()
        return answer

    def _drop_old(self) -> None:
        oldest = self._clock() - _SECONDS
        while self._kept:
            key, (at, answer) = next(iter(self._kept.items()))
            if at > oldest and len(self._kept) <= _MAX_ANSWERS and self._bytes <= _MAX_BYTES:
                return
            del self._kept[key]
            self._bytes -= len(answer.data)
