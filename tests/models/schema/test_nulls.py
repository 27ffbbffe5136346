"""SPEC M3: strict mode sends null for what is left out; the tool never sees it."""

import copy

import pytest

from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.schema.lowering import drop_nulls

NODE: JsonObject = {"type": "object", "properties": {"v": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "neither": {"oneOf": [{"type": "string"}, {"const": 1}, {"enum": [2]}]},
        "all": {"allOf": [{"type": ["string", "null"]}, {"type": "string"}]},
        "anything": {},
        "nothing": False,
        "constant": {"const": None},
        "node": {"$ref": "#/$defs/node"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "loop": {"$ref": "#/$defs/loop"},
    },
    "allOf": [{"properties": {"more": {"type": "integer"}}}],
    "$defs": {"node": NODE, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "string"}]}},
}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"text": None}, {}),
        ({"text": "a", "more": None}, {"text": "a"}),
        ({"maybe": None, "either": None, "anything": None, "constant": None}, None),
        ({"neither": None, "all": None, "nothing": None, "node": None, "list": None}, {}),
        ({"node": {"v": None, "next": {"v": "a", "next": None}}}, {"node": {"next": {"v": "a"}}}),
        ({"list": [{"v": None}, {"v": "b", "next": None}, None, 3]}, {"list": [{}, {"v": "b"}, None, 3]}),
        ({"map": {"a": None}, "unknown": None, "text": 0, "list": "no list"}, None),
        ({"loop": None}, None),  # in doubt it stays: the engine says what is wrong with it
    ],
)
def test_a_null_goes_unless_the_tool_takes_it(given: JsonObject, kept: JsonObject | None) -> None:
    before = copy.deepcopy(given)
    assert drop_nulls(given, ToolSpec("t", "Does.", SCHEMA)) == (given if kept is None else kept)
    assert given == before


def test_what_is_nested_without_end_is_left_as_it_is() -> None:
    deep: JsonObject = {"v": None}
    for _ in range(300):
        deep = {"v": None, "next": deep}
    found = drop_nulls({"node": deep}, ToolSpec("t", "Does.", SCHEMA))
    levels: Json = found["node"]
    for _ in range(20):
        assert isinstance(levels, dict) and list(levels) == ["next"]
        levels = levels["next"]
