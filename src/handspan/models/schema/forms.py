"""The form of one type in a narrow subset of JSON Schema: objects, arrays, strings, numbers, booleans and enums.

A rule that the subset lacks is not written. Its text is added to `notes`, which become part of the description.
"""

import re
from collections.abc import Callable
from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_list, json_object
from handspan.models.schema.dialects import Dialect, words
from handspan.models.schema.flatten import OF_NUMBER, OF_STRING
from handspan.models.schema.report import (
    ImpossibleSchema,
    Report,
    SchemaTooLarge,
    UnsupportedSchema,
    check_name,
    place_name,
)
from handspan.models.schema.shape import SchemaPosition, Shape

_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]|\\[1-9]")
"""Look-ahead, look-behind and back-references: the engines that guide a model can't follow them."""
_INTEGERS: Final = ("int32", "int64")
_DECIMALS: Final = ("float", "double")
_EXCLUSIVE: Final = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))
_OBJECT_RULES: Final = words("minProperties maxProperties propertyNames dependentRequired dependentSchemas")
_ARRAY_RULES: Final = words("minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems")


class FormWriter:
    """Writes the schema of one type; `shape` gives the shape of an inner schema."""

    def __init__(self, dialect: Dialect, report: Report, shape: Callable[[Json, SchemaPosition], Shape]) -> None:
        self._dialect = dialect
        self._report = report
        self._shape = shape

    def write(self, kind: str, keywords: JsonObject, at: SchemaPosition, notes: list[str]) -> JsonObject:
        """Return a schema of the type `kind` with the rules of `keywords`."""
        if kind == "object":
            return self._object(keywords, at, notes)
        if kind == "array":
            return self._array(keywords, at, notes)
        return self._scalar(kind, keywords, at.path, notes)

    def enum(self, kind: str, values: list[Json], path: str) -> JsonObject:
        """Return an enum of these values, or a description where the subset has no such enum."""
        # Gemini answers 400 to the whole request for an empty string in an enum.
        is_allowed = kind in self._dialect.enum_types and (self._dialect.is_strict or "" not in values)
        if is_allowed:
            return {"enum": values}
        if kind == "boolean" and len(values) == 2:
            return {}
        return {"description": self._report.describe_rule(path, "enum", values)}

    def _schema(self, given: Json, at: SchemaPosition) -> JsonObject:
        return self._shape(given, at).write(self._dialect)

    def _rules(self, keys: tuple[str, ...], keywords: JsonObject, path: str, notes: list[str]) -> JsonObject:
        """Return each rule that the subset has, and note the others."""
        written: JsonObject = {}
        for key in (key for key in keys if key in keywords and not allows_everything(key, keywords[key])):
            if key in self._dialect.keeps:
                written[key] = to_integer(keywords[key])
            else:
                notes.append(self._report.describe_rule(path, key, keywords[key]))
        return written

    # Objects

    def _object(self, keywords: JsonObject, at: SchemaPosition, notes: list[str]) -> JsonObject:
        """Return the form of an object. In strict mode every property is required; those that were not may be null."""
        needed = [name for name in json_list(keywords.get("required")) if isinstance(name, str)]
        properties = dict(json_object(keywords.get("properties")))
        properties |= {name: True for name in needed if name not in properties}
        if self._dialect.is_strict:
            self._check_closed(keywords, properties, at)
        lowered = self._properties(properties, needed, at)
        written: JsonObject = {"type": "object"}
        if lowered or self._dialect.is_strict:  # Gemini refuses an object with an empty list of properties
            written["properties"] = lowered
        if self._dialect.is_strict:
            written |= {"required": list[Json](lowered), "additionalProperties": False}
        else:
            written |= {"required": list[Json](needed)} if needed else {}
            self._add_additional(keywords, written, at, notes)
        return written | self._rules(_OBJECT_RULES, keywords, at.path, notes)

    def _properties(self, properties: JsonObject, needed: list[str], at: SchemaPosition) -> JsonObject:
        """Return the properties that can be said in this dialect. One that can't, and is not needed, is left out."""
        lowered: JsonObject = {}
        for name, schema in properties.items():
            inner = at.inner(name)
            try:
                check_name(name, inner.path, self._dialect.parameter_name)
                shape = self._shape(schema, inner)
            except SchemaTooLarge:
                raise
            except UnsupportedSchema as reason:
                if isinstance(reason, ImpossibleSchema) and name in needed:
                    raise ImpossibleSchema(f"{place_name(inner.path)}: {reason}") from None
                if name in needed or (self._dialect.is_strict and not isinstance(reason, ImpossibleSchema)):
                    raise
                self._report.lose(inner.path, f"it is left out: {reason}")
                continue
            if self._dialect.is_strict and name not in needed:
                shape.nullable = True  # `drop_nulls` takes the null out again
            lowered[name] = shape.write(self._dialect)
        return lowered

    def _check_closed(self, keywords: JsonObject, properties: JsonObject, at: SchemaPosition) -> None:
        """Raise `UnsupportedSchema` when the object accepts properties that are not listed."""
        further = keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))
        is_free = further is None and not properties and bool(at.path)
        if is_free or further not in (None, False) or keywords.get("patternProperties"):
            raise UnsupportedSchema(f"{place_name(at.path)} takes names that are not listed")
        if further is None:
            self._report.lose(at.path, "only the names that are listed can be sent")

    def _add_additional(self, keywords: JsonObject, written: JsonObject, at: SchemaPosition, notes: list[str]) -> None:
        """Write or note the rules for properties that are not listed."""
        further = keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))
        if patterns := keywords.get("patternProperties"):
            notes.append(self._report.describe_rule(at.path, "patternProperties", patterns))
        if "additionalProperties" not in self._dialect.keeps:
            if isinstance(further, dict) and further:
                notes.append(self._report.describe_rule(at.path, "additionalProperties", further))
        elif isinstance(further, dict) and further:
            try:
                written["additionalProperties"] = self._schema(further, at.inner("*"))
            except ImpossibleSchema:
                written["additionalProperties"] = False
        elif further is False and not patterns:
            written["additionalProperties"] = False

    # Arrays

    def _array(self, keywords: JsonObject, at: SchemaPosition, notes: list[str]) -> JsonObject:
        """Return the form of an array. A dialect without `prefixItems` gets one form for all items."""
        written: JsonObject = {"type": "array"}
        keywords = dict(keywords)
        firsts, items = json_list(keywords.get("prefixItems")), keywords.get("items", True)
        if items is False:
            limit = keywords.get("maxItems", len(firsts))
            keywords["maxItems"] = min(limit, len(firsts)) if isinstance(limit, int | float) else len(firsts)
        if firsts and "prefixItems" in self._dialect.keeps:
            written["prefixItems"] = [self._schema(first, at.item()) for first in firsts]
            if isinstance(items, dict):
                written["items"] = self._schema(items, at.item())
        else:
            written["items"] = self._items(firsts, items, at, notes)
        return written | self._rules(_ARRAY_RULES, keywords, at.path, notes)

    def _items(self, firsts: list[Json], items: Json, at: SchemaPosition, notes: list[str]) -> JsonObject:
        if firsts:
            notes.append(self._report.describe_rule(at.path, "prefixItems", firsts))
        choices = [*firsts, items] if items is not False else firsts
        if not choices:
            return {"type": "string"}  # any type will do: `maxItems` is 0
        return self._schema(choices[0] if len(choices) == 1 else {"anyOf": choices}, at.item())

    # Values without parts

    def _scalar(self, kind: str, keywords: JsonObject, path: str, notes: list[str]) -> JsonObject:
        """Return the form of a value that is no object and no array. Rules that the dialect lacks become notes."""
        written: JsonObject = {"type": kind}
        known = {"string": OF_STRING, "integer": OF_NUMBER, "number": OF_NUMBER}.get(kind, ())
        rules: JsonObject = {key: keywords[key] for key in known if key in keywords}
        rules = _make_inclusive(rules) if kind == "integer" else rules
        for key, value in rules.items():
            if self._is_kept(key, value):
                written[key] = to_integer(value)
            else:
                notes.append(self._report.describe_rule(path, key, value))
                written.update(self._nearest_bound(key, value, rules))
        form = keywords.get("format")
        if form in self._dialect.formats and form in {"integer": _INTEGERS, "number": _DECIMALS}.get(kind, ()):
            written["format"] = form
        return written

    def _is_kept(self, key: str, value: Json) -> bool:
        if key == "format":
            return value in self._dialect.formats and value not in (*_INTEGERS, *_DECIMALS)
        if key == "pattern" and not self._dialect.takes_look_around and _LOOK_AROUND.search(str(value)):
            return False
        return key in self._dialect.keeps

    def _nearest_bound(self, key: str, value: Json, rules: JsonObject) -> JsonObject:
        """Return an inclusive bound for an exclusive one: it lets one value more through, which the engine refuses."""
        for exclusive, inclusive, _ in _EXCLUSIVE:
            if key == exclusive and inclusive not in rules and inclusive in self._dialect.keeps:
                return {inclusive: value}
        return {}


def allows_everything(key: str, value: Json) -> bool:
    """Return whether this rule lets every value through."""
    if key in ("uniqueItems", "deprecated"):
        return value is not True
    if key == "default":
        return value is None
    return key != "contains" and (value is True or value in ({}, []))


def type_of(value: Json) -> str:
    """Return the JSON type of a value."""
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


def to_integer(value: Json) -> Json:
    """Return 2 for 2.0, and other values as they are: the fields for lengths are integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _make_inclusive(rules: JsonObject) -> JsonObject:
    """Return the rules with inclusive bounds: for integers, more than 0 is the same as at least 1."""
    changed = dict(rules)
    for exclusive, inclusive, step in _EXCLUSIVE:
        bound = to_integer(changed.get(exclusive))
        if isinstance(bound, int) and not isinstance(bound, bool):
            del changed[exclusive]
            known, found = changed.get(inclusive), bound + step
            nearest = max if step > 0 else min
            changed[inclusive] = nearest(found, known) if isinstance(known, int | float) else found
    return changed
