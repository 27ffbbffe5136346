"""Bodies of requests, within their limits: read strictly as JSON, or streamed to disk."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Final

from starlette.requests import ClientDisconnect, Request

from handspan.core.errors import WireError
from handspan.core.values import Json
from handspan.gateway.rest.errors import JSON, Problem
from handspan.wire import strict_json

_MOST_DIGITS: Final = 18
_PASSED_OVER: Final = 4 * 1024 * 1024
_SECONDS: Final = 1.0


async def read_json(request: Request, limit: int) -> Json:
    """The JSON value of the body; `Problem` when it is none, or more than `limit` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Problem(
            415, "unsupported_media_type", f"The body must be JSON, not {kind[:60]!r}: send Content-Type: {JSON}."
        )
    whole = bytearray()
    async for chunk in within(request, limit):
        whole += chunk
    try:
        return strict_json.parse(bytes(whole))
    except WireError as error:
        raise Problem(400, "invalid_json", f"The body can't be read. {error}") from None


async def within(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body in pieces; `Problem` as soon as it is clear that there are more than `limit` bytes."""
    announced = request.headers.get("content-length", "")
    stream = request.stream()
    if len(announced) > _MOST_DIGITS or (announced.isdigit() and int(announced) > limit):
        await _pass_over(request, stream)
        raise _too_large(limit)
    received = 0
    try:
        async for chunk in stream:
            received += len(chunk)
            if received > limit:
                await _pass_over(request, stream)
                raise _too_large(limit)
            yield chunk
    except ClientDisconnect:
        raise Problem(400, "cut_off", "The connection ended before the body did. Send it again.") from None


async def _pass_over(request: Request, stream: AsyncIterator[bytes]) -> None:
    """Let some more of it come, and drop it: most clients look for an answer only when they have sent everything."""
    if "expect" in request.headers:  # this one asks first
        return
    dropped = 0
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_SECONDS):
            async for chunk in stream:
                dropped += len(chunk)
                if dropped > _PASSED_OVER:
                    return


async def to_disk(request: Request, limit: int, folder: Path) -> IO[bytes]:
    """The body in a nameless file below `folder`, at its beginning; the caller closes it."""
    file = await asyncio.to_thread(_nameless, folder)
    try:
        async for chunk in within(request, limit):
            await asyncio.to_thread(file.write, chunk)
        await asyncio.to_thread(file.seek, 0)
    except BaseException:
        file.close()
        raise
    return file


def _nameless(folder: Path) -> IO[bytes]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return tempfile.TemporaryFile(dir=folder)


def _too_large(limit: int) -> Problem:
    # What is still on its way is not read: the connection ends here.
    return Problem(413, "too_large", f"The body has more than {limit} bytes. Send less.", {"connection": "close"})
