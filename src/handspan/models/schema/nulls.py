"""The way back from strict arguments: a null that only means "left out" is left out again."""

from collections.abc import Iterator
from typing import Final

from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.schema.flatten import types_of
from handspan.models.schema.references import References

_MAX_DEPTH: Final = 64
_MAX_PARTS: Final = 1000


def drop_nulls(arguments: JsonObject, spec: ToolSpec) -> JsonObject:
    """The arguments without each null that the tool's own schema does not take; the given ones stay as they are.

    Strict mode asks for every parameter, so a model sends null for one that it would leave out.
    """
    cleaned = _Sweep(References(spec.parameters)).clean(arguments, [spec.parameters], _MAX_DEPTH)
    assert isinstance(cleaned, dict)  # it was one
    return cleaned


class _Sweep:
    """Goes through arguments and their schemas side by side."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._nulls = _Nulls(references)
        self._known_parts: dict[tuple[int, ...], list[JsonObject]] = {}

    def clean(self, value: Json, schemas: list[Json], depth: int) -> Json:
        if depth == 0 or not isinstance(value, dict | list):
            return value
        parts = self._parts(schemas)
        if isinstance(value, list):
            items = [part["items"] for part in parts if "items" in part]
            return [self.clean(item, items, depth - 1) for item in value]
        cleaned: JsonObject = {}
        for name, inner in value.items():
            known = [found for part in parts for found in _of_name(part, name)]
            if inner is None and known and not any(map(self._nulls.fit, known)):
                continue
            cleaned[name] = self.clean(inner, known, depth - 1)
        return cleaned

    def _parts(self, schemas: list[Json]) -> list[JsonObject]:
        """Every schema that may say something about the value itself."""
        key = tuple(map(id, schemas))
        if key not in self._known_parts:
            self._known_parts[key] = list(_all_parts(schemas, self._references))
        return self._known_parts[key]


def _of_name(schema: JsonObject, name: str) -> Iterator[Json]:
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        yield properties[name]


def _all_parts(schemas: list[Json], references: References) -> Iterator[JsonObject]:
    todo, seen = list(schemas), set[int]()
    while todo and len(seen) < _MAX_PARTS:
        schema = todo.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        todo.append(references.target(schema))
        for keyword in ("allOf", "anyOf", "oneOf", "then", "else"):
            inner = schema.get(keyword)
            todo += inner if isinstance(inner, list) else [inner]


class _Nulls:
    """Knows which schemas take null; in doubt they do."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._known: dict[int, bool] = {}

    def fit(self, schema: Json, depth: int = _MAX_DEPTH) -> bool:
        if not isinstance(schema, dict) or depth == 0:
            return schema is not False
        if id(schema) not in self._known:
            self._known[id(schema)] = True  # while we look: it may contain itself
            self._known[id(schema)] = _value_fits(schema) and self._parts_fit(schema, depth - 1)
        return self._known[id(schema)]

    def _parts_fit(self, schema: JsonObject, depth: int) -> bool:
        target, every = self._references.target(schema), schema.get("allOf")
        needed = [True if target is None else target, *(every if isinstance(every, list) else ())]
        choices = [several for key in ("anyOf", "oneOf") if isinstance(several := schema.get(key), list)]
        return all(self.fit(part, depth) for part in needed) and all(
            any(self.fit(part, depth) for part in several) for several in choices
        )


def _value_fits(schema: JsonObject) -> bool:
    values = schema.get("enum")
    return (
        ("type" not in schema or "null" in types_of(schema["type"]))
        and schema.get("const") is None
        and (not isinstance(values, list) or None in values)
    )
