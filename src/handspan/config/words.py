"""The words of an error: what was wanted, what was given, and what was probably meant."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, Literal

from msgspec import Struct

from handspan.config.forms import SettingForm, fields_of, section_of
from handspan.config.settings import Settings


def wanted(form: SettingForm) -> str:
    """What a value has to be."""
    if form.meta and form.meta.description:
        return form.meta.description
    if form.base is Literal:
        return f"one of {', '.join(map(repr, form.parts))}"
    return _WANTED.get(form.base, "a plain value")


def given_words(value: object, form: SettingForm | None = None) -> str:
    """What was given, in words. Where a text was wanted, a number is not repeated: it may be a key."""
    match value:
        case str():
            return repr(value if len(value) <= 60 else f"{value[:60]}…")
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number" if form is None or form.base is str else str(value)
        case None:
            return "null"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def nearest_choice(value: object, form: SettingForm) -> str:
    """The choice that was probably meant, as the end of a sentence."""
    if form.base is not Literal or not isinstance(value, str):
        return ""
    near = _nearest(value, form.parts)
    return f". Did you mean {near!r}?" if near else ""


def nearest_key(given: str, fields: Mapping[str, Any]) -> str:
    """The key that was probably meant, here or in another section; else all keys of this one."""
    name = snake_case(given).replace("-", "_")
    near = _nearest(name, fields) or _all_keys(Settings).get(name, "")
    return f"Did you mean {near!r}?" if near else f"The keys here are: {', '.join(fields)}"


@cache
def _all_keys(cls: type[Struct], key: tuple[str, ...] = ()) -> dict[str, str]:
    """The dotted key of every setting by its last name: for one that stands in the wrong section."""
    keys = {}
    for name, kind in fields_of(cls).items():
        section = section_of(kind)
        keys.update(_all_keys(section, (*key, name)) if section else {})
        keys[name] = ".".join((*key, name))
    return keys


def _nearest(word: str, choices: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - needed for errors only, and start-up counts

    return next(iter(difflib.get_close_matches(word.lower(), list(choices), 1)), "")


def snake_case(name: str) -> str:
    """The name of a key that may be in camelCase."""
    return _CAPITAL.sub(r"_\1", name).lower()


_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_WANTED: Final = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}
