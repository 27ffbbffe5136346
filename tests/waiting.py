"""Waiting for what other tasks, threads or processes do. No test counts on how fast they are."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from itertools import chain, repeat
from typing import Final, TypeVar

_T = TypeVar("_T")

WAIT: Final = 60.0
"""Seconds after which a test gives up. It is only a guard: a busy machine is slow, and that is no fault of the code."""


async def until(claim: Callable[[], object]) -> None:
    """Let the loop turn until the claim, a function or a coroutine function, is true."""
    pauses = chain(repeat(0.0, 100), repeat(0.001))  # what is near comes at once; what is far costs little
    async with asyncio.timeout(WAIT):
        while not await _value(claim()):
            await asyncio.sleep(next(pauses))


async def _value(given: object) -> object:
    return await given if isawaitable(given) else given


async def soon(awaitable: Awaitable[_T]) -> _T:
    """What it gives, within the guard."""
    async with asyncio.timeout(WAIT):
        return await awaitable
