"""Images and files that a client sends in `data:` addresses, or by addresses from which they are fetched."""

import binascii
from base64 import b64decode
from typing import Final
from urllib.parse import unquote_to_bytes

from handspan.core.errors import HandspanError, ToolError
from handspan.core.results import Attachment
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard

_FETCH: Final = RequestLimits(seconds=20.0, body_bytes=16 * 1024 * 1024)


class AttachmentRefused(HandspanError):
    """An image or a file of a client can't be taken. The message says why."""


async def read_image(guard: NetGuard, url: str) -> Attachment:
    """Return the image of this address, or in it. Raises `AttachmentRefused`."""
    if url.startswith("data:"):
        kind, data = read_data_url(url)
    else:
        try:
            fetched = await guard.fetch(OutgoingRequest(url), _FETCH)
        except ToolError as error:
            raise AttachmentRefused(f"The image could not be fetched. {error.message}") from None
        kind, data = fetched.headers.get("content-type", "").partition(";")[0].strip().lower(), fetched.body
        if fetched.status != 200 or fetched.truncated:
            raise AttachmentRefused(f"The image could not be fetched: its server answered {fetched.status}.")
    if not kind.startswith("image/") or not data:
        raise AttachmentRefused(f"This is no image: its type is {kind[:60]!r}.")
    return Attachment("image", kind, data)


def read_data_url(url: str) -> tuple[str, bytes]:
    """Return the media type and the bytes of a `data:` address; of bare base64, a file without a type."""
    if not url.startswith("data:"):
        url = f"data:application/octet-stream;base64,{url}"
    head, comma, body = url.removeprefix("data:").partition(",")
    kind, *options = head.split(";")
    try:
        data = b64decode(body, validate=True) if "base64" in options else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        raise AttachmentRefused("The data is not base64: encode its bytes so.") from None
    if not comma:
        raise AttachmentRefused("The data: address has no comma before its data.")
    return kind.strip().lower() or "text/plain", data
