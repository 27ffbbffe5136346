"""What the type of a setting asks for, and the words for it in errors."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from handspan.config.settings import Settings
from handspan.core.late_imports import difflib

PREFIX: Final = "HANDSPAN_"
"""How the environment variables of settings begin."""


class SettingForm(Struct, frozen=True):
    """The parts of a setting's type."""

    base: Any
    """The class, generic or Literal, without annotation and None."""
    parts: tuple[Any, ...]
    """The arguments of the generic, or the choices of the Literal."""
    optional: bool
    meta: Meta | None
    whole: Any
    """The type as it is written, with annotation and None."""


@cache
def form_of(kind: Any) -> SettingForm:
    """Return the parts of a setting's type."""
    whole, meta, optional = kind, None, False
    if get_origin(kind) is Annotated:
        kind, meta = get_args(kind)[:2]
    if get_origin(kind) in (Union, UnionType):
        optional = NoneType in get_args(kind)
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Annotated:
        kind, inner = get_args(kind)[:2]
        meta = meta or inner
    return SettingForm(get_origin(kind) or kind, get_args(kind), optional, meta, whole=whole)


def section_of(kind: Any) -> type[Struct] | None:
    """Return the section that a type is, or None."""
    base = form_of(kind).base
    return base if isinstance(base, type) and issubclass(base, Struct) else None


@cache
def fields_of(cls: type[Struct]) -> dict[str, Any]:
    """Return the fields of a section with their types."""
    return {field.name: field.type for field in msgspec.structs.fields(cls)}


def build(kind: Any, read: Any) -> Any:
    """Return the typed value of what was read, with defaults for what was not given."""
    if not isinstance(read, dict):
        return read
    if section := section_of(kind):
        fields = fields_of(section)
        return section(**{name: build(fields[name], value) for name, value in read.items()})
    item_kind = form_of(kind).parts[1:]
    return {name: build(item_kind[0], value) for name, value in read.items()} if item_kind else read


def describe_wanted(form: SettingForm) -> str:
    """Return what a value has to be."""
    if form.meta and form.meta.description:
        return form.meta.description
    if form.base is Literal:
        return f"one of {', '.join(map(repr, form.parts))}"
    return _WANTED.get(form.base, "a plain value")


def describe_value(value: object, form: SettingForm | None = None) -> str:
    """Return what was given. A number in place of a text is not repeated: it may be a key."""
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
    """Return a hint to the choice that was probably meant, as the end of a sentence; or nothing."""
    if form.base is not Literal or not isinstance(value, str):
        return ""
    near = _nearest(value, form.parts)
    return f". Did you mean {near!r}?" if near else ""


def nearest_key(given: str, fields: Mapping[str, Any]) -> str:
    """Return a hint to the key that was probably meant, here or in another section; else all keys of this section."""
    name = snake_case(given).replace("-", "_")
    near = _nearest(name, fields) or _all_keys(Settings).get(name, "")
    return f"Did you mean {near!r}?" if near else f"The keys here are: {', '.join(fields)}"


def nested_variable(given: str) -> str:
    """Return a hint to the environment variable that was meant, if only its double underscores are missing."""
    name = given.lower()
    near = next((key for key in _dotted_keys(Settings) if key.replace(".", "_") == name), "")
    if not near:
        return ""
    variable = f"{PREFIX}{near.upper().replace('.', '__')}"
    return f"Did you mean {variable!r}? Two underscores stand between the parts of a nested setting"


def _dotted_keys(cls: type[Struct], before: str = "") -> Iterator[str]:
    for name, kind in fields_of(cls).items():
        section = section_of(kind)
        yield from _dotted_keys(section, f"{before}{name}.") if section else [f"{before}{name}"]


@cache
def _all_keys(cls: type[Struct], key: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the dotted key of every setting by its last part: for a key in the wrong section."""
    keys = {}
    for name, kind in fields_of(cls).items():
        section = section_of(kind)
        keys.update(_all_keys(section, (*key, name)) if section else {})
        keys[name] = ".".join((*key, name))
    return keys


def _nearest(word: str, choices: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(word.lower(), list(choices), 1)), "")


def snake_case(name: str) -> str:
    """Return the snake_case form of a key in camelCase."""
    return _CAPITAL.sub(r"_\1", name).lower()


_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_WANTED: Final = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}
