"""SPEC M3: tools in the words of each API, with reversible names, a loss report, and quarantine."""

import copy
from typing import Any

import pytest

from handspan.core.names import is_outside_name
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool, QuarantinedTool
from handspan.models.schema.lowering import Target, lower, lower_all
from tests.models.schema.rules import problems

TARGETS: list[Target] = ["openai", "openai-strict", "anthropic", "gemini", "gemini-parameters"]
every_target = pytest.mark.parametrize("target", TARGETS)


def a_spec(name: str = "t", **properties: Json) -> ToolSpec:
    return ToolSpec(name, "Does.", {"type": "object", "properties": properties, "additionalProperties": False})


def lowered(schema: JsonObject, target: Target) -> LoweredTool:
    """The lowered tool, after a look that the API takes it and that the given schema is as it was."""
    before = copy.deepcopy(schema)
    found = lower(ToolSpec("t", "Does.", schema), target)
    assert isinstance(found, LoweredTool), found
    assert schema == before
    assert problems(found.schema, target, found.strict) == []
    return found


def reason(schema: Any, target: Target = "openai") -> str:
    found = lower(ToolSpec("t", "Does.", schema), target)
    assert isinstance(found, QuarantinedTool), found
    assert 0 < len(found.reason) < 500
    return found.reason


# What can't be lowered


@every_target
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "arguments are always an object"),
        ([], "must be a JSON object"),
        ({"properties": {"a": {"type": 5}}}, "can't be used"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "gone"),
        ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "only point into the schema itself"),
        ({"allOf": [{"type": "string"}], "type": "object"}, "no value is of type object and of type string"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "none of the forms"),
        ({"not": {"type": "object"}, "allOf": [False]}, "no arguments fit"),
    ],
)
def test_a_schema_that_makes_no_sense_is_quarantined_with_its_reason(target: Target, schema: Any, why: str) -> None:
    assert why in reason(schema, target)


@every_target
def test_a_quarantined_tool_leaves_the_others_alone(target: Target) -> None:
    broken = ToolSpec("broken", "Does.", {"type": "string"})
    found = lower_all([a_spec("one"), broken, a_spec("two")], target)
    assert [tool.name for tool in found.tools] == ["one", "two"]
    assert [(tool.spec, "object" in tool.reason) for tool in found.quarantined] == [(broken, True)]
    assert found.names == {"one": "one", "two": "two"}


@every_target
@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_definitions_that_double_again_and_again_end_soon(target: Target, keyword: str) -> None:
    definitions: JsonObject = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}", "title": "x"}]}
        for level in range(40)
    }
    definitions["d40"] = {"properties": {"x": {"type": "integer"}}}
    inside: JsonObject = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    at_the_top: JsonObject = {"$ref": "#/$defs/d0", "$defs": definitions}
    for schema in (inside, at_the_top):
        found = lower(ToolSpec("t", "Does.", schema), target)
        assert isinstance(found, QuarantinedTool) or problems(found.schema, target, found.strict) == []


@every_target
@pytest.mark.parametrize("wrap", ["properties", "allOf", "items"])
def test_a_chain_of_a_thousand_references_is_no_recursion_error(target: Target, wrap: str) -> None:
    def link(level: int) -> JsonObject:
        following: JsonObject = {"$ref": f"#/$defs/d{level + 1}"}
        wrapped: dict[str, JsonObject] = {
            "properties": {"type": "object", "properties": {"n": following}, "additionalProperties": False},
            "allOf": {"allOf": [following]},
            "items": {"type": "array", "items": following},
        }
        return wrapped[wrap]

    definitions: JsonObject = {f"d{level}": link(level) for level in range(1000)}
    definitions["d1000"] = {"type": "string"}
    schema: JsonObject = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    found = lower(ToolSpec("t", "Does.", schema), target)
    if isinstance(found, QuarantinedTool):
        assert "more than 1000 parts" in found.reason
        assert wrap == "allOf"
    else:
        assert problems(found.schema, target, found.strict) == []


@pytest.mark.parametrize("target", ["gemini", "gemini-parameters"])
def test_a_large_definition_that_is_used_everywhere_is_not_written_out_without_end(target: Target) -> None:
    schema: JsonObject = {
        "$defs": {"many": {"enum": [f"value {number}" for number in range(5000)]}},
        "properties": {f"p{number}": {"$ref": "#/$defs/many"} for number in range(2000)},
    }
    assert "written out, it has more than" in reason(schema, target)


# Names


@every_target
def test_names_that_an_api_can_t_take_are_mapped_and_lead_back(target: Target) -> None:
    names = ["read_file", "read.file", "read file", "größe", "", "1st", "x" * 80, "read-file", "_", "a:b", "a/b"]
    found = lower_all([a_spec(name) for name in names], target)
    assert [found.names[tool.name] for tool in found.tools] == names
    assert all(is_outside_name(tool.name) for tool in found.tools)
    assert len(found.names) == len(names)
    assert found.tools[0].name == "read_file"
    assert found.tools[7].name == "read-file"


def test_a_mapped_name_never_takes_the_place_of_another_tool() -> None:
    mapped = lower_all([a_spec("read file")], "openai").tools[0].name
    found = lower_all([a_spec("read file"), a_spec(mapped)], "openai")
    assert found.tools[1].name == mapped
    assert found.tools[0].name != mapped
    assert set(found.names.values()) == {"read file", mapped}


def test_names_and_order_are_the_same_every_time() -> None:
    specs = [a_spec("b c"), a_spec("a"), a_spec("b_c")]
    first, second = lower_all(specs, "gemini"), lower_all(list(specs), "gemini")
    assert first == second
    assert [tool.spec.name for tool in first.tools] == ["b c", "a", "b_c"]
    assert lower(specs[0], "gemini") == first.tools[0]


def test_the_second_of_two_tools_with_one_name_is_quarantined() -> None:
    one, other = a_spec("same", a={"type": "string"}), a_spec("same")
    found = lower_all([one, other], "openai")
    assert [tool.spec for tool in found.tools] == [one]
    assert "another tool is named 'same'" in found.quarantined[0].reason


# What is remembered


def test_the_same_tuple_of_tools_is_lowered_once() -> None:
    specs = (a_spec("one"), a_spec("two"))
    found = lower_all(specs, "openai")
    assert lower_all(specs, "openai") is found
    assert lower_all(specs, "gemini") is not found


def test_tools_that_stay_are_not_lowered_again_when_another_comes() -> None:
    one, two = a_spec("one"), a_spec("two")
    before, after = lower_all((one,), "gemini"), lower_all((one, two), "gemini")
    assert after.tools[0] is before.tools[0]


def test_equal_tools_of_another_tuple_are_not_mistaken_for_each_other() -> None:
    first, second = (a_spec("one", a={"type": "string"}),), (a_spec("one", a={"type": "integer"}),)
    assert lower_all(first, "openai").tools[0].schema != lower_all(second, "openai").tools[0].schema
