"""Arguments are read as their sender meant them (SPEC A6)."""

import copy
from typing import Any

import pytest

from handspan.core.errors import ToolError
from handspan.core.schema import Validator
from handspan.core.values import JsonObject

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "ratio": {"type": ["number", "null"]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "mode": {"type": "string", "enum": ["overwrite", "append"]},
        "method": {"const": "POST"},
        "level": {"enum": [1, 2, "High"]},
        "case": {"enum": ["a", "A"]},
        "on": {"type": "boolean"},
        "text": {"type": "string"},
        "list": {"type": "array", "items": {"type": "number"}},
        "deep": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "array"}]},
    },
    "required": ["count"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"count": "10"}, {"count": 10}),
        ({"count": "-3"}, {"count": -3}),
        ({"count": "1e3"}, {"count": 1000}),
        ({"ratio": "2.5"}, {"ratio": 2.5}),
        ({"ratio": None}, {"ratio": None}),
        ({"text": None, "mode": None, "list": None}, {}),
        ({"size": "7"}, {"size": 7}),
        ({"mode": "Append"}, {"mode": "append"}),
        ({"method": "post"}, {"method": "POST"}),
        ({"level": "2"}, {"level": 2}),
        ({"level": "HIGH"}, {"level": "High"}),
        ({"on": "True"}, {"on": True}),
        ({"list": "[1, 2.5]"}, {"list": [1, 2.5]}),
        ({"list": ["1", 2]}, {"list": [1, 2]}),
        ({"deep": '{"x": "3"}'}, {"deep": {"x": 3}}),
        ({"deep": {"x": "3"}}, {"deep": {"x": 3}}),
        ({"either": "5"}, {"either": 5}),
        ({"either": "false"}, {"either": False}),
    ],
)
def test_what_is_clear_is_read_and_what_was_sent_stays_as_it_is(sent: JsonObject, read: JsonObject) -> None:
    sent = {"count": 1, **sent}
    before = copy.deepcopy(sent)
    validator = Validator(SCHEMA)
    if not validator.is_valid(sent):
        assert validator.read(sent) == {"count": 1, **read}
    assert sent == before
    assert validator.is_valid({"count": 1, **read})


@pytest.mark.parametrize(
    "sent",
    [
        {"count": None},
        {"count": "ten"},
        {"count": "10.5"},
        {"count": " 10"},
        {"count": "0x10"},
        {"count": "1e999"},
        {"count": "9" * 5000},
        {"count": True},
        {"text": 10},
        {"text": {"a": 1}},
        {"mode": "appendd"},
        {"case": "á"},
        {"on": "yes"},
        {"on": 1},
        {"list": "1, 2"},
        {"list": [None]},
        {"list": "[" * 100_000},
        {"deep": '{"x": 1, "x": 2}'},
        {"deep": '{"x": NaN}'},
        {"deep": {"x": None}},
        {"unknown": None},
    ],
)
def test_nothing_ambiguous_is_guessed_and_the_refusal_is_about_what_was_sent(sent: Any) -> None:
    sent = {"count": 1, **sent}
    validator = Validator(SCHEMA)
    with pytest.raises(ToolError) as refused:
        validator.read(sent)
    with pytest.raises(ToolError) as checked:
        validator.check(sent)
    assert refused.value.message == checked.value.message


FORMS: JsonObject = {
    "type": "object",
    "properties": {
        "filter": {
            "anyOf": [
                {"type": "object", "properties": {"name": {"type": "string"}, "folder": {"type": "string"}}},
                {"type": "null"},
            ]
        },
        "ids": {"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "where": {"anyOf": [{"type": "object", "properties": {"id": {"type": "integer"}}}, {"type": "integer"}]},
        "nested": {"anyOf": [{"anyOf": [{"type": "array", "items": {"type": "integer"}}]}, {"type": "boolean"}]},
    },
}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"filter": {"name": "old*", "folder": None}}, {"filter": {"name": "old*"}}),
        ({"where": {"id": "5"}}, {"where": {"id": 5}}),
        ({"where": "5"}, {"where": 5}),
        ({"nested": [1, "2"]}, {"nested": [1, 2]}),
    ],
)
def test_a_part_of_a_value_with_several_forms_is_read_and_the_rest_of_it_stays(
    sent: JsonObject, read: JsonObject
) -> None:
    assert Validator(FORMS).read(sent) == read


@pytest.mark.parametrize("sent", [{"ids": ["a", None]}, {"filter": {"name": 5}}, {"nested": [None]}])
def test_a_value_with_several_forms_is_never_left_out_for_a_part_of_it(sent: JsonObject) -> None:
    with pytest.raises(ToolError, match="Invalid arguments"):
        Validator(FORMS).read(sent)
