"""Reads the model's arguments leniently: repairs those that the schema refuses, as "10" for a number (SPEC A6).

Each problem that the validator finds has at most one remedy here. A null is left out where the schema allows
none. A value that could mean two things is left as it is, and what still does not fit the schema is refused with the
first problems. Broken JSON is not repaired: `engine/caller.py` refuses it, and the model tries again.
"""

import json
import math
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from handspan.core.late_imports import jsonschema_rs
from handspan.core.values import Json, JsonObject

_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?"
_LONGEST_JSON: Final = 256 * 1024


class _Unread:
    """The type of `_UNREAD`: there is no other way to read the value."""


_UNREAD: Final = _Unread()


def read_leniently(arguments: Json, errors: "Iterable[jsonschema_rs.ValidationError]") -> Json:
    """Repair each error that has a remedy, and return the new arguments; the same object if no error has one."""
    remedies = [_find_remedy(error) for error in errors]
    for remedy in remedies:
        if remedy is not None and remedy.path:
            arguments = _replace(arguments, remedy.path, remedy.value)
    return arguments


class _Remedy(Struct, frozen=True):
    """The value that was meant at this path; None: the property is left out."""

    path: list[str | int]
    value: Json


def _find_remedy(error: "jsonschema_rs.ValidationError") -> _Remedy | None:
    """Return the remedy of an error, or None. If a value may have several forms, the remedy may be for a part of it."""
    match error.kind:
        case (
            jsonschema_rs.ValidationErrorKind.AnyOf(context=context)
            | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context)
        ) if error.instance is not None:
            found = [_find_remedy(branch[0]) for branch in context if len(branch) == 1]
            remedies = [remedy for remedy in found if remedy is not None]
            return remedies[0] if len(remedies) == 1 else None
        case _:
            value = _read_value(error)
            return None if isinstance(value, _Unread) else _Remedy(error.instance_path, value)


def _read_value(error: "jsonschema_rs.ValidationError") -> Json | _Unread:
    """Return the value that was meant; None: the property is left out; `_UNREAD`: no remedy."""
    if error.instance is None:
        return None  # only a property is left out, and if it is required, the schema still refuses the arguments
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Type(types=types):
            return _read_as_type(error.instance, types)
        case jsonschema_rs.ValidationErrorKind.Enum(options=options):
            return _read_as_option(error.instance, options)
        case jsonschema_rs.ValidationErrorKind.Constant(expected_value=expected):
            return _read_as_option(error.instance, [expected])
        case _:
            return _UNREAD


def _read_as_type(value: object, types: Iterable[str]) -> Json | _Unread:
    """Return the JSON value that a text holds, if the value is of one of these types."""
    if not isinstance(value, str) or len(value) > _LONGEST_JSON:
        return _UNREAD
    wanted = set(types)
    if wanted & {"number", "integer"} and re.fullmatch(_NUMBER, value):
        return _read_number(value, is_whole="number" not in wanted)
    if "boolean" in wanted and value.lower() in ("true", "false"):
        return value.lower() == "true"
    is_open = (value[:1] == "{" and "object" in wanted) or (value[:1] == "[" and "array" in wanted)
    return _read_json(value) if is_open else _UNREAD


def _read_number(text: str, *, is_whole: bool) -> Json | _Unread:
    number: float = json.loads(text)
    if not math.isfinite(number) or (is_whole and number != int(number)):
        return _UNREAD
    return int(number) if is_whole else number


def _read_json(text: str) -> Json | _Unread:
    try:
        value: Json = json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _UNREAD
    return value


def _build_object(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return the object with these pairs. Raises `ValueError` when a key is repeated."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands there twice: no one could say which value is meant")
    return dict(pairs)


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


def _read_as_option(value: object, options: Iterable[object]) -> Json | _Unread:
    """Return the one option that equals the value but for upper and lower case, or the number that the value spells."""
    if not isinstance(value, str):
        return _UNREAD
    known = list(options)
    same = [option for option in known if isinstance(option, str) and option.casefold() == value.casefold()]
    if same:
        return same[0] if len(same) == 1 else _UNREAD
    number = _read_as_type(value, ("number",))
    return number if any(option == number and type(option) in (int, float) for option in known) else _UNREAD


def _replace(value: Json, path: list[str | int], remedy: Json) -> Json:
    """Return a copy with the remedy at this path. The remedy None leaves a property out, and changes no list."""
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        if rest:
            return {**value, step: _replace(value[step], rest, remedy)}
        kept = {key: item for key, item in value.items() if key != step}
        return kept if remedy is None else {**value, step: remedy}
    if isinstance(value, list) and isinstance(step, int) and step < len(value) and (rest or remedy is not None):
        changed = _replace(value[step], rest, remedy) if rest else remedy
        return [*value[:step], changed, *value[step + 1 :]]
    return value
