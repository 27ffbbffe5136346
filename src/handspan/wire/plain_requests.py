"""A `tool_call_request` as our own gateway writes it, read in a third of the time. The rest is for `ws.decode_server`.

It is read straight into its form and written again: what comes out the same, byte by byte, has lost nothing, so no key
stood in it twice. With few brackets it can't be deep.
"""

from typing import Final

import msgspec

from handspan.wire import strict_json
from handspan.wire.ws_frames import Request

_BEGINS: Final = b'{"type":"tool_call_request"'


def plain_request(data: bytes, max_depth: int = strict_json.DEFAULT_MAX_DEPTH) -> Request | None:
    """The request, just as `decode_server` reads it; None: it has to be read by that."""
    if not data.startswith(_BEGINS) or data.count(b"{") + data.count(b"[") > max_depth:
        return None
    try:
        request = _decode(data)
        return request if _encode(request) == data else None
    except ValueError:  # what is wrong with it, `decode_server` says
        return None


_decode: Final = msgspec.json.Decoder(Request).decode
_encode: Final = msgspec.json.Encoder().encode
