"""Reads plain values against the typed settings. Collects all errors, each with its source, key and remedy."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from handspan.config.formats import toml_values
from handspan.config.setting_types import (
    SettingForm,
    build,
    describe_value,
    describe_wanted,
    fields_of,
    form_of,
    nearest_choice,
    nearest_key,
    nested_variable,
    section_of,
    snake_case,
)

Key: TypeAlias = tuple[str, ...]
Values: TypeAlias = dict[str, Any]
"""Values by key, nested like the settings; only those that were given."""

_INVALID: Final = object()
"""In place of a value that has an error."""


class RawText(str):
    """A value that came as text, so that its type has to be found."""


class SettingPlace(Struct, frozen=True):
    """The source of some values."""

    source: str
    """The name of the source in errors: the file, the variable, the command line."""
    folder: Path
    """The folder in which relative paths begin."""
    home: Path
    capitals: bool = False
    """Whether names are in capitals, as in the environment."""


class SettingReader:
    """Reads the values of one source, and adds its errors to `errors`."""

    def __init__(self, place: SettingPlace, errors: list[str]) -> None:
        self._place = place
        self._errors = errors

    def read(self, kind: Any, value: object, key: Key = (), below: object = None) -> Any:
        """Return the value as `kind`; sections and maps become dicts that have only the given values.

        `below` has the values of earlier sources.
        """
        if isinstance(value, RawText):
            return self._from_text(kind, value, key, below)
        form = form_of(kind)
        value = _apply_spelling(value, form.meta)
        if value is None and form.optional:
            return None
        if form.base is dict:
            return self._map(form, value, key, below)
        if form.base is tuple:
            return self._list(form, value, key)
        if section := section_of(kind):
            return self._section(section, value, key, below)
        return self._scalar(form, value, key)

    def _from_text(self, kind: Any, text: RawText, key: Key, below: object) -> Any:
        """Return what a text means as this kind: a TOML value if that fits, else the text itself."""
        problems: list[str] = []
        for meaning in (*toml_values(text), str(text)):
            errors: list[str] = []
            reader = SettingReader(structs.replace(self._place, capitals=False), errors)
            value = reader.read(kind, meaning, key, below)
            if not errors:
                return value
            problems = problems or errors
        self._errors.extend(problems)
        return _INVALID

    def _section(self, cls: type[Struct], value: object, key: Key, below: object) -> Any:
        """Read a section: each key must be one of its fields."""
        if not isinstance(value, Mapping):
            return self._add_error(key, f"must be a table (in JSON an object), not {describe_value(value)}")
        fields, read = fields_of(cls), {}
        for given, item in value.items():
            name = self._field_name(given, fields)
            if name not in fields:
                nested = nested_variable(given) if self._place.capitals and not key else ""
                self._add_error((*key, given), f"unknown key. {nested or nearest_key(given, fields)}")
            elif name in read:
                self._add_error((*key, given), "stands twice, in two spellings. Remove one")
            else:
                read[name] = self.read(fields[name], item, (*key, name), _get(below, name))
        return read

    def _field_name(self, given: str, fields: Iterable[str]) -> str:
        if self._place.capitals:
            return given.lower()
        return given if given in fields else snake_case(given)

    def _map(self, form: SettingForm, value: object, key: Key, below: object) -> Any:
        """Read a table whose keys are chosen by the user, such as the names of MCP servers."""
        if not isinstance(value, Mapping):
            return self._add_error(key, f"must be a table (in JSON an object), not {describe_value(value)}")
        name_kind, item_kind = form.parts
        read = {}
        for given, item in value.items():
            name = self._map_name(given, below)
            try:
                msgspec.convert(name, name_kind)
            except msgspec.ValidationError:
                wanted = describe_wanted(form_of(name_kind))
                self._add_error((*key, given), f"the name must be {wanted}, not {describe_value(name)}")
            else:
                read[name] = self.read(item_kind, item, (*key, name), _get(below, name))
        return read

    def _map_name(self, given: str, below: object) -> str:
        """Return the key for one entry of a user's table.

        Keys of the environment are in capitals. An existing key that differs only in case is taken, else lower case.
        """
        if not self._place.capitals:
            return given
        known = below if isinstance(below, Mapping) else {}
        alike = [name for name in known if name.casefold() == given.casefold()]
        return alike[0] if alike else given.lower()

    def _list(self, form: SettingForm, value: object, key: Key) -> Any:
        if not isinstance(value, list | tuple):
            return self._add_error(key, f"must be a list, not {describe_value(value)}")
        kind = form.parts[0]
        return tuple(
            self.read_whole(kind, item, (*key[:-1], f"{key[-1]}[{place}]")) for place, item in enumerate(value)
        )

    def read_whole(self, kind: Any, value: object, key: Key) -> Any:
        """Return a value that no other source completes: a section must have all its required keys. Lists have such."""
        read = self.read(kind, value, key)
        section = section_of(kind)
        if section is None or read is _INVALID:
            return read
        missing = [field for field in msgspec.structs.fields(section) if field.required and field.name not in read]
        for field in missing:
            self._add_error((*key, field.name), f"is missing. It has to be {describe_wanted(form_of(field.type))}")
        return _INVALID if missing else build(kind, read)

    def _scalar(self, form: SettingForm, value: object, key: Key) -> Any:
        """Read a single value. `form.whole` checks it: only the type as it is written has the bounds, such as `ge`."""
        if form.base is Path:
            return self._path(value, key)
        if isinstance(value, float) and not math.isfinite(value):
            return self._add_error(key, f"must be {describe_wanted(form)}, not {value}")
        try:
            if form.base is Any:  # free JSON, such as a hook's own configuration; dates of TOML become texts
                return msgspec.to_builtins(value)
            return msgspec.convert(value, form.whole)
        except RecursionError:
            return self._add_error(key, "is nested too deep")
        except msgspec.ValidationError:
            problem = f"must be {describe_wanted(form)}, not {describe_value(value, form)}{nearest_choice(value, form)}"
            return self._add_error(key, problem)

    def _path(self, value: object, key: Key) -> Any:
        """Read a path: `~` is the home folder, and relative paths start at the folder of the source."""
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            return self._add_error(key, f"must be a path, not {describe_value(value)}")
        if value == "~" or value.startswith("~/"):
            return self._place.home / value[2:]
        try:
            return (self._place.folder / value).absolute()
        except OSError:  # the current folder was removed
            return self._add_error(key, f"{value!r} is relative to a folder that is gone. Give a path from / on")

    def _add_error(self, key: Key, problem: str) -> object:
        """Add an error for this key, and return `_INVALID`."""
        where = f"{self._place.source}: {'.'.join(key)}" if key else self._place.source
        self._errors.append(f"{where}: {problem}{'' if problem.endswith('?') else '.'}")
        return _INVALID


def _get(values: object, name: str) -> object:
    return values.get(name) if isinstance(values, Mapping) else None


def _apply_spelling(value: object, meta: Meta | None) -> object:
    """Return what a spelling such as "none" stands for; any other value stays as it is."""
    spellings = (meta.extra or {}).get("read_as", ()) if meta else ()
    for spelling, meaning in spellings:
        if type(value) is type(spelling) and value == spelling:  # False equals 0, but it is no number
            return meaning
    return value
