"""Reads the bodies of requests within limits of size and time: as JSON, whole, or in pieces."""

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
from handspan.wire.json_size import MAX_VALUES

_MAX_DIGITS: Final = 18
_DISCARD_BYTES: Final = 4 * 1024 * 1024
_DISCARD_SECONDS: Final = 1.0


async def read_json(request: AsgiRequest, limit: int, seconds: float, setting: str = "") -> Json:
    """Return the body's JSON value. Raises `Refusal` when it is no JSON, too large, or too slow.

    `setting`: the setting that the limit is from, for the refusal.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        text = f"The body must be JSON, not {kind[:60]!r}: send Content-Type: {JSON}."
        raise Refusal(415, "unsupported_media_type", text)
    try:
        return strict_json.parse(await read_body(request, limit, seconds, setting), max_values=MAX_VALUES)
    except WireError as error:
        raise Refusal(400, "invalid_json", f"The body can't be read. {error}") from None


async def read_json_or_null(request: AsgiRequest, limit: int, seconds: float) -> Json:
    """Return the body's JSON value, for any content type; None for a body that is no JSON."""
    whole = await read_body(request, limit, seconds)
    try:
        return strict_json.parse(whole) if whole.strip() else None
    except WireError:
        return None


def read_pieces(request: AsgiRequest, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises `Refusal` for too many bytes, or a pause longer than `seconds`."""
    return _limit_size(request, _limit_time(request.stream(), seconds), limit)


async def read_body(request: AsgiRequest, limit: int, seconds: float, setting: str = "") -> bytes:
    """Return the whole body. Raises `Refusal` when it is too large or too slow."""
    whole = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in _limit_size(request, request.stream(), limit, setting):
                whole += piece
    except TimeoutError:
        raise _too_slow(seconds) from None
    return bytes(whole)


async def _limit_size(
    request: AsgiRequest, stream: AsyncIterator[bytes], limit: int, setting: str = ""
) -> AsyncIterator[bytes]:
    """Yield the pieces of the stream. Raises `Refusal` when there are too many bytes, or the connection ends."""
    announced = request.headers.get("content-length", "")
    if len(announced) > _MAX_DIGITS or (announced.isdigit() and int(announced) > limit):
        await _discard_rest(request, stream, limit)
        raise _too_large(limit, setting)
    received = 0
    try:
        async for piece in stream:
            received += len(piece)
            if received > limit:
                await _discard_rest(request, stream, limit)
                raise _too_large(limit, setting)
            yield piece
    except ClientGone:
        raise Refusal(400, "cut_off", "The connection ended before the body did. Send it again.") from None


async def _limit_time(stream: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield the pieces of the stream. Raises `Refusal` when one of them takes too long."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(stream, None)
        except TimeoutError:
            raise _too_slow(seconds) from None
        if piece is None:
            return
        yield piece


async def _discard_rest(request: AsgiRequest, stream: AsyncIterator[bytes], limit: int) -> None:
    """Read some more of the body and drop it: most clients read the answer only after they have sent everything."""
    if "expect" in request.headers:  # this client waits for an answer before it sends the body
        return
    dropped = 0
    with contextlib.suppress(TimeoutError, ClientGone):
        async with asyncio.timeout(_DISCARD_SECONDS):
            async for chunk in stream:
                dropped += len(chunk)
                # A body that is only a little too large is read to its end.
                if dropped > max(_DISCARD_BYTES, 2 * limit):
                    return


# The rest of the body is not read: the connection ends with each of these answers.


def _too_large(limit: int, setting: str) -> Refusal:
    where = f", the limit of the setting {setting}" if setting else ""
    text = f"The body has more than {limit} bytes{where}. Send less."
    return Refusal(413, "too_large", text, headers={"connection": "close"})


def _too_slow(seconds: float) -> Refusal:
    text = f"The body did not come within {seconds:g} s. Send it again, and faster."
    return Refusal(408, "too_slow", text, headers={"connection": "close"})
