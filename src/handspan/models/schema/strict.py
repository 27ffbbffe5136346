"""OpenAI's strict mode: how large a schema may be, and how to read the nulls in the arguments that it produces."""

from collections.abc import Iterator
from typing import Final

from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_list, json_object
from handspan.models.schema.flatten import types_of
from handspan.models.schema.references import References
from handspan.models.schema.report import UnsupportedSchema

# From OpenAI's page on structured outputs.
_MAX_PROPERTIES: Final = 5000
_MAX_LEVELS: Final = 10
_MAX_ENUM_VALUES: Final = 1000
_MAX_CHARACTERS: Final = 120_000
_LONG_ENUM: Final = 250
_MAX_CHARACTERS_OF_LONG_ENUM: Final = 15_000

_MAX_DEPTH: Final = 64
_MAX_SUBSCHEMAS: Final = 1000


def check_strict_limits(schema: JsonObject) -> None:
    """Raise `UnsupportedSchema` when a strict schema is larger than the API accepts."""
    count = _SchemaSize()
    count.add(schema, 1)
    for name, definition in json_object(schema.get("$defs")).items():
        count.characters += len(name)
        count.add(definition, 1)
    for has, limit, what in (
        (count.properties, _MAX_PROPERTIES, "properties"),
        (count.levels, _MAX_LEVELS, "levels of nesting"),
        (count.values, _MAX_ENUM_VALUES, "enum values"),
        (count.characters, _MAX_CHARACTERS, "characters in its names and enums"),
        (count.of_long_enum, _MAX_CHARACTERS_OF_LONG_ENUM, "characters in one long enum"),
    ):
        if has > limit:
            raise UnsupportedSchema(f"it has {has} {what}, and the API accepts {limit}")


class _SchemaSize:
    """Counts what the API limits in a strict schema."""

    def __init__(self) -> None:
        self.properties = self.levels = self.values = self.characters = self.of_long_enum = 0

    def add(self, schema: Json, level: int) -> None:
        """Count this schema and the schemas inside it."""
        if not isinstance(schema, dict):
            return
        self.levels = max(self.levels, level)
        self._add_enum(schema.get("enum"))
        for name, inner in json_object(schema.get("properties")).items():
            self.properties += 1
            self.characters += len(name)
            self.add(inner, level + 1 if _is_nested(inner) else level)
        for inner in json_list(schema.get("anyOf")):
            self.add(inner, level)
        self.add(schema.get("items"), level + 1 if _is_nested(schema.get("items")) else level)

    def _add_enum(self, values: Json) -> None:
        if isinstance(values, list):
            length = sum(len(value) for value in values if isinstance(value, str))
            self.values += len(values)
            self.characters += length
            self.of_long_enum = max(self.of_long_enum, length if len(values) > _LONG_ENUM else 0)


def _is_nested(schema: Json) -> bool:
    return isinstance(schema, dict) and bool({"properties", "items", "anyOf"} & set(schema))


def drop_nulls(arguments: JsonObject, spec: ToolSpec) -> JsonObject:
    """Return the arguments without each null that the tool's own schema forbids.

    Strict mode requires every parameter, so a model sends null for a parameter that it would leave out.
    """
    kept = _NullRemover(References(spec.parameters)).remove(arguments, [spec.parameters], _MAX_DEPTH)
    assert isinstance(kept, dict)  # the root of the arguments is an object
    return kept


class _NullRemover:
    """Walks through arguments and their schemas side by side."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._subschemas_by_ids: dict[tuple[int, ...], list[JsonObject]] = {}
        self._takes_null: dict[int, bool] = {}
        """Whether a schema accepts null, by its identity."""

    def remove(self, value: Json, schemas: list[Json], depth: int) -> Json:
        """Return the value without the nulls that none of its schemas accepts."""
        if depth == 0 or not isinstance(value, dict | list):
            return value
        parts = self._subschemas(schemas)
        if isinstance(value, list):
            items = [part["items"] for part in parts if "items" in part]
            return [self.remove(item, items, depth - 1) for item in value]
        kept: JsonObject = {}
        for name, inner in value.items():
            properties = (json_object(part.get("properties")) for part in parts)
            known = [schemas[name] for schemas in properties if name in schemas]
            if inner is None and known and not any(map(self._accepts_null, known)):
                continue
            kept[name] = self.remove(inner, known, depth - 1)
        return kept

    def _subschemas(self, schemas: list[Json]) -> list[JsonObject]:
        """Return every schema that can apply to the same value as `schemas`: references and branches included."""
        key = tuple(map(id, schemas))
        if key not in self._subschemas_by_ids:
            self._subschemas_by_ids[key] = list(_all_subschemas(schemas, self._references))
        return self._subschemas_by_ids[key]

    def _accepts_null(self, schema: Json, depth: int = _MAX_DEPTH) -> bool:
        """Return whether the schema accepts null. When in doubt, the answer is yes."""
        if not isinstance(schema, dict) or depth == 0:
            return schema is not False
        if id(schema) not in self._takes_null:
            self._takes_null[id(schema)] = True  # the answer while we look: the schema may contain itself
            self._takes_null[id(schema)] = _keywords_accept_null(schema) and self._parts_accept_null(schema, depth - 1)
        return self._takes_null[id(schema)]

    def _parts_accept_null(self, schema: JsonObject, depth: int) -> bool:
        target = self._references.target(schema)
        needed = [True if target is None else target, *json_list(schema.get("allOf"))]
        choices = [several for key in ("anyOf", "oneOf") if isinstance(several := schema.get(key), list)]
        return all(self._accepts_null(part, depth) for part in needed) and all(
            any(self._accepts_null(part, depth) for part in several) for several in choices
        )


def _all_subschemas(schemas: list[Json], references: References) -> Iterator[JsonObject]:
    """Yield the schemas that these stand for on their own level, each once."""
    todo, seen = list(schemas), set[int]()
    while todo and len(seen) < _MAX_SUBSCHEMAS:
        schema = todo.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        todo.append(references.target(schema))
        for keyword in ("allOf", "anyOf", "oneOf", "then", "else"):
            inner = schema.get(keyword)
            todo += inner if isinstance(inner, list) else [inner]


def _keywords_accept_null(schema: JsonObject) -> bool:
    values = schema.get("enum")
    return (
        ("type" not in schema or "null" in types_of(schema["type"]))
        and schema.get("const") is None
        and (not isinstance(values, list) or None in values)
    )
