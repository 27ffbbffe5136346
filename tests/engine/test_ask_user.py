"""`ask_user`: a question to the person, whose answer is the result (SPEC B, P5, P6)."""

import pytest

from handspan.core.agents import Agent, Mode
from handspan.core.questions import Answer
from handspan.engine.questions import RuleAnswers
from handspan.tools.ask import AskUser
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of
from tests.open_questions import OpenQuestions
from tests.waiting import until

pytestmark = pytest.mark.anyio


def asking(make_kit: MakeKit, questions: OpenQuestions | RuleAnswers) -> EngineKit:
    kit = make_kit(questions=questions)
    kit.add(AskUser())
    return kit


@pytest.mark.parametrize("mode", ["automatic", "ask_always", "read_only"])
async def test_the_answer_is_the_result_and_the_person_is_asked_once(make_kit: MakeKit, mode: Mode) -> None:
    questions = OpenQuestions()
    kit = asking(make_kit, questions)
    caller = kit.caller(Agent("Asker", mode=mode))
    calling = kit.start("ask_user", {"question": "Name?"}, caller=caller, call_id="c1")
    await until(lambda: questions.open_for("operator"))
    (question,) = questions.open_for("operator")
    assert (question.kind, question.subject, question.call_id) == ("input", "Name?", "c1")
    assert question.schema == {"type": "string", "minLength": 1}
    assert questions.answer(question.id, Answer("allow", value="Ann"), owner="operator")
    assert [one.value for one in await outcome_of([calling])] == ["Ann"]


async def test_options_are_all_that_can_be_answered(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    calling = asking(make_kit, questions).start("ask_user", {"question": "Which?", "options": ["a", "b"]})
    await until(lambda: questions.open_for("operator"))
    (question,) = questions.open_for("operator")
    assert question.schema == {"type": "string", "enum": ["a", "b"]}
    assert questions.answer(question.id, Answer("allow", value="b", always=True), owner="operator")
    assert [one.value for one in await outcome_of([calling])] == ["b"]


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer("deny"), "approval_denied", "does not want to answer"),
        (Answer("deny_forever"), "approval_denied", "does not want to answer"),
        (Answer("expired"), "question_expired", "No person answered"),
        (Answer("allow"), "question_expired", "No person answered"),
    ],
)
async def test_without_an_answer_the_model_is_told_to_go_on(
    make_kit: MakeKit, answer: Answer, code: str, words: str
) -> None:
    kit = asking(make_kit, RuleAnswers(answer))
    for _ in range(2):
        failure = await kit.failure("ask_user", {"question": "Name?"})
        assert failure.code == code and words in failure.message
