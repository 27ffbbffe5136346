"""The types of the settings, taken apart: what a section holds and what a value has to be."""

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct


class SettingForm(Struct, frozen=True):
    """A type of the settings, taken apart."""

    base: Any
    """The class, generic or Literal, without annotation and without None."""
    parts: tuple[Any, ...]
    optional: bool
    meta: Meta | None
    whole: Any


@cache
def form_of(kind: Any) -> SettingForm:
    """What a type of the settings asks for."""
    whole, meta, optional = kind, None, False
    if get_origin(kind) is Annotated:
        kind, meta = get_args(kind)[:2]
    if get_origin(kind) in (Union, UnionType):
        optional = NoneType in get_args(kind)
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Annotated:
        kind, inner = get_args(kind)[:2]
        meta = meta or inner
    return SettingForm(get_origin(kind) or kind, get_args(kind), optional, meta, whole)


def section_of(kind: Any) -> type[Struct] | None:
    """The section that a type is, or None."""
    base = form_of(kind).base
    return base if isinstance(base, type) and issubclass(base, Struct) else None


@cache
def fields_of(cls: type[Struct]) -> dict[str, Any]:
    """The fields of a section with their types."""
    return {field.name: field.type for field in msgspec.structs.fields(cls)}


def build(kind: Any, read: Any) -> Any:
    """The typed value of what was read; what was not given has its default."""
    if not isinstance(read, dict):
        return read
    if section := section_of(kind):
        fields = fields_of(section)
        return section(**{name: build(fields[name], value) for name, value in read.items()})
    item_kind = form_of(kind).parts[1:]
    return {name: build(item_kind[0], value) for name, value in read.items()} if item_kind else read
