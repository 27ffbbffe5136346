"""Strings, numbers, booleans and enums in a narrow subset of JSON Schema."""

import re
from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.schema.dialects import Dialect
from handspan.models.schema.flatten import OF_NUMBER, OF_STRING
from handspan.models.schema.report import Report

_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]|\\[1-9]")
"""Look-ahead, look-behind, and what a group matched before: no engine that guides a model can follow them."""
_EXCLUSIVE: Final = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))


def type_of(value: Json) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


class Scalars:
    """Writes the rules for values without parts; what can't be said comes back as words."""

    def __init__(self, dialect: Dialect, report: Report) -> None:
        self._dialect = dialect
        self._report = report

    def write(self, kind: str, keywords: JsonObject, path: str, words: list[str]) -> JsonObject:
        """A schema of this type."""
        written: JsonObject = {"type": kind}
        asked = {"string": OF_STRING, "integer": OF_NUMBER, "number": OF_NUMBER}.get(kind, ())
        rules: JsonObject = {key: keywords[key] for key in asked if key in keywords}
        rules = _inclusive(rules) if kind == "integer" else rules
        for key, value in rules.items():
            if self._takes(key, value):
                written[key] = to_integer(value)
            else:
                words.append(self._report.told(path, key, value))
                written.update(self._instead_of(key, value, rules))
        if "format" in keywords and kind in ("integer", "number"):
            self._number_format(keywords["format"], written)
        return written

    def enum(self, kind: str, values: list[Json], path: str) -> JsonObject:
        """The values that are allowed, or the words for them."""
        # An empty string in an enum is a 400 at Gemini for the whole request.
        is_taken = kind in self._dialect.enum_types and (self._dialect.is_strict or "" not in values)
        if is_taken:
            return {"enum": values}
        if kind == "boolean" and len(values) == 2:
            return {}
        return {"description": self._report.told(path, "enum", values)}

    def _takes(self, key: str, value: Json) -> bool:
        if key == "format":
            return value in self._dialect.formats and value not in ("int32", "int64", "float", "double")
        if key == "pattern" and not self._dialect.takes_look_around and _LOOK_AROUND.search(str(value)):
            return False
        return key in self._dialect.keeps

    def _instead_of(self, key: str, value: Json, rules: JsonObject) -> JsonObject:
        """The nearest bound that can be said: it lets one value more through, which the engine refuses."""
        for exclusive, inclusive, _ in _EXCLUSIVE:
            if key == exclusive and inclusive not in rules and inclusive in self._dialect.keeps:
                return {inclusive: value}
        return {}

    def _number_format(self, value: Json, written: JsonObject) -> None:
        of_kind = ("int32", "int64") if written["type"] == "integer" else ("float", "double")
        if value in of_kind and value in self._dialect.formats:
            written["format"] = value


def to_integer(value: Json) -> Json:
    """2 for 2.0: the fields for lengths are integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _inclusive(rules: JsonObject) -> JsonObject:
    """For integers, more than 0 is the same as at least 1."""
    changed = dict(rules)
    for exclusive, inclusive, step in _EXCLUSIVE:
        bound = to_integer(changed.get(exclusive))
        if isinstance(bound, int) and not isinstance(bound, bool):
            del changed[exclusive]
            known, found = changed.get(inclusive), bound + step
            nearest = max if step > 0 else min
            changed[inclusive] = nearest(found, known) if isinstance(known, int | float) else found
    return changed
