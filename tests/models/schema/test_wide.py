"""SPEC M3: OpenAI without strict, and Anthropic, take nearly all of JSON Schema as it is."""

import pytest

from handspan.core.values import Json, JsonObject
from handspan.models.schema.lowering import Target
from handspan.models.schema.references import References
from handspan.models.schema.report import UnsupportedSchema
from tests.models.schema.test_lowering import lowered, reason

WIDE: list[Target] = ["openai", "anthropic"]
both = pytest.mark.parametrize("target", WIDE)

RICH: JsonObject = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "(?=a)", "minLength": 1, "format": "uri", "default": "x", "examples": ["y"]},
        "b": {"type": ["integer", "null"], "exclusiveMinimum": 0, "multipleOf": 2},
        "c": {"oneOf": [{"const": 1}, {"type": "string"}]},
        "d": {"type": "array", "prefixItems": [{"type": "string"}], "items": {}, "contains": {"const": "x"}},
        "e": {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "propertyNames": {"maxLength": 5}},
        "f": {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}},
        "g": {"not": {"type": "string"}, "title": "G"},
        "h": {"allOf": [{"type": "object"}, {"required": ["x"]}], "unevaluatedProperties": False},
    },
    "required": ["a"],
    "additionalProperties": False,
    "dependentRequired": {"a": ["b"]},
}


@both
def test_what_the_api_takes_is_not_touched(target: Target) -> None:
    found = lowered(RICH, target)
    assert found.schema == RICH
    assert found.losses == ()
    assert found.strict is False


@both
def test_an_empty_schema_becomes_an_object_without_parameters(target: Target) -> None:
    empties: list[JsonObject] = [{}, {"type": "object"}, {"type": ["object", "null"]}]
    for empty in empties:
        assert lowered(empty, target).schema == {"type": "object", "properties": {}}


@both
def test_what_is_not_for_models_is_left_out(target: Target) -> None:
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/t",
        "$comment": "internal",
        "x-own": 1,
        "properties": {"a": {"type": "string", "$comment": "internal", "x-own": 1, "readOnly": True}},
    }
    assert lowered(schema, target).schema == {"type": "object", "properties": {"a": {"type": "string"}}}


@both
def test_older_drafts_are_said_in_the_words_of_the_newest(target: Target) -> None:
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {
            "a": {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            "b": {"$ref": "#/definitions/b", "description": "The b.", "minLength": 5},
        },
        "definitions": {"b": {"type": "string"}},
        "dependencies": {"a": ["b"], "b": {"required": ["a"]}},
    }
    assert lowered(schema, target).schema == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
            "b": {"$ref": "#/$defs/b", "description": "The b."},  # beside a $ref, draft-07 sees nothing
        },
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"b": {"required": ["a"]}},
        "$defs": {"b": {"type": "string"}},
    }


@both
def test_exclusive_bounds_of_draft_04_are_numbers_now(target: Target) -> None:
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {
            "a": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "b": {"type": "number", "maximum": 9, "exclusiveMaximum": False},
        },
    }
    assert lowered(schema, target).schema["properties"] == {
        "a": {"type": "number", "exclusiveMinimum": 0},
        "b": {"type": "number", "maximum": 9},
    }


