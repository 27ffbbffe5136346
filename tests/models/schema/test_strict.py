"""SPEC M3: OpenAI strict. What it can't say is told; what it must not say otherwise goes without strict."""

from typing import Any

import pytest

from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool
from tests.models.schema.test_lowering import lowered


def strict(*, required: tuple[str, ...] = (), **properties: Json) -> LoweredTool:
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    found = lowered({**schema, "required": list(required)}, "openai-strict")
    assert found.strict, found.losses
    return found


def one(given: JsonObject) -> JsonObject:
    """A required parameter, lowered."""
    found = strict(required=("p",), p=given).schema["properties"]
    assert isinstance(found, dict) and isinstance(found["p"], dict)
    return found["p"]


def losses(given: JsonObject) -> tuple[str, ...]:
    return strict(required=("p",), p=given).losses


# What strict mode can't say: the tool goes without it


@pytest.mark.parametrize(
    ("parameter", "why"),
    [
        ({"type": "object"}, "takes names that are not listed"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "takes names that are not listed"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}, "not listed"),
        ({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, "not listed"),
        ({}, "takes a value of any type"),
        ({"type": "array"}, "parameter 'p[]' takes a value of any type"),
        ({"description": "Anything."}, "takes a value of any type"),
        ({"anyOf": [{"type": "string"}, {}]}, "takes a value of any type"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "'p.a' takes a value of any type"),
    ],
)
def test_a_tool_that_strict_mode_would_cripple_is_sent_without_it(parameter: JsonObject, why: str) -> None:
    schema: JsonObject = {"type": "object", "properties": {"p": parameter}, "additionalProperties": False}
    found = lowered(schema, "openai-strict")
    assert found.strict is False
    assert found.schema == lowered(schema, "openai").schema
    assert found.losses[0].startswith("strict mode is off for this tool: ")
    assert why in found.losses[0]


def test_a_recursion_with_rules_beside_its_reference_is_sent_without_strict() -> None:
    again: JsonObject = {"$ref": "#/$defs/n", "minProperties": 1}
    schema: JsonObject = {
        "properties": {"p": again},
        "$defs": {"n": {"type": "object", "properties": {"next": again}, "additionalProperties": False}},
    }
    found = lowered(schema, "openai-strict")
    assert found.strict is False
    assert "parameter 'p.next' contains itself" in found.losses[0]


def nested(levels: int) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"n": schema}, "additionalProperties": False}
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (nested(11), "11 levels of nesting, and the API accepts 10"),
        ({"properties": {"e": {"enum": [f"v{number}" for number in range(1001)]}}}, "1001 enum values"),
        ({"properties": {"e": {"enum": [f"{number:060}" for number in range(251)]}}}, "15060 characters in one long"),
        ({"properties": {"e": {"enum": ["x" * 120_000]}}}, "120001 characters in its names"),
        (
            {
                "properties": {"e": {"$ref": "#/$defs/e"}},
                "$defs": {"e": {"properties": {f"{number:0100}": {"type": "string"} for number in range(1300)}}},
            },
            "characters in its names",
        ),
    ],
)
def test_a_schema_beyond_the_limits_of_strict_mode_is_sent_without_it(schema: JsonObject, why: str) -> None:
    found = lowered(schema, "openai-strict")
    assert found.strict is False
    assert why in found.losses[0]


def test_a_schema_within_the_limits_is_strict() -> None:
    assert lowered(nested(10), "openai-strict").strict is True


# What it says


def test_every_name_is_required_and_an_optional_one_can_be_null() -> None:
    found = strict(
        required=("a",),
        a={"type": "string"},
        b={"type": "integer", "description": "How many.", "default": 3},
        c={"enum": ["x", "y"]},
        d={"type": ["string", "null"]},
        e={"anyOf": [{"type": "string"}, {"type": "integer"}]},
        f={"type": "object", "properties": {"g": {"type": "string"}}, "additionalProperties": False},
    )
    assert found.schema == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["integer", "null"], "description": "How many. (default: 3)"},
            "c": {"anyOf": [{"type": "string", "enum": ["x", "y"]}, {"type": "null"}]},
            "d": {"type": ["string", "null"]},
            "e": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "f": {
                "type": ["object", "null"],
                "properties": {"g": {"type": ["string", "null"]}},
                "required": ["g"],
                "additionalProperties": False,
            },
        },
        "required": ["a", "b", "c", "d", "e", "f"],
        "additionalProperties": False,
    }
    assert found.losses == ("parameter 'b': default 3 is only told in the description",)


def test_no_parameters_are_an_empty_closed_object() -> None:
    assert lowered({}, "openai-strict").schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_an_open_object_is_closed_and_that_is_said() -> None:
    found = lowered({"properties": {"a": {"type": "string"}}}, "openai-strict")
    assert found.strict
    assert found.losses == ("the arguments: only the names that are listed can be sent",)


