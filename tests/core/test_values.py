"""Texts from outside, without what no reader can see (SPEC S4); times as people read them."""

import pytest

from handspan.core.values import JsonObject, describe_wait, round_seconds, strip_schema

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


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.99997, "1 s"),
        (29.99998, "30 s"),
        (1800, "1800 s"),
        (604800.0, "604800 s"),
        (0.05, "0.05 s"),
        (2.25, "2.25 s"),
    ],
)
def test_a_limit_of_time_is_rounded(seconds: float, shown: str) -> None:
    assert round_seconds(seconds) == shown


@pytest.mark.parametrize(("seconds", "words"), [(0, "now"), (0.2, "in 1 s"), (2.0, "in 2 s"), (2.1, "in 3 s")])
def test_a_wait_is_never_told_as_shorter_than_it_is(seconds: float, words: str) -> None:
    assert describe_wait(seconds) == words
