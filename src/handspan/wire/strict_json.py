"""Reads JSON from outside strictly: refuses what two parsers could read in two ways.

The parser of the standard library decides (`parse_slowly`): it can refuse repeated keys, and it knows the place of each
mistake. `fast_json.py` reads nearly every text in a tenth of the time, where the result is surely the same.
"""

import json
from typing import Final, NoReturn

from handspan.core.errors import WireError
from handspan.core.fast import IS_FAST
from handspan.core.values import Json, JsonObject, is_deeper
from handspan.wire.fast_json import UNSURE, read_if_sure
from handspan.wire.json_size import check_value_count

DEFAULT_MAX_DEPTH: Final = 64

_BOM: Final = "\ufeff"


def parse(raw: bytes | str, *, max_depth: int = DEFAULT_MAX_DEPTH, max_values: int | None = None) -> Json:
    """Return the value of one JSON text. Raises `WireError`, which says what is wrong and, if known, at which place.

    `max_values`: the most values and keys. A text with more is refused before it is read. None: no limit.
    """
    if max_values is not None:
        check_value_count(raw, max_values)
    if IS_FAST:
        value = read_if_sure(raw, max_depth)
        if value is not UNSURE:
            return value
    return parse_slowly(raw, max_depth=max_depth)


def parse_slowly(raw: bytes | str, *, max_depth: int = DEFAULT_MAX_DEPTH) -> Json:
    """Return the same as `parse`, with the parser of the standard library alone."""
    text = _decode_text(raw)
    try:
        value: Json = _STRICT_DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise WireError(f"Not JSON: {_describe(error)}.") from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as error:  # int() refuses more than 4,300 digits
        raise WireError(f"Not acceptable JSON: {str(error).partition(';')[0]}.") from None
    if is_deeper(value, max_depth):
        raise _too_deep(max_depth)
    _check_surrogates(value)
    return value


def _check_surrogates(value: Json) -> None:
    """Raise `WireError` for half of a surrogate pair: such a string has no UTF-8 form."""
    items, texts = [value], []
    for item in items:  # the list grows during the loop
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


def _decode_text(raw: bytes | str) -> str:
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
    except UnicodeDecodeError as error:
        raise WireError(f"Not UTF-8: {error.reason} at byte {error.start}.") from None
    if text.startswith(_BOM):
        raise WireError("Not JSON: a byte order mark stands before it; leave it out.")
    return text


def _describe(error: json.JSONDecodeError) -> str:
    """Return the parser's reason, with the place."""
    reason = error.msg[:1].lower() + error.msg[1:].rstrip(": ").removesuffix(" starting at").removesuffix(" at")
    return f"{reason} at line {error.lineno}, column {error.colno} (character {error.pos})"


def _too_deep(max_depth: int) -> WireError:
    return WireError(f"Not acceptable JSON: it is nested more than {max_depth} levels deep.")


def _build_object(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return the object with these pairs. Raises `WireError` when a key is repeated."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise WireError(f"Not acceptable JSON: the key {_first_repeated(pairs)!r} stands twice in one object.")
    return value


def _first_repeated(pairs: list[tuple[str, Json]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return _short(key)


def _parse_float(number: str) -> float:
    """Return the number. Raises `WireError` when it is too large for a float."""
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise WireError(f"Not acceptable JSON: the number {_short(number)} is too large.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    """Raise `WireError` for `NaN` and `Infinity`, which Python's parser accepts."""
    raise WireError(f"Not JSON: {name} is no JSON number.")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


_STRICT_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_float=_parse_float, parse_constant=_refuse_constant
)
