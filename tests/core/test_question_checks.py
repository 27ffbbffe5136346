"""Which questions can be asked, and which answers they take (SPEC P6)."""

from typing import Any

import msgspec
import pytest

from handspan.core.errors import DefinitionError, InvalidAnswer
from handspan.core.question_checks import check_answer, check_question
from handspan.core.questions import Answer, Question, QuestionAction

COLOUR: dict[str, Any] = {"type": "string", "enum": ["red", "blue"]}
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"$ref": "#/$defs/size"}},
    "required": ["size"],
    "$defs": {"size": {"type": "integer", "minimum": 1}},
}
OLD = (
    b'{"id":"q","kind":"approval","call_id":"c","tool":"t","arguments":{},"subject":"why","owner":"o","session":"s",'
    b'"fingerprint":"f","expires_in":1.0}'
)


def question(kind: Any, **more: Any) -> Question:
    return Question("q", kind, "", "t", {}, "What?", "operator", "", "f", 60.0, **more)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (question("input"), "needs a schema"),
        (question("input", schema={"type": "no such"}), "can't be used"),
        (question("input", schema={"$ref": "https://elsewhere.example/s"}), "into the schema itself"),
        (question("login"), "a url, an intent or a hint"),
        (question("login", action=QuestionAction()), "a url, an intent or a hint"),
        (question("login", action=QuestionAction("javascript:alert(1)")), "begins with https://"),
        (question("login", action=QuestionAction("file:///etc/passwd")), "begins with https://"),
        (question("trust", action=QuestionAction(old={})), "the new definition"),
    ],
)
def test_a_question_that_no_person_could_answer_is_refused(asked: Question, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        check_question(asked)


@pytest.mark.parametrize(
    "asked",
    [
        question("permission"),
        question("approval"),
        question("input", schema=COLOUR),
        question("input", schema={}),
        question("login", action=QuestionAction("HTTPS://shop.example")),
        question("login", action=QuestionAction(intent="com.example.LOGIN")),
        question("trust", action=QuestionAction(new={})),
    ],
)
def test_every_kind_can_be_asked(asked: Question) -> None:
    check_question(asked)


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (COLOUR, "green", "the value must be one of"),
        (COLOUR, None, "the value must be"),
        (COLOUR, ["red"], "the value must be"),
        ({"type": "integer"}, "7", "the value must be of type integer"),
        (FORM, {}, "missing required parameter 'size'"),
        (FORM, {"size": 0}, "'size'"),
        ({"type": "array", "items": {"type": "string"}}, [1], "must be of type string"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(schema: Any, value: Any, why: str) -> None:
    with pytest.raises(InvalidAnswer, match=why):
        check_answer(question("input", schema=schema), Answer("allow", value=value))


@pytest.mark.parametrize(
    ("schema", "value"), [(COLOUR, "red"), (FORM, {"size": 3}), ({"type": "null"}, None), ({}, [1, "x"])]
)
def test_a_value_that_fits_is_taken(schema: Any, value: Any) -> None:
    check_answer(question("input", schema=schema), Answer("allow", value=value))


def test_a_no_needs_no_value_and_a_question_without_a_schema_takes_none() -> None:
    check_answer(question("input", schema=COLOUR), Answer("deny"))
    check_answer(question("input", schema=COLOUR), Answer("expired"))
    check_answer(question("approval"), Answer("allow"))
    with pytest.raises(InvalidAnswer, match="takes no value"):
        check_answer(question("approval"), Answer("allow", value=1))


def test_a_question_of_the_first_kinds_has_the_form_that_it_always_had() -> None:
    old = msgspec.json.decode(OLD, type=Question)
    assert (old.schema, old.action) == (None, None)
    assert msgspec.json.encode(old) == OLD
