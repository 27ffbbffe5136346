"""Work that is done to its end, however often its caller is cancelled."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


async def finish(work: Awaitable[_T]) -> _T:
    """Return what the work returns. A caller that is cancelled waits for the end of the work, too.

    So what the work uses can be closed when the caller is over.
    """
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await outlast(doing)
        if not doing.cancelled():
            doing.exception()  # marks the error as read: asyncio would log it
        raise


async def outlast(doing: "asyncio.Future[_T]") -> None:
    """Wait until this is done. To be cancelled does not end the wait: call it where the caller was cancelled before."""
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([doing])
