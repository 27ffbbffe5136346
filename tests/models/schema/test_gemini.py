"""SPEC M3: both forms of Gemini. Each trap of `parameters` is a 400 for the whole request."""

from typing import Any

import pytest

from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool
from handspan.models.schema.lowering import Target
from tests.models.schema.test_lowering import lowered, reason

GEMINI: list[Target] = ["gemini", "gemini-parameters"]
both = pytest.mark.parametrize("target", GEMINI)


def with_one(given: Json, target: Target, required: bool = True) -> LoweredTool:
    return lowered({"properties": {"p": given}, "required": ["p"] if required else []}, target)


def one(given: Json, target: Target) -> Any:
    found = with_one(given, target).schema["properties"]
    assert isinstance(found, dict)
    return found["p"]


def parameter(given: Json) -> Any:
    return one(given, "gemini-parameters")


# Names


@both
@pytest.mark.parametrize("name", ["file-path", "$top", "größe", "", "1st", "a.b", "n" * 65])
def test_a_name_that_gemini_can_t_take_is_left_out_or_quarantines_the_tool(target: Target, name: str) -> None:
    schema: JsonObject = {"properties": {name: {"type": "string"}, "ok": {"type": "string"}}}
    found = lowered(schema, target)
    assert found.schema["properties"] == {"ok": {"type": "string"}}
    assert "it is left out" in found.losses[0]
    assert "takes only names that match" in reason({**schema, "required": [name]}, target)


@both
def test_a_form_with_such_a_name_is_left_out_of_its_choice(target: Target) -> None:
    bad: JsonObject = {"type": "object", "properties": {"a-b": {"type": "string"}}, "required": ["a-b"]}
    found = with_one({"anyOf": [{"type": "string"}, bad]}, target)
    assert found.schema["properties"] == {"p": {"type": "string"}}
    assert any("one of its forms is left out: parameter 'p.a-b'" in loss for loss in found.losses)
    assert "this API takes none of its forms" in reason(
        {"properties": {"p": {"anyOf": [bad]}}, "required": ["p"]}, target
    )


# Rules that go into words


@both
def test_an_exclusive_bound_is_told_and_the_nearest_one_is_kept(target: Target) -> None:
    found = with_one({"type": "number", "exclusiveMinimum": 0, "description": "A share."}, target)
    assert found.schema["properties"] == {
        "p": {"type": "number", "minimum": 0, "description": "A share. (must be greater than 0)"}
    }
    assert found.losses == ("parameter 'p': exclusiveMinimum 0 is only told in the description",)
    assert one({"type": "number", "exclusiveMaximum": 1, "maximum": 0.5}, target) == {
        "type": "number",
        "maximum": 0.5,
        "description": "must be less than 1",
    }


@both
def test_an_exclusive_bound_of_integers_is_said_without_a_loss(target: Target) -> None:
    given: JsonObject = {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10.0, "maximum": 5}
    found = with_one(given, target)
    assert found.schema["properties"] == {"p": {"type": "integer", "minimum": 1, "maximum": 5}}
    assert found.losses == ()


@both
def test_constants_are_enums_with_a_type(target: Target) -> None:
    assert one({"const": "a"}, target) == {"type": "string", "enum": ["a"]}


@both
@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"const": True}, "boolean", "one of true"),
        ({"enum": ["", "a"]}, "string", 'one of "","a"'),
        ({"enum": [{"a": 1}]}, "object", 'one of {"a":1}'),
        ({"enum": [[1]], "description": "A list."}, "array", "A list. one of [1]"),
        ({"type": "string", "format": "uri"}, "string", "format: uri"),
        ({"type": "number", "multipleOf": 0.5}, "number", "must be a multiple of 0.5"),
        ({"type": "string", "not": {"const": "a"}}, "string", 'must not fit {"const":"a"}'),
        ({"type": "object", "propertyNames": {"maxLength": 3}}, "object", 'each name fits {"maxLength":3}'),
        ({"type": "object", "patternProperties": {"^x": {"type": "string"}}}, "object", "names that match ^x hold"),
    ],
)
def test_what_gemini_can_t_say_is_told(target: Target, given: JsonObject, kind: str, words: str) -> None:
    found = one(given, target)
    assert found["type"] == kind and "enum" not in found
    assert words in found["description"]
    assert any("is only told in the description" in loss for loss in with_one(given, target).losses)


