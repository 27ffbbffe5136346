"""Tools that ask the person while they run: the answer with its value, and time that does not count (SPEC P6, E6)."""

import asyncio
import time
from typing import Any

import pytest

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import InvalidAnswer, ToolError
from handspan.core.function_tool import tool
from handspan.core.questions import Answer, Opened, Question, QuestionAction, ignore_opened
from handspan.core.results import Failure, Pending
from handspan.engine.questions import AnswerComesLater, RuleAnswers
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of
from tests.open_questions import OpenQuestions
from tests.waiting import until

pytestmark = pytest.mark.anyio

COLOUR: dict[str, Any] = {"type": "string", "enum": ["red", "blue"]}
BLUE = Answer("allow", value="blue")


def painting(make_kit: MakeKit, questions: Any, timeout: float = 5.0, **asked: Any) -> EngineKit:
    """A kit with a tool `paint` that asks for a colour."""
    kit = make_kit(questions=questions)
    given: dict[str, Any] = {"kind": "input", "subject": "Which colour?", "schema": COLOUR, **asked}

    async def paint(ctx: ToolContext, wall: str = "north") -> Any:
        answer = await ctx.ask(**given)
        return [answer.decision, answer.value]

    kit.add(paint, timeout=timeout)
    return kit


async def asked(questions: OpenQuestions, count: int = 1) -> list[Question]:
    await until(lambda: len(questions.open_for("operator")) == count)
    return questions.open_for("operator")


