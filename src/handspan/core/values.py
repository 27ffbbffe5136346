"""The type of JSON values and their bytes; and text from outside, without characters that harm (SPEC S4).

Tags, zero-width and bidirectional control characters can carry words that only a model reads. `strip_invisible` removes
them from the text of tools and of unknown people before a model gets it. Line breaks and tabs stay.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:  # msgspec and pydantic read annotations at run time and can't use a recursive alias
    Json: TypeAlias = Any

JsonObject: TypeAlias = dict[str, Json]
Arguments: TypeAlias = Mapping[str, Json]
"""What a tool is called with: parsed, valid against its schema, and never changed."""

# C0 and C1 controls except tab, newline and return; soft hyphen; zero-width and bidi controls; invisible operators;
# variation selectors that can hide data; tag characters.
_INVISIBLE: Final = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def strip_invisible(text: str) -> str:
    """Return the text without invisible characters. Joiners of emoji and scripts (U+200C, U+200D, U+FE0F) stay."""
    is_plain = text.isascii() and (text.isprintable() or text.replace("\n", "").isprintable())
    return text if is_plain else re.sub(_INVISIBLE, "", text)


def escape_invisible(json: str) -> str:
    """Return JSON text with invisible characters as escapes: a person sees them, and a program reads the same value.

    Also escaped are the separators of lines and paragraphs: some terminals and editors begin a line there.
    """
    if json.isascii() and json.isprintable():
        return json
    return re.sub(f"{_INVISIBLE}|[\u2028\u2029]", lambda found: _escape(found[0]), json)


def strip_all(value: Json) -> Json:
    """Return the value without invisible characters in any of its texts and keys."""
    return change_texts(value, strip_invisible)


def change_texts(value: Json, change: Callable[[str], str]) -> Json:
    """Return the value with each of its texts and keys changed by this function."""
    match value:
        case str():
            return change(value)
        case Mapping():
            return {change(key): change_texts(item, change) for key, item in value.items()}
        case list() | tuple():
            return [change_texts(item, change) for item in value]
        case _:
            return value


def strip_schema(schema: JsonObject) -> JsonObject:
    """Return a JSON Schema without invisible characters in the texts that are written for a reader.

    Names of properties, and values such as those of `enum`, stay: arguments have to match them.
    """
    return {key: _strip_keyword(key, value) for key, value in schema.items()}


def _strip_keyword(key: str, value: Json) -> Json:
    """Return the value of a schema's keyword without invisible characters in its texts. Values such as an enum stay."""
    if key in _SCHEMA_VALUES:
        return value
    if isinstance(value, str):
        return strip_invisible(value) if key in _SCHEMA_TEXTS else value
    if isinstance(value, dict) and key in _SCHEMAS_BY_NAME:
        return {name: _strip_keyword("", below) for name, below in value.items()}
    if isinstance(value, dict):
        return strip_schema(value)
    return [_strip_keyword("", below) for below in value] if isinstance(value, list) else value


_SCHEMA_TEXTS: Final = frozenset({"title", "description", "$comment"})
_SCHEMA_VALUES: Final = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})
_SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)


def _escape(character: str) -> str:
    """Return the character as JSON escapes it: one that needs two UTF-16 units as a pair."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def sanitize(text: str) -> str:
    """Return the text with question marks for lone surrogates, which no database stores."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def encode(value: object) -> bytes:
    """Return the value as JSON. Lone surrogates become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(change_texts(msgspec.to_builtins(value), sanitize))


def is_deeper(value: Json, max_depth: int) -> bool:
    """Whether a value is nested more than so many levels. No recursion: it could exhaust the stack."""
    level: list[Json] = [value]
    for _ in range(max_depth + 1):
        nested = [item for item in level if type(item) is dict or type(item) is list]
        if not nested:
            return False
        level = [below for item in nested for below in (item.values() if type(item) is dict else item)]
    return True


def clip(text: str, length: int) -> str:
    """Return the text, at most so long; an ellipsis stands for what was cut off."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def join_path(steps: Iterable[str | int]) -> str:
    """Return a path in a value as a person writes it: `files[2].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def round_seconds(seconds: float) -> str:
    """Return a limit of time as people read it: "30 s", "0.5 s"; not "0.99997 s" or "1.8e+03 s"."""
    return f"{round(seconds, 2 if seconds >= 1 else 3):.15g} s"


def describe_wait(seconds: float) -> str:
    """Return when something happens: `now`, or `in 3 s`. A part of a second counts as a whole one."""
    return f"in {math.ceil(seconds)} s" if seconds > 0 else "now"


def describe_seconds(seconds: float) -> str:
    """Return a duration as people read it."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
