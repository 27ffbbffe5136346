"""Questions of tools, answered by a callback of the program."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handspan import Agent, Answer, Handspan, Question, Success, ToolContext, tool
from handspan.core.events import QuestionAsked
from handspan.core.principals import OPERATOR
from handspan.core.results import Failure
from handspan.front.answers import AskFailed
from handspan.models.scripted import Scripted, call
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

CAREFUL = Agent(mode="ask_always")


@tool(permissions=("camera",))
def take_photo() -> str:
    """Take a photo."""
    return "a photo"


@tool
async def choose_size(ctx: ToolContext) -> Any:
    """Ask the person for a size."""
    answer = await ctx.ask("input", "Which size?", schema={"type": "integer"})
    return answer.value


async def test_without_a_callback_a_question_is_refused_with_the_remedy() -> None:
    async with Handspan(tools=[take_photo, choose_size], model=Scripted([])) as hands:
        permission, value = await hands.call("take_photo"), await hands.call("choose_size")
    async with Handspan(tools=[choose_size], model=Scripted([]), agent=CAREFUL) as hands:
        approval = await hands.call("choose_size")
    assert isinstance(permission, Failure) and isinstance(approval, Failure) and isinstance(value, Failure)
    assert (permission.code, approval.code, value.code) == ("permission_denied", "approval_denied", "question_expired")
    assert all("questions=" in refused.message for refused in (permission, approval, value))


async def test_a_callback_answers_plain_or_async_with_yes_no_or_an_answer() -> None:
    asked: list[Question] = []

    def plain(question: Question) -> bool:
        asked.append(question)
        return True

    async def later(question: Question) -> Answer:
        asked.append(question)
        return Answer("deny")

    async with Handspan(tools=[take_photo], model=Scripted([]), questions=plain) as hands:
        assert isinstance(await hands.call("take_photo"), Success)
    async with Handspan(tools=[take_photo], model=Scripted([]), questions=later) as hands:
        denied = await hands.call("take_photo")
    assert isinstance(denied, Failure)
    assert [(question.kind, question.subject, question.tool) for question in asked] == [
        ("permission", "camera", "take_photo")
    ] * 2


async def test_a_value_is_given_and_checked() -> None:
    values = iter([Answer("allow", value=7), Answer("allow", value="seven")])
    async with Handspan(tools=[choose_size], model=Scripted([]), questions=lambda _: next(values)) as hands:
        given, wrong = await hands.call("choose_size"), await hands.call("choose_size")
    assert isinstance(given, Success) and given.value == 7
    assert isinstance(wrong, Failure) and "does not fit" in wrong.message


async def test_a_callback_that_fails_or_answers_nonsense_refuses() -> None:
    def fail(question: Question) -> bool:
        raise LookupError("no person here")

    def nonsense(question: Question) -> Any:
        return "maybe"

    async def leave(question: Question) -> bool:
        raise SystemExit("enough")

    callbacks: tuple[tuple[Callable[[Question], Any], str], ...] = (
        (fail, "no person here"),
        (leave, "SystemExit: enough"),
        (nonsense, "return True, False or an Answer"),
    )
    for callback, words in callbacks:
        async with Handspan(tools=[take_photo], model=Scripted([]), questions=callback) as hands:
            refused = await hands.call("take_photo")
        assert isinstance(refused, Failure)
        assert words in refused.message


async def test_a_stream_shows_the_question_that_its_call_waits_for() -> None:
    is_shown = asyncio.Event()

    async def wait_for_the_stream(question: Question) -> bool:
        await is_shown.wait()
        return True

    model = Scripted([call("take_photo"), "Done."])
    async with Handspan(tools=[take_photo], model=model, questions=wait_for_the_stream) as hands:
        async for event in hands.stream("go"):
            if isinstance(event, QuestionAsked):
                assert event.question.subject == "camera"
                is_shown.set()
    assert is_shown.is_set()


async def test_a_callback_that_has_not_answered_ends_with_its_program_and_the_session_goes_on(tmp_path: Path) -> None:
    is_asked = asyncio.Event()

    async def never(question: Question) -> bool:
        is_asked.set()
        await asyncio.Event().wait()
        return True

    model = Scripted([call("take_photo"), "The second answer."])
    async with Handspan(tools=[take_photo], model=model, questions=never, state=tmp_path) as hands:
        asking = asyncio.create_task(hands.ask("a photo", session="s"))
        await soon(is_asked.wait())
    with pytest.raises(AskFailed):  # only a gateway keeps its questions: this one can't wait without its program
        await soon(asking)
    async with open_store(tmp_path) as store:
        [record], _ = await store.ledger.page(owner=OPERATOR.owner)
        assert isinstance(record.result, Failure) and record.result.code == "cancelled"
    async with Handspan(tools=[take_photo], model=model, questions=never, state=tmp_path) as hands:
        assert (await hands.ask("again", session="s")).value == "The second answer."
