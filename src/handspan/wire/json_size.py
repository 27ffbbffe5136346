"""Refuses a JSON text that is too much work, before it is read: a million tiny values are easy to send, slow to read.

Each value and each key except the outermost comes with a comma, a colon or an opening bracket, so those bytes are
counted. If there are too many, the strings are removed and the rest is counted again. No loop in Python goes through
the bytes, so a large image costs almost nothing.
"""

from typing import Final

from handspan.core.errors import WireError

MAX_VALUES: Final = 50_000
"""The most values and keys of one body. Reading so many takes less than a tenth of a second."""
MAX_DIGITS: Final = 100
"""The most digits of a number. The work for an integer grows with their square."""
MAX_TINY: Final = 2_000
"""The most numbers with an exponent below -99: some take a hundred times as long as others."""

_LONG_NUMBER: Final = b"0" * (MAX_DIGITS + 1)
_TINY_NUMBER: Final = b"e-000"
_SIMPLER: Final = bytes.maketrans(b"123456789:{[E", b"000000000,,,e")
"""Makes every digit a 0, and every colon and opening bracket a comma: so one count finds all of a kind."""


class TooManyValues(WireError):
    """A text holds more values than one request may. Nothing of it was read."""


def check_value_count(raw: bytes | str, limit: int) -> None:
    """Raise `TooManyValues` when a text has more than `limit` values and keys, or numbers that take long to read."""
    if len(raw) < 2 * limit:  # a value takes one byte, and its comma, colon or bracket another
        return
    data = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    simpler = data.translate(_SIMPLER)
    if _reason(simpler, limit) is None:
        return
    if data.lstrip()[:1] not in (b"{", b"["):  # a single value, or no JSON: the parser is done soon
        return
    reason = _reason(_outside_strings(simpler, limit), limit)
    if reason is not None:
        raise TooManyValues(reason)


def _reason(simpler: bytes, limit: int) -> str | None:
    """Return why a text, translated by `_SIMPLER`, is too much work; None if it is not."""
    count = simpler.count(b",")
    if count > limit:
        return _too_many_text(limit)
    if _LONG_NUMBER in simpler:
        return f"A number in it has more than {MAX_DIGITS} digits: send it as a text."
    if count > MAX_TINY and simpler.count(_TINY_NUMBER) > MAX_TINY:
        return f"More than {MAX_TINY:,} numbers in it have an exponent below -99: send 0 instead."
    return None


def _outside_strings(data: bytes, limit: int) -> bytes:
    """Return the text without its strings. In a text that is not JSON, this is right up to the mistake."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # no escaped quote is left
    if data.count(b'"') > 2 * limit + 2:  # two for each string, and each string is a value or a key
        raise TooManyValues(_too_many_text(limit))
    return b'"'.join(data.split(b'"')[::2])


def _too_many_text(limit: int) -> str:
    return (
        f"It holds more than {limit:,} values and keys (commas, colons and opening brackets are counted): send less at "
        "once, or what is large as one text."
    )
