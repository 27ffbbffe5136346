"""SPEC M3, for any schema: lowering never raises, its result obeys the API, and what was valid stays valid."""

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handspan.core.errors import DefinitionError
from handspan.core.schema import Validator
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool
from handspan.models.schema.lowering import Target, drop_nulls, lower
from tests.models.schema.rules import as_json_schema, problems
from tests.thoroughness import examples

TARGETS: list[Target] = ["openai", "openai-strict", "anthropic", "gemini", "gemini-parameters"]
DEFINITIONS = ("a", "b", "c d")

names = st.sampled_from(["x", "y", "z", "file-path", "$top", "1st", "a.b", "", "größe", "_", "n" * 65])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-5, 5), st.sampled_from(["", "a", "b"]))
refs = st.sampled_from(["#", *(f"#/$defs/{name.replace(' ', '%20')}" for name in DEFINITIONS), "#/properties/x"])
counts = st.integers(0, 4)
kinds = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])


def _schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True),
        "properties": st.dictionaries(names, inner, max_size=3),
        "required": st.lists(names, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^x-", "a+"]), inner, max_size=1),
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=1),
        "dependentSchemas": st.dictionaries(names, inner, max_size=1),
        "unevaluatedProperties": inner,
        "items": inner,
        "prefixItems": some,
        "contains": inner,
        "uniqueItems": st.booleans(),
        **dict.fromkeys(("anyOf", "oneOf", "allOf"), some),
        **dict.fromkeys(("not", "if", "then", "else"), inner),
        **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), counts),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-5, 5)),
        "multipleOf": st.sampled_from([1, 0.5, 2]),
        "pattern": st.sampled_from(["^a", "(?=.*b).+", "(?<!a)b", r"(a)\1"]),
        "format": st.sampled_from(["date-time", "uri", "email", "int32", "made-up"]),
        "enum": st.lists(scalars | st.just({"a": 1}) | st.just([1]), min_size=1, max_size=4, unique_by=repr),
        "const": scalars,
        "$ref": refs,
        "description": st.sampled_from(["", "Words."]),
        "title": st.sampled_from(["X", "A title"]),
        "default": scalars,
        "examples": st.lists(scalars, max_size=2),
        "deprecated": st.booleans(),
        "$comment": st.just("not for models"),
        "x-own": st.just(1),
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True)
    return st.booleans() | chosen.flatmap(lambda keys: st.fixed_dictionaries({key: keywords[key] for key in keys}))


schemas: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.builds(dict, type=kinds), _schemas_of, max_leaves=8)


@st.composite
def roots(draw: st.DrawFn) -> JsonObject:
    """The schema of a tool's arguments, with definitions that may name each other and themselves."""
    root = draw(_schemas_of(schemas).filter(lambda schema: isinstance(schema, dict)))
    if draw(st.booleans()):
        root = {**root, "properties": draw(st.dictionaries(names, schemas, min_size=1, max_size=3))}
    root = {key: value for key, value in root.items() if key != "type"} | {"type": "object"}
    definitions = {name: draw(schemas) for name in DEFINITIONS}
    result: JsonObject = {**root, "$defs": definitions}
    return result


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=roots())
def test_any_schema_is_lowered_to_what_the_api_takes_or_quarantined_with_a_reason(
    target: Target, schema: JsonObject
) -> None:
    before = copy.deepcopy(schema)
    found = lower(ToolSpec("t", "Does.", schema), target)
    assert schema == before
    if isinstance(found, LoweredTool):
        assert problems(found.schema, target, found.strict) == []
        assert all(found.losses)
    else:
        assert found.reason


