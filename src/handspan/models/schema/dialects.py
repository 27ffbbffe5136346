"""What each API's subset of JSON Schema accepts, as data (from the vendors' pages and recorded answers)."""

import re
from typing import Final

from msgspec import Struct


class Dialect(Struct, frozen=True):
    """A narrow subset: every schema has a type, and a rule that the subset lacks goes into the description."""

    keeps: tuple[str, ...]
    """The rules of single types that the subset has."""
    formats: tuple[str, ...]
    enum_types: tuple[str, ...]
    """The types whose values an enum may list."""
    parameter_name: re.Pattern[str] | None = None
    """The names that a parameter may have; None: any."""
    is_strict: bool = False
    """Objects are closed, every property is required and references are kept. Other schemas are unsupported."""
    is_proto: bool = False
    """A protobuf instead of JSON Schema: null is a flag, `anyOf` stands alone, every schema has one type."""
    takes_look_around: bool = False
    """Patterns may have look-ahead, look-behind and back-references."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of this text: keywords and types of JSON Schema."""
    return tuple(text.split())


_GEMINI_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

OPENAI_STRICT: Final = Dialect(
    keeps=words("pattern multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems"),
    formats=words("date-time time date duration email hostname ipv4 ipv6 uuid"),
    enum_types=words("string number integer boolean"),
    is_strict=True,
)

GEMINI: Final = Dialect(
    # Gemini answered recorded requests with each of these. It refuses exclusive bounds and multipleOf.
    keeps=words(
        "minLength maxLength pattern minimum maximum minItems maxItems uniqueItems prefixItems "
        "minProperties maxProperties additionalProperties default"
    ),
    formats=("date-time",),
    enum_types=words("string number integer"),
    parameter_name=_GEMINI_NAME,
    takes_look_around=True,
)

GEMINI_PARAMETERS: Final = Dialect(
    keeps=words("minLength maxLength pattern minimum maximum minItems maxItems minProperties maxProperties"),
    # Others are a 400: "only 'enum' and 'date-time' are supported for STRING type". The last four are for numbers.
    formats=words("date-time int32 int64 float double"),
    enum_types=("string",),
    parameter_name=_GEMINI_NAME,
    is_proto=True,
)


class WideDialect(Struct, frozen=True):
    """Nearly all of JSON Schema 2020-12; only the root and a few keywords have special rules."""

    parameter_name: re.Pattern[str] | None = None
    needs_items: bool = False
    """The API refuses an array without `items`."""


OPENAI: Final = WideDialect(needs_items=True)
ANTHROPIC: Final = WideDialect(parameter_name=re.compile(r"[A-Za-z0-9_.-]{1,64}"))
