"""What fits into one message of this gateway, and texts made to fit (ws.md 5.12, 8.1). A larger one ends the link."""

from typing import Final

import msgspec

from handspan.client.faults import MessageTooLarge
from handspan.core.results import succeed
from handspan.core.values import Json
from handspan.wire.ws import encode
from handspan.wire.ws_frames import ClientFrame, FailureFrame, WireLimits

LONGEST_TEXT: Final = 10_000
"""Characters of an error."""
AROUND: Final = 300
"""Bytes of a message that are left for everything but the one thing that may be large."""
_LONGEST_CODE: Final = 64
_WORST: Final = 6
"""Bytes that a character may take in JSON."""
_ENVELOPE: Final = len(succeed(None).encoded) - len(b"null")


def fits(frame: ClientFrame, limits: WireLimits) -> bool:
    """Whether the gateway takes it."""
    return len(encode(frame)) <= limits.message_bytes


def check(frame: ClientFrame, limits: WireLimits) -> None:
    """Refuse what a person or a program says if no message can hold it (`MessageTooLarge`)."""
    if (size := len(encode(frame))) > limits.message_bytes:
        raise MessageTooLarge(
            f"This has {size} bytes and is too large to be sent: the gateway takes {limits.message_bytes} in one "
            "message. Say less, or put it into a file and say where that is."
        )


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """The text with at most so many characters, all of which can be sent; where some are missing, it says so."""
    if len(text) <= most:
        return _sendable(text)
    mark = f"… (cut: it had {len(text)} characters)"
    return _sendable(text[: max(0, most - len(mark))]) + mark


def longest_text(limits: WireLimits) -> int:
    """How many characters of a text surely fit into a message."""
    return min(LONGEST_TEXT, max(0, limits.message_bytes - AROUND) // _WORST)


def short(fault: FailureFrame, limits: WireLimits) -> FailureFrame:
    """The error with a text that fits."""
    text = fault.error if isinstance(fault.error, str) else msgspec.json.encode(fault.error).decode()
    error, code = cut(text, longest_text(limits)), fault.code if len(fault.code) <= _LONGEST_CODE else ""
    return fault if (error, code) == (fault.error, fault.code) else FailureFrame(id=fault.call, error=error, code=code)


def plain_progress(value: object, limits: WireLimits) -> Json:
    """What a tool reports, as plain JSON; a note in place of what no message can hold."""
    said = succeed(value)
    size = len(said.encoded) - _ENVELOPE
    if size <= limits.message_bytes - AROUND:
        return said.value
    return f"(progress of {size} bytes: too large to be shown)"


def _sendable(text: str) -> str:
    """Without halves of characters, which a file's name or an exception may have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
