"""The answer of a tool that returned plain data, without a coroutine (a speed trick).

`ResultEncoder` makes all other answers.
"""

from typing import Any, Final

from handspan.core.results import succeed
from handspan.wire.ws_frames import ResultFrame, WireLimits

_PLAIN: Final = frozenset((str, dict, int, float, bool, type(None)))
_FRAME_BYTES: Final = 1024
"""Bytes of a message that surely hold everything but the output."""


def encode_plain(call_id: str, value: Any, capabilities: frozenset[str], limits: WireLimits) -> ResultFrame | None:
    """Return the answer with this value; None when `ResultEncoder` has to make it. Both raise the same `ToolError`."""
    if type(value) not in _PLAIN or not capabilities:  # a gateway without capabilities takes text only
        return None
    success = succeed(value)
    if len(success.encoded) > limits.message_bytes - _FRAME_BYTES:
        return None
    # Each level has an opening bracket, so their number is never less than the depth. `encoded` is the value in an
    # envelope: the envelope's bracket stands for that of the frame.
    is_flat = success.encoded.count(b"{") + success.encoded.count(b"[") <= limits.depth
    return ResultFrame(id=call_id, output=success.value, success=True) if is_flat else None