# A modest class of schemas: values that are valid for the original are valid for what the model sees.


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> tuple[JsonObject, st.SearchStrategy[Any]]:
    """A schema and the values that fit it."""
    simple: list[tuple[JsonObject, st.SearchStrategy[Any]]] = [
        ({"type": "string", "minLength": 1}, st.text("abc", min_size=1, max_size=4)),
        ({"type": "integer", "exclusiveMinimum": 0}, st.integers(1, 9)),
        ({"type": "number", "maximum": 3.5}, st.floats(-9, 3.5)),
        ({"type": "boolean", "default": False}, st.booleans()),
        ({"enum": ["a", "b"]}, st.sampled_from(["a", "b"])),
        ({"enum": ["a", 1, None]}, st.sampled_from(["a", 1, None])),
        ({"const": 3}, st.just(3)),
        ({"type": ["string", "null"], "description": "Perhaps."}, st.none() | st.text("ab", max_size=3)),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, st.integers(0, 9) | st.text("ab", max_size=3)),
        ({"$ref": "#/$defs/point"}, st.fixed_dictionaries({"x": st.integers(0, 9)})),
        ({"$ref": "#/$defs/tree"}, trees),
    ]
    if depth == 0 or draw(st.booleans()):
        chosen: tuple[JsonObject, st.SearchStrategy[Any]] = draw(st.sampled_from(simple))
        return chosen
    if draw(st.booleans()):
        inner, values = draw(pairs(depth - 1))
        return {"type": "array", "items": inner, "maxItems": 3}, st.lists(values, max_size=3)
    return draw(objects(depth - 1))


trees: st.SearchStrategy[Any] = st.recursive(
    st.builds(dict, name=st.sampled_from("ab")),
    lambda inner: st.fixed_dictionaries({"name": st.sampled_from("ab"), "children": st.lists(inner, max_size=2)}),
    max_leaves=3,
)


@st.composite
def objects(draw: st.DrawFn, depth: int = 3) -> tuple[JsonObject, st.SearchStrategy[Any]]:
    parts = {name: draw(pairs(depth)) for name in draw(st.lists(st.sampled_from("klmn"), unique=True, min_size=1))}
    required: list[Json] = [name for name in parts if draw(st.booleans())]
    schema: JsonObject = {
        "type": "object",
        "properties": {name: inner for name, (inner, _) in parts.items()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }
    values = {name: value for name, (_, value) in parts.items()}
    optional = {name: value for name, value in values.items() if name not in required}
    return schema, st.fixed_dictionaries({name: values[name] for name in parts if name in required}, optional=optional)


DEFS: JsonObject = {
    "point": {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    },
    "tree": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_valid_for_the_tool_is_valid_for_what_the_model_sees(target: Target, data: st.DataObject) -> None:
    schema, values = data.draw(objects())
    schema = {**schema, "$defs": DEFS}
    value = data.draw(values)
    spec = ToolSpec("t", "Does.", schema)
    found = lower(spec, target)
    assert isinstance(found, LoweredTool)
    assert Validator(schema).problems(value) == []
    sent = _with_every_name(value, found.schema, found.schema) if found.strict else value
    seen = as_json_schema(found.schema) if target == "gemini-parameters" else found.schema
    assert [error.message for error in jsonschema_rs.Draft202012Validator(seen).iter_errors(sent)] == []
    if found.strict:
        kept = drop_nulls(sent, spec)
        assert Validator(schema).problems(kept) == []
        assert _without_nulls(kept) == _without_nulls(value)  # a null that the tool takes may stay


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}


def _with_every_name(value: Any, schema: Any, root: Any) -> Any:
    """What a model in strict mode sends for this value: null for each name that is left out."""
    if "$ref" in schema:
        return _with_every_name(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    for choice in schema.get("anyOf", ()):
        target = root["$defs"][choice["$ref"].removeprefix("#/$defs/")] if "$ref" in choice else choice
        kind = target.get("type", "object")
        if (isinstance(value, dict) and "object" in kind) or (isinstance(value, list) and "array" in kind):
            return _with_every_name(value, target, root)
    if isinstance(value, list):
        return [_with_every_name(item, schema["items"], root) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _with_every_name(value[name], inner, root) if name in value else None
        for name, inner in schema["properties"].items()
    }


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=roots(), arguments=st.recursive(scalars, lambda inner: st.dictionaries(names, inner, max_size=3)))
def test_dropping_nulls_never_makes_valid_arguments_invalid(schema: JsonObject, arguments: Any) -> None:
    given_arguments = arguments if isinstance(arguments, dict) else {"x": arguments}
    try:
        validator = Validator(schema)
    except DefinitionError:
        return
    before = copy.deepcopy(given_arguments)
    cleaned = drop_nulls(given_arguments, ToolSpec("t", "Does.", schema))
    assert given_arguments == before
    if validator.is_valid(given_arguments) and not {"not", "if", "oneOf"} & _keywords(schema):
        assert validator.is_valid(cleaned) or cleaned == given_arguments


def _keywords(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keywords, value))
    return set(value).union(*map(_keywords, value.values())) if isinstance(value, dict) else set()