def test_references_are_kept_and_nothing_stands_beside_one() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "tree": {"$ref": "#/$defs/Node", "description": "The tree."},
            "maybe": {"$ref": "#/$defs/Node"},
            "self": {"$ref": "#"},
        },
        "required": ["tree", "self"],
        "additionalProperties": False,
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
                "required": ["next"],
                "additionalProperties": False,
            }
        },
    }
    found = lowered(schema, "openai-strict")
    assert found.strict and found.losses == ()
    assert found.schema["properties"] == {
        "tree": {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "The tree."},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        "self": {"$ref": "#"},
    }
    assert found.schema["$defs"] == schema["$defs"]


def test_a_reference_with_rules_beside_it_is_written_out() -> None:
    schema: JsonObject = {
        "properties": {"a": {"$ref": "#/$defs/word", "pattern": "^x"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"word": {"type": "string", "description": "A word."}},
    }
    assert lowered(schema, "openai-strict").schema["properties"] == {
        "a": {"type": "string", "pattern": "^x", "description": "A word."}
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "string", "minLength": 2, "maxLength": 9}, "at least 2 characters; at most 9 characters"),
        ({"type": "string", "format": "uri"}, "format: uri"),
        ({"type": "string", "pattern": "(?<=a)b"}, "must match the regular expression (?<=a)b"),
        ({"type": "string", "pattern": r"(a)\1"}, r"must match the regular expression (a)\1"),
        ({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}, "encoded as base64"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "no item twice"),
        ({"type": "array", "items": {"type": "string"}, "contains": {"const": "a"}}, 'of its items fit {"const":"a"}'),
        ({"type": "string", "not": {"const": "a"}}, 'must not fit {"const":"a"}'),
        ({"type": "string", "if": {"minLength": 2}, "else": {"const": ""}}, 'otherwise it must fit {"const":""}'),
        ({"type": "string", "examples": ["a", "b"]}, 'for example "a", "b"'),
        ({"type": "string", "deprecated": True}, "deprecated"),
        ({"type": "string", "default": False}, "default: false"),
        ({"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "b$"}]}, "must match the regular expression b$"),
    ],
)
def test_what_strict_mode_can_t_say_is_told_in_the_description(given: JsonObject, words: str) -> None:
    keyword = [key for key in given if key not in ("type", "items", "allOf")] or ["pattern"]
    text = one(given)["description"]
    assert isinstance(text, str) and words in text
    assert any(f"parameter 'p': {keyword[0]} " in loss and "only told" in loss for loss in losses(given))


@pytest.mark.parametrize(
    "given",
    [
        {"type": "string", "pattern": "^a", "format": "email"},
        {"type": "number", "minimum": 1, "exclusiveMaximum": 2.5, "multipleOf": 0.5},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "integer", "enum": [1, 2]},
    ],
)
def test_what_strict_mode_can_say_is_not_touched(given: JsonObject) -> None:
    assert one(given) == given
    assert losses(given) == ()


def test_rules_on_names_are_told() -> None:
    given: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
        "minProperties": 1,
        "propertyNames": {"maxLength": 3},
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": {"required": ["c"]}},
    }
    assert one(given)["description"] == (
        "at least 1 names; each name fits {\"maxLength\":3}; 'a' needs [\"b\"] too; with 'a' it must also fit "
        '{"required":["c"]}'
    )


def test_a_tuple_becomes_a_list_of_either_and_the_order_is_told() -> None:
    given: JsonObject = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}
    assert one(given) == {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "maxItems": 2,
        "description": 'its items in order: [{"type":"string"},{"type":"integer"}]',
    }
    assert one({"type": "array", "items": False})["maxItems"] == 0


def test_choices_and_constants_have_types() -> None:
    assert one({"const": "a"}) == {"type": "string", "enum": ["a"]}
    assert one({"enum": ["a", 1, 2.5, True, None]}) == {
        "anyOf": [
            {"type": "string", "enum": ["a"]},
            {"type": "number", "enum": [1, 2.5]},
            {"type": "boolean", "enum": [True]},
            {"type": "null"},
        ]
    }
    assert one({"type": ["string", "integer"], "minimum": 0, "pattern": "^a"}) == {
        "anyOf": [{"type": "string", "pattern": "^a"}, {"type": "integer", "minimum": 0}]
    }
    assert one({"oneOf": [{"const": "a", "description": "First."}, {"const": "b"}], "description": "Which."}) == {
        "anyOf": [
            {"type": "string", "enum": ["a"], "description": "First."},
            {"type": "string", "enum": ["b"]},
        ],
        "description": "Which.",
    }
    assert losses({"oneOf": [{"const": "a"}]}) == ()


def test_what_stands_beside_a_choice_goes_into_each_form() -> None:
    given: JsonObject = {
        "type": "object",
        "properties": {"k": {"type": "string"}},
        "required": ["k"],
        "anyOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
            {"type": "string"},
            {"properties": {"b": {"type": "string"}}, "required": ["b"], "additionalProperties": False},
        ],
    }
    forms: Any = one(given)["anyOf"]
    assert [sorted(form["properties"]) for form in forms] == [["a", "k"], ["b", "k"]]
