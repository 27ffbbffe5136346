"""The two frames of a plain call, `tool_call_request` and `tool_result`, read in a third of the time (a speed trick).

A frame is read into its class and written again. If the bytes are the same, as with our own ends, nothing was lost: no
key was repeated. With few brackets the frame can't be nested deeply. `ws.py` reads every other frame.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from handspan.wire.ws_frames import CallRequest, ResultFrame

_F = TypeVar("_F", CallRequest, ResultFrame)
_encode: Final = msgspec.json.Encoder().encode


def _reader_of(kind: type[_F]) -> Callable[[bytes | str, int], _F | None]:
    """Return what reads such a frame of at most so many levels as `ws.py` does; None when `ws.py` has to read it."""
    start = f'{{"type":"{kind.__struct_config__.tag}"'.encode()
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes | str, max_depth: int) -> _F | None:
        """Return the frame if it is written exactly as our own ends write it; else None: `ws.py` reads it."""
        if type(data) is not bytes or data[: len(start)] != start:
            return None
        if data.count(b"{") + data.count(b"[") > max_depth:
            return None
        try:
            frame = decode(data)
            return frame if _encode(frame) == data else None
        except ValueError:  # `ws.py` says what is wrong
            return None

    return read


read_request: Final = _reader_of(CallRequest)
read_result: Final = _reader_of(ResultFrame)
