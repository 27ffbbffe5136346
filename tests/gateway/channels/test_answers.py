"""What a word or a button means as the answer to a question."""

import pytest

from handspan.core.questions import Answer, Question, QuestionAction, QuestionKind
from handspan.core.values import Json, JsonObject
from handspan.gateway.channels.answers import buttons_of, mark_of, read_press, read_words, render_question


def question(kind: QuestionKind, schema: JsonObject | None = None, action: QuestionAction | None = None) -> Question:
    arguments: JsonObject = {"path": "a\u202eb"}
    about = (kind, "call", "write_file", arguments, "Why\u200b?", "operator", "s", "f", 300.0)
    return Question("call/approval/" + "x" * 100, *about, schema=schema, action=action)


CHOICE: JsonObject = {"type": "string", "enum": ["Red", "2"]}


@pytest.mark.parametrize(
    ("asked", "words", "answer"),
    [
        (question("approval"), " Yes! ", Answer("allow")),
        (question("approval"), "ok", Answer("allow")),
        (question("approval"), "NO.", Answer("deny")),
        (question("approval"), "always", Answer("allow", always=True)),
        (question("permission"), "never", Answer("deny_forever")),
        (question("approval"), "yes please, but carefully", None),
        (question("approval"), "", None),
        (question("input", CHOICE), "red", Answer("allow", value="Red")),
        (question("input", CHOICE), "1", Answer("allow", value="Red")),
        (question("input", CHOICE), "blue", None),
        (question("input", {"type": "boolean"}), "no", Answer("allow", value=False)),
        (question("input", {"type": "string"}), " Yes ", Answer("allow", value="Yes")),
        (question("input", {"type": "object"}), '{"a": 1}', Answer("allow", value={"a": 1})),
        (question("input", {"type": "object"}), "{", None),
        (question("input", {"type": "string"}), "/skip", Answer("deny", reason="the person gave no answer")),
    ],
)
def test_words_are_an_answer_or_none(asked: Question, words: str, answer: Answer | None) -> None:
    assert read_words(asked, words) == answer


@pytest.mark.parametrize(
    ("kind", "schema", "labels", "values"),
    [
        ("approval", None, ["Yes", "No", "Always"], [None, None, None]),
        ("permission", None, ["Yes", "No"], [None, None]),
        ("login", None, ["Yes", "No"], [None, None]),
        ("input", CHOICE, ["Red", "2"], ["Red", "2"]),
        ("input", {"type": "boolean"}, ["yes", "no"], [True, False]),
        ("input", {"type": "string"}, [], []),
    ],
)
def test_each_button_gives_the_answer_on_it_and_its_data_is_short(
    kind: QuestionKind, schema: JsonObject | None, labels: list[str], values: list[Json]
) -> None:
    asked = question(kind, schema)
    buttons = buttons_of(asked)
    assert [one.label for one in buttons] == labels
    assert all(len(one.data.encode()) <= 64 and one.data.startswith(f"{mark_of(asked)}:") for one in buttons)
    answers = [read_press(asked, one.data.partition(":")[2]) for one in buttons]
    assert [answer.value for answer in answers if answer is not None] == values


@pytest.mark.parametrize("word", ["", "9", "-1", "x", "٣"])
def test_a_button_that_the_question_does_not_have_gives_no_answer(word: str) -> None:
    assert read_press(question("input", CHOICE), word) is None
    assert read_press(question("approval"), word) is None


def test_a_question_shows_the_arguments_exactly_and_words_of_others_without_what_is_invisible() -> None:
    text = render_question(question("approval"))
    assert r"a\u202eb" in text and "Why?" in text
    action = QuestionAction(url="https://login.example/x", hint="Use your card.")
    shown = render_question(question("login", action=action))
    assert "https://login.example/x" in shown and "Use your card." in shown