def test_rules_that_answered_requests_have_shown_are_kept_as_json_schema() -> None:
    given: JsonObject = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "(?=a).+", "format": "date-time"},
            "b": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1, "default": ["x"]},
            "c": {"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1},
            "d": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            "e": {"type": ["string", "null"]},
            "f": {"type": "integer", "enum": [1, 2]},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    found = lowered(given, "gemini")
    assert found.schema == given
    assert found.losses == ()


@both
def test_titles_and_marks_are_left_out_but_a_title_that_says_something_is_told(target: Target) -> None:
    assert one({"title": "P", "type": "string", "$comment": "x"}, target) == {"type": "string"}
    assert one({"title": "Path of the file", "type": "string"}, target)["description"] == "Path of the file"
    assert "title" not in lowered({"title": "fetchArguments"}, target).schema


@both
def test_what_is_required_is_also_described(target: Target) -> None:
    found = lowered({"required": ["a"]}, target)
    assert list(found.schema["properties"]) == ["a"]  # type: ignore[arg-type]  # an object's
    assert found.schema["required"] == ["a"]


@both
def test_a_schema_without_a_type_gets_the_one_that_its_rules_are_for(target: Target) -> None:
    found = with_one({"minLength": 2}, target)
    assert found.schema["properties"] == {"p": {"type": "string", "minLength": 2}}
    assert found.losses == ("parameter 'p': it has no type and is sent as string",)
    assert one({"properties": {"a": {"type": "string"}}}, target)["type"] == "object"


# References and recursion


TREE: JsonObject = {
    "properties": {"tree": {"$ref": "#/$defs/Node"}},
    "$defs": {
        "Node": {
            "type": "object",
            "description": "A node.",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name"],
        }
    },
}


@both
def test_recursion_is_written_out_three_levels_deep(target: Target) -> None:
    found = lowered(TREE, target)
    node: Any = found.schema["properties"]["tree"]  # type: ignore[index,call-overload]  # an object's
    for _ in range(3):
        assert node["description"] == "A node."
        node = node["properties"]["children"]["items"]
    assert node == {"type": "object", "description": "the same form again, one level deeper"}
    path = "tree.children[].children[].children[]"
    assert found.losses == (f"parameter '{path}': it contains itself; written out 3 levels deep, further only told",)


@both
def test_recursion_that_grows_is_written_out_less_deep(target: Target) -> None:
    links: JsonObject = {f"l{number}": {"$ref": "#/$defs/Node"} for number in range(20)}
    schema: JsonObject = {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": links}}}
    found = lowered(schema, target)
    assert any("written out 2 levels deep" in loss for loss in found.losses)
    assert found.losses[-1] == "and 300 more"


@both
def test_a_choice_that_contains_itself_ends_in_any_value(target: Target) -> None:
    schema: JsonObject = {
        "properties": {"p": {"$ref": "#/$defs/Json"}},
        "$defs": {"Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]}},
    }
    found = lowered(schema, target)
    assert "the same form again" in str(found.schema)
    assert any("contains itself" in loss for loss in found.losses)


@both
def test_parts_are_merged_and_the_stricter_rule_counts(target: Target) -> None:
    given: JsonObject = {
        "allOf": [
            {"type": ["string", "integer"], "minLength": 1, "maxLength": 9, "enum": ["a", "b", 1], "description": "A."},
            {
                "title": "P",
                "type": ["number", "string"],
                "minLength": 3,
                "maxLength": 5,
                "enum": ["b", "a"],
                "description": "B.",
            },
            {"title": "Q"},
            True,
        ]
    }
    assert one(given, target) == {
        "type": "string",
        "minLength": 3,
        "maxLength": 5,
        "enum": ["a", "b"],
        "description": "A. B.",
    }


@both
@pytest.mark.parametrize(
    "given",
    [
        {"allOf": [{"enum": ["a"]}, {"enum": ["b"]}]},
        {"allOf": [{"type": "string"}, {"type": "array"}]},
        {"type": "string", "enum": [1]},
        {"enum": []},
        {"allOf": [{"const": 1}, {"const": True}]},
        False,
    ],
)
def test_what_no_value_fits_is_left_out(target: Target, given: Json) -> None:
    found = with_one(given, target, required=False)
    assert found.schema["properties"] == {}
    assert "parameter 'p': it is left out: no value" in found.losses[0]
    assert "parameter 'p': no value" in reason({"properties": {"p": given}, "required": ["p"]}, target)


@both
def test_items_and_names_of_parts_are_merged_too(target: Target) -> None:
    given: JsonObject = {
        "allOf": [
            {"type": "array", "items": {"type": ["number", "string"]}, "uniqueItems": False},
            {"items": {"type": "integer"}, "uniqueItems": True},
            {"items": {"type": "integer"}},
        ]
    }
    found = one(given, target)
    assert found["items"] == {"type": "integer"}
    assert ("uniqueItems" in found) == (target == "gemini")
    closed = one({"allOf": [{"additionalProperties": False}, {"additionalProperties": {"type": "string"}}]}, target)
    assert closed.get("additionalProperties", False) is False


# Choices


@both
def test_a_choice_of_what_is_required_is_told(target: Target) -> None:
    given: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "anyOf": [{"required": ["a"]}, {"not": {"required": ["b"]}}],
    }
    text = one(given, target)["description"]
    assert "exactly one of: with 'a' / with 'b'" in text
    assert "at least one of: with 'a' / {" in text


@both
def test_two_choices_at_once_become_every_combination(target: Target) -> None:
    given: JsonObject = {
        "type": "object",
        "anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}],
        "oneOf": [{"properties": {"c": {"type": "string"}}}, {"properties": {"d": {"type": "string"}}}],
    }
    names = [sorted(form["properties"]) for form in one(given, target)["anyOf"]]
    assert names == [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]


# Only `parameters`


def test_null_is_a_flag_and_nothing_stands_beside_any_of() -> None:
    assert parameter({"type": ["string", "null"]}) == {"type": "string", "nullable": True}
    assert parameter({"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "Perhaps."}) == {
        "type": "integer",
        "nullable": True,
        "description": "Perhaps.",
    }
    assert parameter({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "It."}) == {
        "anyOf": [
            {"type": "string", "description": "It.", "nullable": True},
            {"type": "integer", "description": "It."},
        ]
    }
    assert parameter({"type": "null"}) == {"type": "string", "nullable": True, "description": "must be null"}
    assert parameter({"enum": ["a", None]}) == {"type": "string", "enum": ["a"], "nullable": True}


def test_only_strings_have_enums() -> None:
    assert parameter({"enum": [True, False]}) == {"type": "boolean"}
    assert parameter({"enum": [1.0, 2.5]}) == {"type": "number", "description": "one of 1.0,2.5"}
    assert parameter({"enum": ["a", 1]}) == {
        "anyOf": [
            {"type": "string", "enum": ["a"]},
            {"type": "integer", "description": "one of 1"},
        ]
    }


def test_formats_of_numbers_are_kept_and_others_told() -> None:
    assert parameter({"type": "integer", "format": "int64"}) == {"type": "integer", "format": "int64"}
    assert parameter({"type": "number", "format": "int64"}) == {"type": "number"}
    assert parameter({"type": "string", "format": "date-time"}) == {"type": "string", "format": "date-time"}
    assert parameter({"type": "string", "format": "int64"})["description"] == "format: int64"
    assert one({"type": "integer", "format": "int64"}, "gemini") == {"type": "integer"}


def test_further_names_and_tuples_are_told() -> None:
    given: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
    assert parameter(given) == {"type": "object", "description": 'further names hold {"type":"string"}'}
    assert parameter({"type": "object", "additionalProperties": False}) == {"type": "object"}
    assert parameter({"type": "array", "prefixItems": [{"type": "string"}], "items": False}) == {
        "type": "array",
        "items": {"type": "string"},
        "maxItems": 1,
        "description": 'its items in order: [{"type":"string"}]',
    }
    assert parameter({"type": "string", "pattern": "(?!a)"})["description"].endswith("(?!a)")


def test_any_value_is_said_as_well_as_it_goes() -> None:
    kinds = [form["type"] for form in parameter({"description": "Any."})["anyOf"]]
    assert kinds == ["string", "number", "boolean", "object", "array"]
    assert one({"description": "Any."}, "gemini") == {"description": "Any."}


def test_no_parameters_are_an_empty_object() -> None:
    for target in GEMINI:
        assert lowered({}, target).schema == {"type": "object", "properties": {}}


def test_lengths_are_whole_numbers() -> None:
    assert parameter({"type": "string", "minLength": 2.0}) == {"type": "string", "minLength": 2}
    assert str(parameter({"type": "array", "items": {"type": "string"}, "maxItems": 3.0})["maxItems"]) == "3"


# Only JSON Schema


def test_further_names_of_impossible_values_close_the_object() -> None:
    given: JsonObject = {"type": "object", "additionalProperties": {"allOf": [False]}}
    assert one(given, "gemini") == {"type": "object", "additionalProperties": False}
    tuples: JsonObject = {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    assert one(tuples, "gemini") == tuples
