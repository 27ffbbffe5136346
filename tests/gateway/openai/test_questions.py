"""Questions to a person, in an API that has no place for them (SPEC F6)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from tests.gateway.openai.kit import NO_MONEY, Front, front, paid_model, words
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ASKS: Any = {"agents": {"General": {"mode": "ask_destructive"}}}
SCRIPT = "call hold\nthen\n{results}"


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Front]:
    """A gateway whose agent asks before its tool runs, and that waits for a moment."""
    async with front(tmp_path, **ASKS, fronts={"wait": 0.05}) as there:
        there.hold(destructive=True).may_end.set()
        yield there


async def open_question(there: Front) -> Question:
    """The one open question, once it is there."""
    await until(lambda: _questions(there))
    question: Question = (await _questions(there))[0]
    return question


async def allow(there: Front) -> None:
    """Answer the one open question."""
    question = await open_question(there)
    assert await there.parts.questions.answer(question.id, Answer("allow"), person(OPERATOR))


async def _questions(there: Front) -> Any:
    return await there.parts.questions.open_for(owner=OPERATOR.owner)


async def test_a_stream_says_where_to_answer_and_goes_on_with_the_answer(asking: Front) -> None:
    stream = await asking.stream(SCRIPT)
    chunks = []
    async for chunk in stream:
        chunks.append(chunk)
        if "handspan questions answer" in words(chunks):
            break
    assert f"The page is at {asking.gateway.url}/" in words(chunks)
    await allow(asking)
    chunks += [chunk async for chunk in stream]
    assert '"held"' in words(chunks)


async def test_a_whole_answer_that_is_answered_in_time_says_nothing_of_it(tmp_path: Path) -> None:
    async with front(tmp_path, **ASKS) as there:
        there.hold(destructive=True).may_end.set()
        waiting = asyncio.create_task(there.text(SCRIPT))
        await allow(there)
        (envelope,) = json.loads(await soon(waiting))
        assert envelope["result"] == "held"


async def test_without_a_key_the_answer_says_that_nobody_answered_and_the_question_expires(asking: Front) -> None:
    text = await asking.text(SCRIPT)
    assert "This waited 0.05 seconds for a person" in text and "may 'hold' run?" in text
    assert "X-Chat-Id" in text and "handspan questions answer" not in text
    await until(lambda: _nothing_is_left(asking))


async def test_with_a_key_the_run_goes_on_and_the_next_request_gets_its_answer(asking: Front) -> None:
    headers = {"X-Chat-Id": "c1"}
    assert "may 'hold' run?" in await asking.text(SCRIPT, extra_headers=headers)
    await allow(asking)
    assert '"held"' in await asking.text(SCRIPT, extra_headers={**headers})


# A request to a model asks for money: no call asks then.


def without_money(folder: Path) -> Any:
    """A gateway whose model costs more than its budget allows."""
    return front(folder, paid_model(), **NO_MONEY, fronts={"wait": 0.05})


async def test_a_question_for_money_is_told_in_a_stream_with_words_that_answer_it(tmp_path: Path) -> None:
    async with without_money(tmp_path) as there:
        stream = await there.stream("hi")
        chunks = []
        async for chunk in stream:
            chunks.append(chunk)
            if "handspan questions answer" in words(chunks):
                break
        question = await open_question(there)
        assert f"answer {question.id} allow --value 'Add $2 today'` (or 'Add $10 today', 'No')" in words(chunks)
        assert "`handspan budget add DOLLARS`" in words(chunks)
        assert await there.parts.questions.answer(question.id, Answer("allow", value="Add $2 today"), person(OPERATOR))
        chunks += [chunk async for chunk in stream]
        assert words(chunks).endswith("Paid.")


async def test_a_whole_answer_waits_for_money_as_long_as_for_any_question(tmp_path: Path) -> None:
    async with without_money(tmp_path) as there:
        headers = {"X-Chat-Id": "c1"}
        assert "Add money today?" in await there.text("hi", extra_headers=headers)
        question = await open_question(there)
        assert await there.parts.questions.answer(question.id, Answer("allow", value="Add $2 today"), person(OPERATOR))
        assert await there.text("hi", extra_headers={**headers}) == "Paid."


async def test_without_a_key_a_question_for_money_is_given_up(tmp_path: Path) -> None:
    async with without_money(tmp_path) as there:
        assert "This waited 0.05 seconds" in await there.text("hi")
        await until(lambda: _nothing_is_left(there))


async def _nothing_is_left(there: Front) -> bool:
    return not await _questions(there) and not await there.sessions()
