"""How much work a JSON text is, told before it is read: a million tiny values are cheap to send, and dear to read.

Counting bytes settles nearly every text: each value and each key, but for the outermost, comes with a comma, a colon or
an opening bracket. Only where those may stand in strings, the strings are cut out first. Nothing here goes through a
text in Python, so a large picture costs next to nothing.
"""

from typing import Final

from handspan.core.errors import WireError
from handspan.core.values import Json

MOST_VALUES: Final = 50_000
"""Values and keys of one body: more than anybody reads, and less than a tenth of a second's work."""
MOST_DIGITS: Final = 100
"""In one stretch: the work for a whole number grows with their square."""
MOST_TINY: Final = 2_000
"""Numbers with an exponent below -99: some of them take a hundred times as long as others."""

_LONG_NUMBER: Final = b"0" * (MOST_DIGITS + 1)
_TINY_NUMBER: Final = b"e-000"
_SIMPLER: Final = bytes.maketrans(b"123456789:{[E", b"000000000,,,e")


class TooManyValues(WireError):
    """A text holds more than one request may; nothing of it was read."""


def check_value_count(raw: bytes | str, most: int) -> None:
    """`TooManyValues` when this text holds more than `most` values and keys, or numbers that take long to read."""
    if len(raw) < 2 * most:  # each takes a byte, and the comma, colon or bracket one more
        return
    data = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    plainer = data.translate(_SIMPLER)
    if _reason(plainer, most) is None:
        return
    if data.lstrip()[:1] not in (b"{", b"["):  # a single value, or no JSON: whoever reads it is soon through
        return
    why_not = _reason(_outside_strings(plainer, most), most)
    if why_not is not None:
        raise TooManyValues(why_not)


def is_deeper(value: Json, max_depth: int) -> bool:
    """Whether it is nested more than so many levels. Goes level by level, so that no nesting exhausts our stack."""
    level: list[Json] = [value]
    for _ in range(max_depth + 1):
        nested = [item for item in level if type(item) is dict or type(item) is list]
        if not nested:
            return False
        level = [below for item in nested for below in (item.values() if type(item) is dict else item)]
    return True


def _reason(plainer: bytes, most: int) -> str | None:
    count = plainer.count(b",")
    if count > most:
        return _too_many_text(most)
    if _LONG_NUMBER in plainer:
        return f"A number in it has more than {MOST_DIGITS} digits: send it as a text."
    if count > MOST_TINY and plainer.count(_TINY_NUMBER) > MOST_TINY:
        return f"More than {MOST_TINY:,} numbers in it have an exponent below -99: send 0 instead."
    return None


def _outside_strings(data: bytes, most: int) -> bytes:
    """What stands around the strings. Of a text that is no JSON this is right up to where that shows."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # no escaped quote is left
    if data.count(b'"') > 2 * most + 2:  # two for each string, and each string is a value or a key
        raise TooManyValues(_too_many_text(most))
    return b'"'.join(data.split(b'"')[::2])


def _too_many_text(most: int) -> str:
    return (
        f"It holds more than {most:,} values and keys (commas, colons and opening brackets are counted): send less at "
        "once, or what is large as one text."
    )
