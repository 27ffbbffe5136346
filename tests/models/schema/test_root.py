"""SPEC M3: the top of every lowered schema is an object with named parameters."""

import pytest

from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool
from handspan.models.schema.lowering import Target
from tests.models.schema.test_lowering import TARGETS, every_target, lowered, reason

CLOSED: JsonObject = {"additionalProperties": False}


def properties(found: LoweredTool) -> JsonObject:
    inner = found.schema["properties"]
    assert isinstance(inner, dict)
    return inner


def description(found: LoweredTool) -> str:
    text = found.schema.get("description", "")
    assert isinstance(text, str)
    return text


def an_action(action: str, **parameters: Json) -> JsonObject:
    return {
        "type": "object",
        "title": action.title(),
        "properties": {"action": {"const": action}, **parameters},
        "required": ["action", *parameters],
        **CLOSED,
    }


@every_target
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_forms_at_the_top_become_one_object_and_the_description_tells_them_apart(target: Target, keyword: str) -> None:
    schema: JsonObject = {
        "description": "What to do.",
        keyword: [an_action("read", path={"type": "string"}), an_action("wait", seconds={"type": "integer"})],
    }
    found = lowered(schema, target)
    assert list(properties(found)) == ["action", "path", "seconds"]
    action = properties(found)["action"]
    assert isinstance(action, dict) and action["enum"] == ["read", "wait"]
    assert found.schema["required"] == (list(properties(found)) if found.strict else ["action"])
    assert description(found).startswith("What to do. (")
    assert 'Read: action="read" path / Wait: action="wait" seconds' in description(found)
    assert ("exactly one of 2 forms" in description(found)) == (keyword == "oneOf")
    assert any(loss.startswith(f"the arguments: {keyword} at the top") for loss in found.losses)
    if target not in ("gemini-parameters",):
        assert found.schema["additionalProperties"] is False


@every_target
def test_a_choice_of_what_is_required_is_only_told(target: Target) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"], "not": {"required": ["id"]}}],
        **CLOSED,
    }
    found = lowered(schema, target)
    assert list(properties(found)) == ["id", "name"]
    assert description(found).startswith("at least one of: with 'id' / {")
    assert any("only told in the description" in loss for loss in found.losses)


@every_target
def test_parts_at_the_top_are_merged(target: Target) -> None:
    schema: JsonObject = {
        "allOf": [
            {"$ref": "#/$defs/base"},
            {"properties": {"b": {"type": "integer"}, "a": {"minLength": 2}}, "required": ["b"]},
        ],
        "$defs": {"base": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        **CLOSED,
    }
    found = lowered(schema, target)
    assert list(properties(found)) == ["a", "b"]
    assert found.schema["required"] == ["a", "b"]


@every_target
def test_a_reference_at_the_top_is_followed_even_to_itself(target: Target) -> None:
    schema: JsonObject = {
        "$ref": "#/$defs/Args",
        "$defs": {"Args": {"type": "object", "properties": {"a": {"type": "string"}}, **CLOSED}},
    }
    assert list(properties(lowered(schema, target))) == ["a"]
    assert properties(lowered({"$ref": "#", "properties": {"a": {"type": "string"}}}, target))["a"]


@every_target
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"not": {"required": ["a"]}}, 'must not fit {"required":["a"]}'),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, 'if it fits {"required":["a"]}, it must also fit'),
        ({"enum": [{"a": "x"}]}, 'one of {"a":"x"}'),
        ({"const": {"a": "x"}}, 'one of {"a":"x"}'),
    ],
)
def test_other_rules_at_the_top_are_told(target: Target, rule: JsonObject, words: str) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, **CLOSED, **rule}
    found = lowered(schema, target)
    assert words in description(found)
    assert any("is only told in the description" in loss for loss in found.losses)


@every_target
def test_a_choice_inside_a_choice_puts_its_forms_beside_the_others(target: Target) -> None:
    schema: JsonObject = {
        "anyOf": [
            {"properties": {"k": {"type": "string"}}, "required": ["k"], "oneOf": [an_action("a"), an_action("b")]},
            {"properties": {"k": {"type": "integer"}}, "required": ["k"]},
            {"$ref": "#"},
            {"type": "null"},
        ]
    }
    found = lowered(schema, target)
    assert list(properties(found)) == ["k", "action"]
    assert '3 forms: k / A: k action="a" / B: k action="b"' in description(found)
    assert found.schema["required"] == (["k", "action"] if found.strict else ["k"])


@every_target
def test_a_parameter_that_the_forms_describe_differently_may_be_each_of_them(target: Target) -> None:
    schema: JsonObject = {
        "anyOf": [
            {"properties": {"v": {"type": "string"}, "w": {"enum": [1]}, "u": {"minLength": 1}}},
            {"properties": {"v": {"type": "boolean"}, "w": {"type": "string"}, "u": {"type": "null"}}},
            {"properties": {"v": True}},
        ]
    }
    found = lowered(schema, "gemini" if target == "openai-strict" else target)
    assert "anyOf" in str(properties(found)["v"])
    assert "anyOf" in str(properties(found)["w"])
    assert "null" in str(properties(found)["u"]).replace("nullable", "null")


def test_more_forms_than_anyone_can_read_are_quarantined() -> None:
    forms: list[Json] = [{"properties": {f"p{number}": {"type": "string"}}} for number in range(400)]
    for target in TARGETS:
        assert "too many forms" in reason({"anyOf": forms}, target)
