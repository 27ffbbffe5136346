"""JSON read by `msgspec` where its result is sure to be that of the strict parser (a speed trick).

`msgspec` is strict itself about numbers, text and grammar. Two things it lets through are found here: doubled keys (it
keeps the last one) and deep nesting (it ends in RecursionError near 1,000). Counting settles nearly every text: with as
many colons as keys no key was dropped, with few brackets nothing is deep. So does writing the value again: what comes
out the same, byte by byte, has lost nothing. Where that can't tell, and where a reason is needed, `strict_json` reads.
"""

from typing import Final

import msgspec

from handspan.core.values import Json
from handspan.wire.json_size import is_deeper

UNSURE: Final[Json] = ["unsure"]
"""In place of a value, compared by `is`: the strict parser has to read the text."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def read_if_sure(raw: bytes | str, max_depth: int) -> Json:
    """Returns the value of one JSON text, or `UNSURE` when the strict parser might read or refuse it otherwise."""
    try:
        value: Json = _decode(raw)
    except (ValueError, RecursionError):  # msgspec.DecodeError and UnicodeDecodeError are ValueErrors
        return UNSURE
    if type(value) is dict:
        keys = len(value)
    elif type(value) is list:
        keys = 0
    else:  # no keys, no levels
        return value
    # Every level has its bracket: few brackets can't be deep. A short text is not even worth counting.
    if len(raw) > max_depth and _brackets(raw) > max_depth and is_deeper(value, max_depth):
        return UNSURE
    # Every key has its colon, so equal counts leave no room for a key that was dropped.
    colons = raw.count(b":") if isinstance(raw, bytes) else raw.count(":")
    if colons == keys or _is_written_the_same(raw, value) or _explains_colons(colons, raw, value):
        return value
    return UNSURE


def _brackets(raw: bytes | str) -> int:
    if isinstance(raw, bytes):
        return raw.count(b"{") + raw.count(b"[")
    return raw.count("{") + raw.count("[")


def _is_written_the_same(raw: bytes | str, value: Json) -> bool:
    return _encode(value) == (raw if isinstance(raw, bytes) else raw.encode())


def _explains_colons(colons: int, raw: bytes | str, value: Json) -> bool:
    """Whether this value explains every colon of its text: each belongs to a key or stands in a string."""
    items = [value]
    for item in items:  # grows while it is read; `type is` because this loop decides the speed for nested values
        if type(item) is dict:
            colons -= len(item)
            items += item.values()
        elif type(item) is list:
            items += item
    return not colons or colons + _escaped_colons(raw) == _colons_in_strings(items)


def _escaped_colons(raw: bytes | str) -> int:
    """How many colons its strings hold that its text does not show."""
    if isinstance(raw, bytes):
        if b"\\u003" not in raw:
            return 0
        plain = raw.replace(b"\\\\", b"")  # a backslash that is escaped itself escapes nothing
        return plain.count(b"\\u003a") + plain.count(b"\\u003A")
    return _escaped_colons(raw.encode()) if "\\u003" in raw else 0


def _colons_in_strings(items: list[Json]) -> int:
    texts = [item if type(item) is str else "".join(item) for item in items if type(item) is str or type(item) is dict]
    return "".join(texts).count(":")
