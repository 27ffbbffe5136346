"""Texts from outside, without what no reader can see (SPEC S4)."""

from handspan.core.values import JsonObject, strip_schema

HIDDEN = "a\u202e\U000e0041b"


def test_words_of_a_schema_are_cleaned_wherever_they_stand() -> None:
    below: JsonObject = {"type": "string", "description": HIDDEN}
    clean: JsonObject = {"type": "string", "description": "ab"}
    schema: JsonObject = {
        "title": HIDDEN,
        "properties": {"p": below},
        "anyOf": [below],
        "$defs": {"d": {"items": below}},
    }
    assert strip_schema(schema) == {
        "title": "ab",
        "properties": {"p": clean},
        "anyOf": [clean],
        "$defs": {"d": {"items": clean}},
    }


def test_what_arguments_have_to_match_stays_as_it_is() -> None:
    schema: JsonObject = {
        "required": [HIDDEN],
        "properties": {HIDDEN: {"enum": [HIDDEN], "default": HIDDEN}, "title": {"const": {"description": HIDDEN}}},
        "patternProperties": {HIDDEN: True},
        "pattern": HIDDEN,
    }
    assert strip_schema(schema) == schema
