"""What the head of a request may say: how much, and of which host. Nothing is known of its sender yet."""

import re
from typing import Final

from handspan.gateway.http.refusals import Header, Refusal

MAX_HEAD_BYTES: Final = 64 * 1024
"""The limit for a request's line and headers together, and for the trailers after a body. Bytes that arrive together
with the end of the head, or with the body, are not counted."""
MAX_HEADERS: Final = 128
"""The limit for the headers of a request, with its trailers: each costs far more than its bytes."""
MAX_ADDRESS_BYTES: Final = 8000
"""The limit for the path with its query: decoding them costs far more than their bytes."""
MAX_LIST_BYTES: Final = 1024
"""The limit for the lists of names that ask for a WebSocket, together: the library takes each name apart."""

TOO_MANY_HEADERS: Final = Refusal(431, "too_large", f"The request has more than {MAX_HEADERS} headers. Send less.")
_LISTS: Final = frozenset((b"connection", b"upgrade", b"sec-websocket-protocol", b"sec-websocket-extensions"))


_WHOLE_ADDRESS: Final = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)", re.IGNORECASE)
_LONGEST_QUOTED: Final = 100


def find_fault(address: bytes, headers: list[Header], *, is_upgrade: bool) -> Refusal | None:
    """Return the refusal of a complete head that would cost too much, or names two hosts; None for all others."""
    if len(headers) > MAX_HEADERS:
        return TOO_MANY_HEADERS
    if len(address) > MAX_ADDRESS_BYTES:
        return Refusal(414, "too_large", f"The address has more than {MAX_ADDRESS_BYTES} bytes. Send less.")
    if is_upgrade and sum(len(value) for name, value in headers if name in _LISTS) > MAX_LIST_BYTES:
        text = f"The headers that ask for a WebSocket have more than {MAX_LIST_BYTES} bytes. Send less."
        return Refusal(431, "too_large", text)
    return _find_other_host(address, headers)


def _find_other_host(address: bytes, headers: list[Header]) -> Refusal | None:
    """Return the refusal of an address with another host than the header names, which is the one that is checked.

    By RFC 9112 3.2.2 the host of the address would count, and a proxy in front of us may have gone by it.
    """
    whole = _WHOLE_ADDRESS.match(address)
    if whole is None or all(name != b"host" or value.lower() == whole[1].lower() for name, value in headers):
        return None
    host = whole[1][:_LONGEST_QUOTED].decode("latin-1")
    text = f"The address of the request has the host {host!r}, and its header Host another one. Send the same."
    return Refusal(400, "bad_request", text)


def find_length(headers: list[Header]) -> int:
    """Return the length of the body; 0 where it is unknown."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and len(value) < 16:
            return int(value)
    return 0
