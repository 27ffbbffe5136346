"""Counting the ways through a schema before anybody walks them (SPEC E2: no tool hurts the gateway)."""

import pytest

from handspan.core.errors import DefinitionError
from handspan.core.schema_cost import SchemaCost, drop_repeated_all_of, has_references
from handspan.core.values import Json, JsonObject


@pytest.mark.parametrize(
    ("schema", "value", "steps"),
    [
        ({}, 1, 1),
        ({"properties": {"a": {}, "b": {}}}, {"a": 1}, 2),
        ({"properties": {"a": {}}}, [1], 1),
        ({"items": {}}, [1, 2, 3], 4),
        ({"items": {}}, {"a": 1}, 2),
        ({"items": [{}, {}]}, [1], 3),
        ({"prefixItems": [{}, {}]}, [1], 3),
        ({"patternProperties": {"^a": {}, "^b": {}}}, {"a": 1, "b": 2}, 5),
        ({"additionalProperties": {}}, {"a": 1}, 2),
        ({"additionalProperties": False}, {"a": 1}, 1),
        ({"allOf": [{}, True], "anyOf": [{}], "oneOf": [{}], "not": {}, "if": {}, "then": {}, "else": {}}, 1, 9),
        ({"dependentSchemas": {"a": {}}}, {}, 2),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{}, {}]}}}, 1, 4),
        ({"$ref": "#"}, 1, 2),
        ({"$ref": "#/$defs/yes", "$defs": {"yes": True}}, 1, 2),
        ({"properties": {"a": {"$ref": "#"}}}, {"a": {"a": {}}}, 5),
        ({"enum": [{"allOf": [1, 2]}], "const": {"$ref": "x"}}, 1, 1),
        ({"properties": 5, "allOf": {}, "dependentSchemas": [], "$ref": 3}, {"a": 1}, 1),
    ],
)
def test_a_step_is_one_look_at_one_value_with_one_schema(schema: JsonObject, value: Json, steps: int) -> None:
    cost = SchemaCost(schema)
    assert cost.is_within(steps, value)
    assert not cost.is_within(steps - 1, value)


def test_without_a_value_every_way_counts_once() -> None:
    cost = SchemaCost({"properties": {"a": {"$ref": "#"}, "b": {"items": {"additionalProperties": {}}}}})
    assert cost.is_within(6) and not cost.is_within(5)


@pytest.mark.parametrize(
    "ref",
    [
        "http://example.com/",
        "#/nowhere",
        "#/list/2",
        "#/list/x",
        "#/text/x",
        "#anchor",
        "#/list/²",
        f"#/list/{'9' * 5000}",
    ],
)
def test_a_reference_that_leads_out_is_refused(ref: str) -> None:
    with pytest.raises(DefinitionError, match="may only point into the schema itself"):
        SchemaCost({"list": [{}], "text": "x", "not": {"$ref": ref}})


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FOUR: JsonObject = {"allOf": [{}, {}, {}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": DRAFT_7, "definitions": {"a": {"$id": "#here", **FOUR}}, "not": {"$ref": "#here"}},
        {"$schema": DRAFT_7, "$id": "http://a/b", "x": {"$id": "#here", **FOUR}, "not": {"$ref": "#here"}},
        {"$schema": DRAFT_7, "$id": "http://a/b", "x": {"$id": "#here", **FOUR}, "not": {"$ref": "b#here"}},
        {
            "$schema": DRAFT_7,
            "definitions": {"o": {"$id": "http://a/o", "x": {"$id": "#here", **FOUR}}, "a": {"$id": "#here"}},
            "not": {"$ref": "http://a/o#here"},
        },
        {"$schema": DRAFT_7, "x": [{"$id": "#here", **FOUR}, {"$id": "#here", **FOUR}], "not": {"$ref": "#here"}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "x": {"id": "#here", **FOUR}, "not": {"$ref": "#here"}},
        {"x": {"$anchor": "here", **FOUR}, "not": {"$ref": "#here"}},
    ],
)
def test_an_anchor_leads_to_what_bears_it_in_the_words_of_every_draft(schema: JsonObject) -> None:
    cost = SchemaCost(schema)
    assert cost.is_within(6, 1) and not cost.is_within(5, 1)


@pytest.mark.parametrize("keyword", ["$id", "$anchor"])
def test_a_reference_that_may_mean_two_things_is_refused(keyword: str) -> None:
    name = "#here" if keyword == "$id" else "here"
    twice: JsonObject = {"x": {keyword: name}, "y": {keyword: name, **FOUR}}
    with pytest.raises(DefinitionError, match="'#here' may mean several parts"):
        SchemaCost({**twice, "not": {"$ref": "#here"}})
    assert SchemaCost(twice).is_within(1)  # as long as no reference names them


def test_what_only_looks_like_a_reference_is_none() -> None:
    SchemaCost({"x-mine": {"$ref": "elsewhere"}, "default": {"$ref": "elsewhere"}, "properties": {"$ref": {}}})
    assert not has_references(b'{"type":"object","description":"see ref"}')
    assert has_references(b'{"$ref":"#"}') and has_references(b'{"$dynamicRef":"#a"}')


def test_repeated_parts_of_an_all_of_are_asked_once_and_keep_their_places() -> None:
    schema: JsonObject = {
        "allOf": [{"minimum": 1}, {"minimum": 1, "title": "again"}, {"minimum": 2}, True, True],
        "anyOf": [{}, {}],
        "const": {"allOf": [1, 1]},
        "not": [{"allOf": [{}, {}]}],
    }
    assert drop_repeated_all_of(schema) == {
        "allOf": [{"minimum": 1}, True, {"minimum": 2}, True, True],
        "anyOf": [{}, {}],
        "const": {"allOf": [1, 1]},
        "not": [{"allOf": [{}, True]}],
    }


def test_where_a_reference_names_a_part_by_its_place_nothing_is_changed() -> None:
    schema: JsonObject = {"allOf": [{}, {}], "not": {"$ref": "#/allOf/1"}}
    assert drop_repeated_all_of(schema) is schema