async def test_the_answer_with_its_value_reaches_the_tool(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = painting(make_kit, questions)
    heard: list[Question] = []
    caller = kit.caller()
    calling = kit.start(
        "paint",
        {"wall": "east"},
        caller=type(caller)(caller.who, caller.agent, caller.box, caller.session, on_question=heard.append),
        call_id="c1",
    )
    (question,) = await asked(questions)
    assert heard == [question], "the listener of the caller gets it"
    assert (question.id, question.call_id, question.tool) == ("c1/input/1", "c1", "paint")
    assert (question.arguments, question.schema, question.subject) == ({"wall": "east"}, COLOUR, "Which colour?")
    assert (question.session, question.expires_in) == ("session-1", 300.0)
    assert questions.answer(question.id, BLUE, owner="operator")
    assert [one.value for one in await outcome_of([calling])] == [["allow", "blue"]]


async def test_a_value_that_does_not_fit_is_refused_and_the_question_stays_open(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    calling = painting(make_kit, questions).start("paint")
    (question,) = await asked(questions)
    for wrong in (Answer("allow", value="green"), Answer("allow")):
        with pytest.raises(InvalidAnswer, match="the value must be"):
            questions.answer(question.id, wrong, owner="operator")
    assert await asked(questions) == [question]
    assert questions.answer(question.id, BLUE, owner="operator")
    assert not questions.answer(question.id, BLUE, owner="operator"), "the first one won"
    assert [one.value for one in await outcome_of([calling])] == [["allow", "blue"]]


@pytest.mark.parametrize("answer", [Answer("deny"), Answer("deny_forever"), Answer("allow", True, value="red")])
async def test_a_no_is_the_tools_to_judge_and_every_call_asks_anew(make_kit: MakeKit, answer: Answer) -> None:
    questions = OpenQuestions()
    kit = painting(make_kit, questions)
    for _ in range(2):
        calling = kit.start("paint")
        (question,) = await asked(questions)
        assert questions.answer(question.id, answer, owner="operator")
        assert [one.value for one in await outcome_of([calling])] == [[answer.decision, answer.value]]


async def test_nobody_answers_in_time(make_kit: MakeKit) -> None:
    kit = painting(make_kit, OpenQuestions(), expires_in=0.01)
    assert await kit.value("paint") == ["expired", None]


async def test_a_rule_that_says_yes_to_all_has_no_value_and_logs_in_nowhere(make_kit: MakeKit) -> None:
    yes = RuleAnswers(Answer("allow"))
    assert await painting(make_kit, yes).value("paint") == ["expired", None]
    login: dict[str, Any] = {"kind": "login", "schema": None, "action": QuestionAction("https://shop.example")}
    assert await painting(make_kit, yes, **login).value("paint") == ["expired", None]
    trust: dict[str, Any] = {"kind": "trust", "schema": None, "action": QuestionAction(new={"name": "paint"})}
    assert await painting(make_kit, yes, **trust).value("paint") == ["allow", None]


async def test_a_question_that_nobody_could_answer_fails_the_call(make_kit: MakeKit) -> None:
    kit = painting(make_kit, OpenQuestions(), schema=None)
    failure = await kit.failure("paint")
    assert failure == Failure("execution_failed", "A question of the kind 'input' needs a schema for its answer.")


async def test_a_place_that_can_only_keep_a_question_gives_no_answer_to_a_call_that_runs(make_kit: MakeKit) -> None:
    class Kept:
        async def ask(self, question: Question, opened: Opened = ignore_opened) -> None:
            opened()
            return None

    assert await painting(make_kit, Kept()).value("paint") == ["expired", None]


async def test_a_call_that_is_cancelled_asks_nobody_any_more(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    calling = painting(make_kit, questions).start("paint")
    await asked(questions)
    calling.cancel()
    await outcome_of([calling])
    assert questions.open_for("operator") == []


async def test_a_call_on_a_thread_that_is_cancelled_asks_nobody_any_more(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = make_kit(questions=questions)
    ends: list[str] = []

    def paint(ctx: ToolContext) -> None:
        for _ in range(2):  # the thread goes on, but its call is over
            try:
                asyncio.run(ctx.ask("input", "Which?", schema=COLOUR))
            except BaseException as error:
                ends.append(type(error).__name__)

    kit.add(paint)
    calling = kit.start("paint")
    await asked(questions)
    calling.cancel()
    await outcome_of([calling])
    await until(lambda: len(ends) == 2)
    assert ends == ["CancelledError", "ToolError"]
    assert questions.open_for("operator") == []


async def test_a_call_that_is_over_leaves_no_question_behind(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = make_kit(questions=questions)
    beside: list[asyncio.Task[Answer]] = []

    async def paint(ctx: ToolContext) -> str:
        beside.append(asyncio.create_task(ctx.ask("input", "Which?", schema=COLOUR)))
        await asked(questions)
        return "no colour needed"

    kit.add(paint)
    assert await kit.value("paint") == "no colour needed"
    (ended,) = await outcome_of(beside)
    assert isinstance(ended, asyncio.CancelledError)
    assert questions.open_for("operator") == []


# Time.


class Slow(OpenQuestions):
    """A person who thinks longer than the tool may take."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        opened()
        await asyncio.sleep(self._seconds)
        return BLUE


async def test_a_persons_time_does_not_count_against_the_tools_limit(make_kit: MakeKit) -> None:
    kit = make_kit(questions=Slow(0.1))

    async def paint(ctx: ToolContext) -> Any:
        assert ctx.deadline is not None
        before = ctx.deadline.at
        first = await ctx.ask("input", "One?", schema=COLOUR)
        await asyncio.sleep(0)
        both = await asyncio.gather(*(ctx.ask("input", "Two?", schema=COLOUR) for _ in range(2)))
        assert ctx.deadline.at >= before + 0.2, "the tool can see what is left"
        return [one.value for one in (first, *both)]

    kit.add(paint, timeout=0.05)
    assert await kit.value("paint") == ["blue"] * 3
    late = Deadline(time.monotonic() + 0.05, "the caller's deadline")
    assert await kit.value("paint", deadline=late) == ["blue"] * 3


async def test_the_tools_own_time_counts_before_and_after_the_question(make_kit: MakeKit) -> None:
    kit = make_kit(questions=Slow(0.05))

    async def paint(ctx: ToolContext) -> Any:
        await asyncio.sleep(0.01)
        await ctx.ask("input", "Which?", schema=COLOUR)
        await asyncio.Event().wait()

    kit.add(paint, timeout=0.1)
    failure = await kit.failure("paint")
    assert failure.code == "timeout" and "0.1 s (the tool's own limit)" in failure.message


async def test_a_person_has_time_too_after_a_timeout_of_the_tools_own(make_kit: MakeKit) -> None:
    kit = make_kit(questions=Slow(0.7))

    async def paint(ctx: ToolContext) -> Any:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:  # it can't find out by itself
            return (await ctx.ask("input", "Which?", schema=COLOUR)).value

    kit.add(paint, timeout=0.5)
    assert await kit.value("paint") == "blue"


async def test_a_person_is_asked_beside_a_timeout_of_the_tools_own(make_kit: MakeKit) -> None:
    kit = make_kit(questions=Slow(0.7))

    async def paint(ctx: ToolContext) -> Any:
        asking: list[asyncio.Task[Answer]] = []
        try:
            async with asyncio.timeout(0.001):
                try:
                    await asyncio.Event().wait()
                finally:  # the question comes while the timeout is still being dealt with
                    asking.append(asyncio.create_task(ctx.ask("input", "Which?", schema=COLOUR)))
                    await asyncio.sleep(0)
        except TimeoutError:
            return (await asking[0]).value

    kit.add(paint, timeout=0.5)
    assert await kit.value("paint") == "blue"


async def test_a_tool_that_is_over_its_time_gets_no_more_by_asking(make_kit: MakeKit) -> None:
    kit = make_kit(questions=Slow(60))

    async def paint(ctx: ToolContext) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.ask("input", "Which?", schema=COLOUR)

    kit.add(paint, timeout=0.02)
    assert (await kit.failure("paint")).code == "timeout"


async def test_a_tool_on_a_thread_can_ask_from_its_own_loop(make_kit: MakeKit) -> None:
    kit = make_kit(questions=Slow(1.2))

    def paint(ctx: ToolContext) -> Any:
        return asyncio.run(ctx.ask("input", "Which?", schema=COLOUR)).value

    kit.add(paint, timeout=1)
    assert await kit.value("paint") == "blue"


@pytest.mark.outside
async def test_a_tool_in_a_process_of_its_own_can_not_ask(make_kit: MakeKit) -> None:
    kit = make_kit(questions=RuleAnswers(BLUE))
    kit.add(tool(isolated=True)(ask_from_afar))
    assert "The person can't be asked from here: Which?" in (await kit.failure("ask_from_afar")).message


async def ask_from_afar(ctx: ToolContext) -> str:
    """Ask."""
    return (await ctx.ask("input", "Which?", schema=COLOUR)).decision


class LaterQuestions(OpenQuestions):
    """Questions of a gateway that stops: the answers come to the next process."""

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        opened()
        await asyncio.sleep(0)
        raise AnswerComesLater


@pytest.mark.parametrize("end", ["value", "refusal", "fault"])
async def test_a_call_that_is_left_stays_open_whatever_its_tool_does_then(make_kit: MakeKit, end: str) -> None:
    kit = make_kit(questions=LaterQuestions())

    async def look(ctx: ToolContext) -> Any:
        try:
            return (await ctx.ask("input", "Which colour?", schema=COLOUR)).value
        except asyncio.CancelledError:
            if end == "value":
                return "no colour"
            raise (ToolError("cancelled", "no colour") if end == "refusal" else RuntimeError("no colour")) from None

    kit.add(look, timeout=5.0)
    (outcome,) = await outcome_of([kit.start("look", call_id="c1")])
    assert isinstance(outcome, Pending)
