"""JSON from outside, read strictly: what two parsers could read in two ways is refused.

`msgspec` reads fast and is strict itself about numbers, text and grammar. Two things it lets through are closed here:
doubled keys (it keeps the last one) and deep nesting (it ends in RecursionError near 1,000). Counting settles
nearly every message: with as many colons as keys no key was dropped, with few brackets nothing is deep. So does writing
it again: what comes out the same, byte by byte, has lost nothing. Where that can't tell, and wherever a reason is
needed, the slow parser of the standard library is the arbiter.
"""

import json
from typing import Final, NoReturn

import msgspec

from handspan.core.errors import WireError
from handspan.core.values import Json, JsonObject
from handspan.wire.json_size import refuse_crowd

DEFAULT_MAX_DEPTH: Final = 64

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_BOM: Final = "\ufeff"


def parse(raw: bytes | str, *, max_depth: int = DEFAULT_MAX_DEPTH, max_values: int | None = None) -> Json:
    """The value of one JSON text; `WireError` says what is wrong with it and, where known, at which place.

    `max_values`: how many it may hold, keys too; with more it is refused before any of it is read. None: any number.
    """
    if max_values is not None:
        refuse_crowd(raw, max_values)
    try:
        value: Json = _decode(raw)
    except (ValueError, RecursionError) as error:  # msgspec.DecodeError and UnicodeDecodeError are ValueErrors
        _refuse(raw, max_depth, error)
    if type(value) is not dict and type(value) is not list:  # no keys, no levels
        return value
    # Every level has its bracket: few brackets can't be deep. A short text is not even worth counting.
    if len(raw) > max_depth and _brackets(raw) > max_depth:
        _refuse_depth(value, max_depth)
    # Every key has its colon, so equal counts leave no room for a key that was dropped.
    colons = raw.count(b":") if isinstance(raw, bytes) else raw.count(":")
    keys = len(value) if type(value) is dict else 0
    if colons == keys or _comes_out_the_same(raw, value) or _accounts_for(colons, raw, value):
        return value
    return parse_slowly(raw, max_depth=max_depth)


def parse_slowly(raw: bytes | str, *, max_depth: int = DEFAULT_MAX_DEPTH) -> Json:
    """What `parse` gives, by the arbiter alone: about ten times slower, and it knows why it refuses."""
    text = _text(raw)
    try:
        value: Json = _ARBITER.decode(text)
    except json.JSONDecodeError as error:
        raise WireError(f"Not JSON: {_reason(error)}.") from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as error:  # int() refuses more than 4,300 digits
        raise WireError(f"Not acceptable JSON: {str(error).partition(';')[0]}.") from None
    _refuse_depth(value, max_depth)
    _refuse_lone_surrogates(value)
    return value


def _brackets(raw: bytes | str) -> int:
    if isinstance(raw, bytes):
        return raw.count(b"{") + raw.count(b"[")
    return raw.count("{") + raw.count("[")


def _comes_out_the_same(raw: bytes | str, value: Json) -> bool:
    return _encode(value) == (raw if isinstance(raw, bytes) else raw.encode())


def _accounts_for(colons: int, raw: bytes | str, value: Json) -> bool:
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


def _refuse_depth(value: Json, max_depth: int) -> None:
    """Walk the value level by level, so that no nesting can exhaust our own stack."""
    level: list[Json] = [value]
    for _ in range(max_depth + 1):
        nested = [item for item in level if type(item) is dict or type(item) is list]
        if not nested:
            return
        level = [below for item in nested for below in (item.values() if type(item) is dict else item)]
    raise _too_deep(max_depth)


def _refuse_lone_surrogates(value: Json) -> None:
    items, texts = [value], []
    for item in items:  # grows while it is read
        if isinstance(item, dict):
            items.extend(item)
            items.extend(item.values())
        elif isinstance(item, list):
            items.extend(item)
        elif isinstance(item, str):
            texts.append(item)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        lone = error.object[error.start]
        raise WireError(f"Not acceptable JSON: half of a surrogate pair, {lone!a}, stands alone in a string.") from None


def _refuse(raw: bytes | str, max_depth: int, error: Exception) -> NoReturn:
    """Raise the arbiter's reason, which is better than the fast parser's; its own where the arbiter has none."""
    parse_slowly(raw, max_depth=max_depth)
    raise WireError(f"Not acceptable JSON: {error}.") from None  # pragma: no cover - both refuse all that is known


def _text(raw: bytes | str) -> str:
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
    except UnicodeDecodeError as error:
        raise WireError(f"Not UTF-8: {error.reason} at byte {error.start}.") from None
    if text.startswith(_BOM):
        raise WireError("Not JSON: a byte order mark stands before it; leave it out.")
    return text


def _reason(error: json.JSONDecodeError) -> str:
    """The parser's reason and the place."""
    reason = error.msg[:1].lower() + error.msg[1:].rstrip(": ").removesuffix(" starting at").removesuffix(" at")
    return f"{reason} at line {error.lineno}, column {error.colno} (character {error.pos})"


def _too_deep(max_depth: int) -> WireError:
    return WireError(f"Not acceptable JSON: it is nested more than {max_depth} levels deep.")


def _only_once(pairs: list[tuple[str, Json]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise WireError(f"Not acceptable JSON: the key {_first_doubled(pairs)!r} stands twice in one object.")
    return value


def _first_doubled(pairs: list[tuple[str, Json]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return _short(key)


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise WireError(f"Not acceptable JSON: the number {_short(number)} is too large.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise WireError(f"Not JSON: {name} is no JSON number.")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


_ARBITER: Final = json.JSONDecoder(object_pairs_hook=_only_once, parse_float=_finite, parse_constant=_no_constant)
