"""The values at the head of a skill's file, each read as what it must be, or refused with its place (SPEC A3)."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.names import did_you_mean
from handspan.core.values import Json, JsonObject
from handspan.skills.text import cleaned

_KNOWN: Final = (
    "name",
    "description",
    "version",
    "variables",
    "allowed_tools",
    "argument_hint",
    "user_invocable",
    "disable_model_invocation",
)
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_GLOB: Final = r"[A-Za-z0-9_*?-]{1,128}"
_BETWEEN: Final = r"[\s,]+"
_MAX_INTEGER: Final = 2**63


class SkillError(HandspanError):
    """A skill's file can't be used; the message names the file, the line where known, and what to do."""

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(f"{file}{'' if line is None else f', line {line}'}: {problem}.")


class Written(Struct, frozen=True):
    """Where a key stands and, beside it, a plain value letter by letter."""

    line: int
    text: str | None = None


class Fields:
    """The values of one file. Every key that we know may be written with `-` or with `_`."""

    def __init__(
        self, file: str, values: Iterable[tuple[object, object]], written: Mapping[str, Written] | None = None
    ) -> None:
        self._file = file
        self._written = {_ours(key): place for key, place in (written or {}).items()}
        self._values: dict[str, object] = {}
        for key, value in values:
            if (name := _ours(str(key))) in self._values:
                raise self.problem(name, f"the key {short(name)} stands twice. Leave one out")
            self._values[name] = value

    def problem(self, key: str, words: str) -> SkillError:
        """The error for what stands at this key."""
        place = self._written.get(key)
        return SkillError(self._file, None if place is None else place.line, words)

    def name(self) -> str:
        """The skill's name, which it must have."""
        name = self.text("name")
        if not name:
            hint = did_you_mean("name", (key for key in self._values if key not in _KNOWN))
            raise self.problem("name", f"the key 'name' is missing or empty.{hint} Add one, as in 'name: my-skill'")
        if not re.fullmatch(_NAME, name):
            raise self.problem(
                "name", f"{short(name)} can't be a skill's name. Use letters, digits, '-' and '_', at most 64 of them"
            )
        return name

    def text(self, key: str) -> str:
        """The words at this key, as they are written there; empty when there are none."""
        value, place = self._values.get(key), self._written.get(key)
        if value is None:
            return ""
        if isinstance(value, dict | list):
            raise self.problem(key, f"{key!r} must be a text. Put it in quotes")
        # 1.10 is a number for the loader, and a version for its author.
        return cleaned(str(value) if place is None or place.text is None else place.text).strip()

    def flag(self, key: str) -> bool:
        """Whether this is true; not, when the key is missing."""
        match self._values.get(key):
            case bool(value):
                return value
            case None:
                return False
            case str(word) if word.lower() in ("true", "false"):
                return word.lower() == "true"
            case value:
                raise self.problem(key, f"{key!r} is {short(value)}. Use true or false")

    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self._items("variables", _VARIABLE, "Use letters, digits, '-' and '_', as in 'file_name'") or ()

    def globs(self) -> tuple[str, ...] | None:
        """The globs of tools; None when the key is missing."""
        return self._items("allowed_tools", _GLOB, "Use names and globs of tools, as in 'read_file' or 'web_*'")

    def rest(self) -> JsonObject:
        """The keys that we do not know, with their values."""
        return {cleaned(key): self._json(key, value) for key, value in self._values.items() if key not in _KNOWN}

    def _items(self, key: str, form: str, advice: str) -> tuple[str, ...] | None:
        """The items of a list, or of a text in which commas or spaces stand between them."""
        value = self._values.get(key)
        if value is None:
            return None
        items = [item for item in re.split(_BETWEEN, value) if item] if isinstance(value, str) else value
        if not isinstance(items, list):
            raise self.problem(key, f"{key!r} must be a list, not {short(value)}. {advice}")
        for item in items:
            if not isinstance(item, str) or not re.fullmatch(form, item):
                raise self.problem(key, f"{key!r} can't have {short(item)}. {advice}")
        return tuple(dict.fromkeys(items))

    def _json(self, key: str, value: object) -> Json:
        """A value of any key as JSON, every text in it cleaned."""
        match value:
            case str():
                return cleaned(value)
            case list():
                return [self._json(key, item) for item in value]
            case dict():
                return {cleaned(str(name)): self._json(key, item) for name, item in value.items()}
            case date():  # datetime is one too
                return value.isoformat()
            case None | bool():
                return value
            case int() if abs(value) < _MAX_INTEGER:
                return value
            case float() if math.isfinite(value):
                return value
            case _:
                raise self.problem(
                    key, f"{short(key)} has the value {short(value)}, which is no JSON. Put it in quotes"
                )


def short(value: object) -> str:
    """A value as a message quotes it."""
    try:
        text = repr(value[:100] if isinstance(value, str) else value)
    except ValueError:  # an integer of thousands of digits
        return "a very long number"
    return cleaned(text if len(text) <= 80 else f"{text[:79]}…")


def _ours(key: str) -> str:
    name = key.replace("-", "_")
    return name if name in _KNOWN else key
