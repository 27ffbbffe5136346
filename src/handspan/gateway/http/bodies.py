"""Bodies of requests, within their limits of size and time: read as JSON, or in pieces."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from handspan.core.errors import WireError
from handspan.core.values import Json
from handspan.gateway.http.message import AsgiRequest, ClientGone
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON
from handspan.wire import strict_json
from handspan.wire.json_size import MOST_VALUES

_MOST_DIGITS: Final = 18
_PASSED_OVER: Final = 4 * 1024 * 1024
_SECONDS: Final = 1.0


async def read_json(request: AsgiRequest, limit: int, seconds: float) -> Json:
    """The JSON value of the body; `Refusal` when it is none, larger than the limit, or not there in that time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refusal(
            415, "unsupported_media_type", f"The body must be JSON, not {kind[:60]!r}: send Content-Type: {JSON}."
        )
    try:
        return strict_json.parse(await read_whole(request, limit, seconds), max_values=MOST_VALUES)
    except WireError as error:
        raise Refusal(400, "invalid_json", f"The body can't be read. {error}") from None


async def read_leniently(request: AsgiRequest, limit: int, seconds: float) -> Json:
    """The same, whatever kind it is said to be; null for a body that is no JSON."""
    whole = await read_whole(request, limit, seconds)
    try:
        return strict_json.parse(whole) if whole.strip() else None
    except WireError:
        return None


def pieces(request: AsgiRequest, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """The body as it comes; `Refusal` when there are more than `limit` bytes, or no more for so many seconds."""
    return _limited(request, _timed(request.stream(), seconds), limit)


async def read_whole(request: AsgiRequest, limit: int, seconds: float) -> bytes:
    """The whole body; `Refusal` when it is larger than the limit, or not there in that time."""
    whole = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in _limited(request, request.stream(), limit):
                whole += piece
    except TimeoutError:
        raise _too_slow(seconds) from None
    return bytes(whole)


async def _limited(request: AsgiRequest, stream: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    announced = request.headers.get("content-length", "")
    if len(announced) > _MOST_DIGITS or (announced.isdigit() and int(announced) > limit):
        await _pass_over(request, stream, limit)
        raise _too_large(limit)
    received = 0
    try:
        async for piece in stream:
            received += len(piece)
            if received > limit:
                await _pass_over(request, stream, limit)
                raise _too_large(limit)
            yield piece
    except ClientGone:
        raise Refusal(400, "cut_off", "The connection ended before the body did. Send it again.") from None


async def _timed(stream: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The same pieces, each of them in that time."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(stream, None)
        except TimeoutError:
            raise _too_slow(seconds) from None
        if piece is None:
            return
        yield piece


async def _pass_over(request: AsgiRequest, stream: AsyncIterator[bytes], limit: int) -> None:
    """Let some more of it come, and drop it: most clients look for an answer only when they have sent everything."""
    if "expect" in request.headers:  # this one asks first
        return
    dropped = 0
    with contextlib.suppress(TimeoutError, ClientGone):
        async with asyncio.timeout(_SECONDS):
            async for chunk in stream:
                dropped += len(chunk)
                if dropped > max(_PASSED_OVER, 2 * limit):  # what is only a little too large comes to its end
                    return


# What is still on its way is not read: the connection ends with such an answer.


def _too_large(limit: int) -> Refusal:
    return Refusal(
        413, "too_large", f"The body has more than {limit} bytes. Send less.", headers={"connection": "close"}
    )


def _too_slow(seconds: float) -> Refusal:
    text = f"The body did not come within {seconds:g} s. Send it again, and faster."
    return Refusal(408, "too_slow", text, headers={"connection": "close"})
