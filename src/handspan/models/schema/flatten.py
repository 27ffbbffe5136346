"""Joins a schema and the parts that it is made of (`$ref`, `allOf`) to one flat schema."""

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_list
from handspan.models.schema.dialects import words
from handspan.models.schema.references import References, modernize
from handspan.models.schema.report import ImpossibleSchema, SchemaTooLarge, UnsupportedSchema

ANNOTATIONS: Final = frozenset(words("description title default examples deprecated"))
OF_STRING: Final = words("minLength maxLength pattern format contentEncoding contentMediaType contentSchema")
OF_NUMBER: Final = words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
OF_ARRAY: Final = words(
    "items prefixItems minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems"
)
OF_OBJECT: Final = words(
    "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
    "dependentRequired dependentSchemas unevaluatedProperties"
)
KNOWN: Final = ANNOTATIONS | {"type", "enum", "not", *OF_STRING, *OF_NUMBER, *OF_ARRAY, *OF_OBJECT}

_MAX_PARTS: Final = 1000


class RecursionCut(UnsupportedSchema):
    """A recursive definition is written out deep enough; `target` is the definition."""

    def __init__(self, target: JsonObject) -> None:
        super().__init__("it contains itself")
        self.target = target


class FlatSchema(Struct):
    """One schema without `$ref` and `allOf`."""

    trail: tuple[int, ...]
    """The identity of each definition around this schema, outermost first."""
    keywords: JsonObject = field(default_factory=dict)
    """The rules by keyword. `const` becomes an enum of one value; `if` holds `then` and `else` too."""
    choices: list[tuple[str, list[Json]]] = field(default_factory=list)
    """The keyword and the branches of each `anyOf` and `oneOf`."""
    clashes: list[tuple[str, Json]] = field(default_factory=list)
    """Rules that stand in two parts and can't be joined to one."""
    parts: int = 0
    """The number of schemas that were joined."""


def flatten(schema: Json, references: References, trail: tuple[int, ...], unroll: int) -> FlatSchema:
    """Return everything that the schema asks for on its own level.

    Raises `RecursionCut` when a definition stands inside itself more than `unroll` times.
    """
    flat = FlatSchema(trail)
    todo, seen = deque([schema]), set[int]()
    while todo:
        part = todo.popleft()
        if part is False:
            raise ImpossibleSchema("no value fits it")
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        if len(seen) > _MAX_PARTS:
            raise SchemaTooLarge(f"it is put together from more than {_MAX_PARTS} parts")
        own, target = modernize(part), references.target(part)
        if isinstance(target, dict):
            if trail.count(id(target)) > unroll:
                raise RecursionCut(target)
            flat.trail = (*flat.trail, id(target))
        if target is not None:
            todo.appendleft(target)
            own = own if not references.is_old else {key: own[key] for key in own if key in ANNOTATIONS}
        todo.extend(json_list(own.get("allOf")))
        _add_keywords(flat, own)
    flat.parts = len(seen)
    return flat


def _add_keywords(flat: FlatSchema, own: JsonObject) -> None:
    """Add the rules of one part to the flat schema."""
    for key, value in own.items():
        if key in ("anyOf", "oneOf") and isinstance(value, list):
            flat.choices.append((key, value))
        elif key == "const":
            _add_keyword(flat, "enum", [value])
        elif key == "if":
            _add_keyword(flat, "if", {word: own[word] for word in ("if", "then", "else") if word in own})
        elif key in KNOWN:
            _add_keyword(flat, key, value)


def _add_keyword(flat: FlatSchema, key: str, value: Json) -> None:
    """Add one rule. If another part has it too, join both; what can't be joined is noted as a clash."""
    if key == "enum" and value == []:
        raise ImpossibleSchema("no value fits its empty enum")
    if key not in flat.keywords:
        flat.keywords[key] = value
    elif key == "enum" or not is_same_json(flat.keywords[key], value):
        combine = _COMBINE.get(key)
        if combine is not None:
            flat.keywords[key] = combine(flat.keywords[key], value)
        elif key not in ANNOTATIONS:
            flat.clashes.append((key, value))


def is_same_json(one: Json, other: Json) -> bool:
    """Return whether two values are the same in JSON, where true is not 1."""
    return one is other or (one == other and isinstance(one, bool) == isinstance(other, bool))


def types_of(value: Json) -> list[str]:
    """Return the types that the value of a `type` keyword names."""
    names = value if isinstance(value, list) else [value]
    return [name for name in names if isinstance(name, str)]


def _require_both(one: Json, other: Json) -> Json:
    """Return a schema for what fits both."""
    return False if one is False or other is False else {"allOf": [one, other]}


def _merge_properties(one: Json, other: Json) -> Json:
    """Return the properties of both; a property that both describe must fit both."""
    assert isinstance(one, dict) and isinstance(other, dict)  # the schema was checked
    merged = dict(one)
    for name, schema in other.items():
        known = merged.get(name, schema)
        merged[name] = schema if is_same_json(known, schema) else _require_both(known, schema)
    return merged


def _union(one: Json, other: Json) -> Json:
    """Return the items of both lists, each once."""
    assert isinstance(one, list) and isinstance(other, list)  # the schema was checked
    return [*one, *(item for item in other if item not in one)]


def _shared_types(one: Json, other: Json) -> Json:
    """Return the types that both permit; `number` permits an integer, too. Raises `ImpossibleSchema` for none."""
    first, second = types_of(one), types_of(other)
    shared = [name for name in first if name in second or (name == "integer" and "number" in second)]
    shared += [name for name in second if name == "integer" and "number" in first and name not in first]
    if not shared:
        raise ImpossibleSchema(f"no value is of type {' or '.join(first)} and of type {' or '.join(second)} at once")
    return list[Json](shared)


def _shared_values(one: Json, other: Json) -> Json:
    """Return the values that are in both enums. Raises `ImpossibleSchema` for none."""
    assert isinstance(one, list) and isinstance(other, list)  # the schema was checked
    shared = [value for value in one if any(is_same_json(value, choice) for choice in other)]
    if not shared:
        raise ImpossibleSchema("no value is in each of its enums")
    return shared


def _number(value: Json) -> float:
    return value if isinstance(value, int | float) else 0


_COMBINE: Final[dict[str, Callable[[Json, Json], Json]]] = {
    "properties": _merge_properties,
    "required": _union,
    "type": _shared_types,
    "enum": _shared_values,
    "items": _require_both,
    "additionalProperties": _require_both,
    "description": lambda one, other: f"{one} {other}" if one and other else one or other,
    "uniqueItems": lambda one, other: bool(one or other),
    **dict.fromkeys(
        words("minimum exclusiveMinimum minLength minItems minProperties"),
        lambda one, other: max(one, other, key=_number),
    ),
    **dict.fromkeys(
        words("maximum exclusiveMaximum maxLength maxItems maxProperties"),
        lambda one, other: min(one, other, key=_number),
    ),
}
