"""Reads JSON with `msgspec` where the strict parser would surely give the same value (a speed trick).

`msgspec` itself is strict about numbers, text and grammar. It accepts two things that we refuse: repeated keys (it uses
the last one) and deep nesting (RecursionError near 1,000 levels). Counts show that nearly every text has neither: as
many colons as keys mean no repeated key, few brackets mean no deep nesting. Or the value is encoded again: equal bytes
mean that nothing was lost. `strict_json` reads every other text, and says what is wrong.
"""

from typing import Final

import msgspec

from handspan.core.values import Json, is_deeper

UNSURE: Final[Json] = ["unsure"]
"""Returned in place of a value; compare with `is`. The strict parser has to read the text."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def read_if_sure(raw: bytes | str, max_depth: int) -> Json:
    """Return the value of one JSON text. `UNSURE`: the strict parser might refuse the text, or read it otherwise."""
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
    # Every level has a bracket: with few brackets the nesting is not deep. A short text needs no count.
    if len(raw) > max_depth and _brackets(raw) > max_depth and is_deeper(value, max_depth):
        return UNSURE
    # Every key has a colon: with equal counts no key was dropped.
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
    """Whether every colon of the text belongs to a key of the value, or is in one of its strings."""
    items = [value]
    for item in items:  # the list grows during the loop; `type is` is faster than isinstance
        if type(item) is dict:
            colons -= len(item)
            items += item.values()
        elif type(item) is list:
            items += item
    return not colons or colons + _escaped_colons(raw) == _colons_in_strings(items)


def _escaped_colons(raw: bytes | str) -> int:
    """Return how many colons of the strings are written as escapes in the text."""
    if isinstance(raw, bytes):
        if b"\\u003" not in raw:
            return 0
        plain = raw.replace(b"\\\\", b"")  # an escaped backslash escapes nothing
        return plain.count(b"\\u003a") + plain.count(b"\\u003A")
    return _escaped_colons(raw.encode()) if "\\u003" in raw else 0


def _colons_in_strings(items: list[Json]) -> int:
    texts = [item if type(item) is str else "".join(item) for item in items if type(item) is str or type(item) is dict]
    return "".join(texts).count(":")
