"""Reads and writes whole text messages of WebSocket (RFC 6455, 5.2) without the library (a speed trick).

Nearly all frames between the gateway and its clients are such messages. The library reads everything else: fragments,
control frames, wrong masks, sizes above the limit. No sockets here.
"""

from handspan.wire.frame_splitter import ENDLESS, MASKED, SHORT, WHOLE_TEXT, apply_mask


def text_frame(data: bytes) -> bytes:
    """Return the frame of a text message from the gateway."""
    size = len(data)
    if size < SHORT:
        return bytes((WHOLE_TEXT, size)) + data
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data


def masked_text(data: bytes, mask: bytes) -> bytes:
    """Return the frame of a text message from a client, masked with four random bytes."""
    size = len(data)
    if size < SHORT:
        header = bytes((WHOLE_TEXT, MASKED | size))
    elif size < 65536:
        header = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        header = b"\x81\xff" + size.to_bytes(8, "big")
    return header + mask + apply_mask(data, mask)


def split_masked_texts(data: bytes, limit: int, max_messages: int = ENDLESS) -> tuple[list[bytes], int]:
    """Return the whole text messages at the beginning of `data`, and the index at which the rest begins.

    There are at most `max_messages`, each of at most `limit` bytes. A `FrameSplitter` reads the rest.
    """
    messages: list[bytes] = []
    at, end = 0, len(data)
    while end - at >= 6 and data[at] == WHOLE_TEXT and len(messages) < max_messages:
        size, begins = data[at + 1] - MASKED, at + 6
        if size == SHORT:
            size, begins = int.from_bytes(data[at + 2 : at + 4], "big"), at + 8
        ends = begins + size
        # Not masked, too large, not complete, or 0xFF: a size in eight bytes, which is not read here.
        if not 0 <= size <= limit or ends > end or data[at + 1] == 0xFF:
            break
        messages.append(apply_mask(data[begins:ends], data[begins - 4 : begins]))
        at = ends
    return messages, at