@both
def test_recursion_is_kept(target: Target) -> None:
    schema: JsonObject = {
        "properties": {"tree": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#"}},
        "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
            "Unused": {"type": "string"},
        },
    }
    found = lowered(schema, target)
    assert found.losses == ()
    assert found.schema["$defs"] == {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    assert found.schema["properties"] == {"tree": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#"}}


@both
def test_references_of_every_kind_still_lead_somewhere(target: Target) -> None:
    schema: JsonObject = {
        "$id": "https://example.com/root",
        "properties": {
            "a": {"$ref": "#here"},
            "b": {"$ref": "inner#/$defs/deep"},
            "c": {"$ref": "https://example.com/root#/$defs/with~1slash%20and%20space"},
            "d": {"$ref": "#/properties/e/anyOf/1"},
            "e": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
            "f": {"$ref": "#/$defs/yes"},
            "g": {"$dynamicRef": "#dynamic"},
            "h": {"anyOf": [{"$ref": "#/$defs/no"}, {"type": "string"}]},
            "i": {"$ref": "#/$defs/with-slash-and-space"},
        },
        "$defs": {
            "anchored": {"$anchor": "here", "type": "string"},
            "other": {"$id": "inner", "$defs": {"deep": {"type": "integer"}}},
            "with/slash and space": {"type": "number"},
            "with-slash-and-space": {"type": "null"},
            "yes": True,
            "no": False,
            "dynamic": {"$dynamicAnchor": "dynamic", "type": "array", "items": {}},
        },
    }
    found = lowered(schema, target).schema
    properties, definitions = found["properties"], found["$defs"]
    assert isinstance(properties, dict) and isinstance(definitions, dict)
    kinds: dict[str, Json] = {}
    for name, inner in properties.items():
        assert isinstance(inner, dict)
        ref = inner.get("$ref")
        target_schema = definitions[ref.removeprefix("#/$defs/")] if isinstance(ref, str) else inner
        assert isinstance(target_schema, dict)
        kinds[name] = target_schema.get("type")
    assert list(kinds.values()) == ["string", "integer", "number", "boolean", None, None, "array", None, "null"]
    assert properties["h"] == {"anyOf": [{"not": {}}, {"type": "string"}]}


@both
def test_a_parameter_that_no_value_fits_is_left_out_and_true_is_an_empty_schema(target: Target) -> None:
    found = lowered({"properties": {"a": False, "b": True}}, target)
    assert found.schema["properties"] == {"b": {}}
    assert found.losses == ("parameter 'a': it is left out: no value fits it",)
    assert "no value fits it" in reason({"properties": {"a": False}, "required": ["a"]}, target)


def test_openai_gets_items_for_every_array() -> None:
    schema: JsonObject = {"properties": {"a": {"type": "array"}, "b": {"type": ["array", "null"]}}}
    assert lowered(schema, "openai").schema["properties"] == {
        "a": {"type": "array", "items": {}},
        "b": {"type": ["array", "null"], "items": {}},
    }
    assert lowered(schema, "anthropic").schema["properties"] == schema["properties"]


def test_names_that_anthropic_refuses_are_left_out_or_quarantine_the_tool() -> None:
    schema: JsonObject = {"properties": {"$top": {"type": "integer"}, "file.path-1": {"type": "string"}}}
    found = lowered(schema, "anthropic")
    assert found.schema["properties"] == {"file.path-1": {"type": "string"}}
    assert "parameter '$top': it is left out" in found.losses[0]
    assert "parameter '$top'" in reason({**schema, "required": ["$top"]}, "anthropic")
    assert lowered({**schema, "required": ["$top"]}, "openai").losses == ()


def test_a_recursive_reference_of_2019_leads_to_its_anchor() -> None:
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "properties": {"again": {"$recursiveRef": "#"}, "pair": {"type": "array", "items": [{"type": "string"}]}},
    }
    assert lowered(schema, "anthropic").schema["properties"] == {
        "again": {"$ref": "#"},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}]},
    }


def test_an_anchor_of_draft_07_is_an_id() -> None:
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#here"}},
        "definitions": {"anchored": {"$id": "#here", "type": "string"}},
    }
    references = References(schema)
    assert references.target({"$ref": "#here"}) == {"$id": "#here", "type": "string"}


@pytest.mark.parametrize("ref", ["#/$defs/gone", "#gone", "elsewhere", "#/type/deeper", "#/required/7", "#/title"])
def test_a_reference_that_leads_nowhere_is_said(ref: str) -> None:
    root: JsonObject = {"type": "object", "title": "T", "required": ["a"], "properties": {"a": {"$ref": ref}}}
    properties = root["properties"]
    assert isinstance(properties, dict) and isinstance(properties["a"], dict)
    with pytest.raises(UnsupportedSchema, match="leads to no schema"):
        References(root).target(properties["a"])


def test_definitions_get_names_that_differ() -> None:
    names = ["a_2", "a", "a-", "a b", "a-b", "a_b", "a_b_1"]
    schema: JsonObject = {
        "properties": {
            f"p{index}": {"$ref": f"#/$defs/{name.replace(' ', '%20')}"} for index, name in enumerate(names)
        },
        "$defs": {name: {"type": "string", "title": name} for name in names},
    }
    definitions = lowered(schema, "openai").schema["$defs"]
    assert isinstance(definitions, dict)
    assert [definition["title"] for definition in definitions.values() if isinstance(definition, dict)] == names
