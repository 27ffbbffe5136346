"""The size of one message to this gateway: checks, and texts made to fit (ws.md 5.12, 8.1).

The gateway closes a link on which a larger message arrives.
"""

from typing import Final

import msgspec

from handspan.client.errors import MessageTooLarge
from handspan.core.results import succeed
from handspan.core.values import Json, sanitize
from handspan.wire.ws import ClientFrame, encode
from handspan.wire.ws_frames import FailureFrame, WireLimits

MAX_TEXT: Final = 10_000
"""Characters of the text of an error."""
FRAME_OVERHEAD: Final = 300
"""Bytes of a message for all fields besides the one that may be large."""
_MAX_CODE: Final = 64
_MAX_CHARACTER_BYTES: Final = 6
"""Bytes that one character takes in JSON at most."""
_ENVELOPE: Final = len(succeed(None).encoded) - len(b"null")
"""Bytes of `Success.encoded` around the value."""


def fits(frame: ClientFrame, limits: WireLimits) -> bool:
    """Whether the frame fits into one message."""
    return len(encode(frame)) <= limits.message_bytes


def check_size(frame: ClientFrame, limits: WireLimits) -> None:
    """Raise `MessageTooLarge` when the frame does not fit into one message."""
    if (size := len(encode(frame))) > limits.message_bytes:
        raise MessageTooLarge(
            f"This has {size} bytes and is too large to be sent: the gateway takes {limits.message_bytes} in one "
            "message. Say less, or put it into a file and say where that is."
        )


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text with at most `limit` characters, without lone surrogates; a note says where it was cut."""
    if len(text) <= limit:
        return sanitize(text)
    mark = f"… (cut: it had {len(text)} characters)"
    return sanitize(text[: max(0, limit - len(mark))]) + mark


def max_text(limits: WireLimits) -> int:
    """Return how many characters always fit into one message."""
    return min(MAX_TEXT, max(0, limits.message_bytes - FRAME_OVERHEAD) // _MAX_CHARACTER_BYTES)


def shorten_error(fault: FailureFrame, limits: WireLimits) -> FailureFrame:
    """Return the error with a text that fits into one message, and without a code that is too long.

    The same frame is returned if nothing had to change.
    """
    text = fault.error if isinstance(fault.error, str) else msgspec.json.encode(fault.error).decode()
    error = shorten(text, max_text(limits))
    code = fault.code if len(fault.code) <= _MAX_CODE else ""
    if (error, code) == (fault.error, fault.code):
        return fault
    return msgspec.structs.replace(fault, id=fault.call, call_id="", error=error, code=code)


def progress_value(value: object, limits: WireLimits) -> Json:
    """Return the reported value as plain JSON; a note in its place when it does not fit into a message."""
    said = succeed(value)
    size = len(said.encoded) - _ENVELOPE
    if size <= limits.message_bytes - FRAME_OVERHEAD:
        return said.value
    return f"(progress of {size} bytes: too large to be shown)"
