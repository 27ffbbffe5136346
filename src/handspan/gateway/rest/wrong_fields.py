"""What is wrong with a field of a request, in words: the rule that a value breaks, or the values that it may have."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

from handspan.core.names import did_you_mean

_FIELD: Final = re.compile(r"(.+) - at `\$\.(\w+)`")
_LONGEST: Final = 60


def explain_error(value: object, fields: Iterable[FieldInfo], error: msgspec.ValidationError) -> str:
    """Return what the error says, as a sentence; for a text that breaks a rule, the rule in words."""
    found = _FIELD.fullmatch(str(error))
    given = value.get(found[2]) if found is not None and isinstance(value, dict) else None
    if found is None or not isinstance(given, str):
        return f"{error}."
    hint = next(each.type for each in fields if each.encode_name == found[2])
    quoted = repr(given if len(given) <= _LONGEST else f"{given[:_LONGEST]}…")
    if found[1].startswith("Invalid enum value"):
        choices = [choice for choice in _choices(hint) if choice]
        return f"{found[2]}: {quoted} is none of {', '.join(choices)}.{did_you_mean(given, choices)}"
    if "matching regex" in found[1] and (rule := next(_descriptions(hint), "")):
        return f"{found[2]}: {quoted} does not fit. {rule}"
    return f"{error}."


def _choices(hint: Any) -> Iterator[str]:
    """Return the texts that a field may have."""
    for part in get_args(hint):
        if get_origin(hint) is Literal:
            yield str(part)
        else:
            yield from _choices(part)


def _descriptions(hint: Any) -> Iterator[str]:
    """Return the rules of a field, in words."""
    if get_origin(hint) is Annotated:
        yield from (meta.description for meta in hint.__metadata__ if isinstance(meta, Meta) and meta.description)
    for part in get_args(hint):
        yield from _descriptions(part)
