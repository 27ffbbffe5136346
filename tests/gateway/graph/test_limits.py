"""The figures that the unmodified client counts on: how long, how many rounds, which ids (origins 4.3, 5.2)."""

import json
from pathlib import Path
from typing import Any

import pytest

from handspan.config.gateway_settings import GatewaySettings
from handspan.gateway.graph.invoke import ANSWER_SECONDS
from tests.gateway.graph.pages import ECHO, Page, graph_gateway, result

pytestmark = pytest.mark.anyio

CLIENT_GIVES_UP = 300.0
"""Seconds (origins 4.2)."""


def test_a_request_is_answered_before_the_client_gives_it_up_and_a_run_waits_for_minutes() -> None:
    assert 0 < ANSWER_SECONDS < CLIENT_GIVES_UP
    assert GatewaySettings().browser_call >= 300


@pytest.mark.parametrize(("asked", "rounds"), [(None, 25), (1, 1), (27, 27), (100, 30)])
async def test_a_run_has_25_rounds_unless_it_asks_for_others(tmp_path: Path, asked: int | None, rounds: int) -> None:
    limits = {"max_tool_iterations": 0}  # of the agent's own: none
    async with graph_gateway(tmp_path, agents={"General": limits}) as there:
        writing = [f'call write_file {{"path": "{number}.txt", "content": ""}}' for number in range(30)]
        script = "\nthen\n".join([*writing, "end"])
        more: dict[str, Any] = {} if asked is None else {"recursion_limit": asked}
        answer = await there.page.say(script, **more)
        made = [message for message in answer.messages if message["content"][0]["type"] == "tool_result"]
        assert len(made) == rounds
        assert answer.meta["status"] == ("completed" if rounds == 30 else "limit")


async def test_the_same_call_for_ever_is_run_each_time_and_ends_at_the_limit(page: Page) -> None:
    again = "\nthen\n".join(['call write_file {"path": "a.txt", "content": "a", "mode": "append"}'] * 8)
    answer = await page.say(f"{again}\nthen\ncall read_file {{}}", recursion_limit=7)
    results = [message["content"][0] for message in answer.messages if message["role"] == "tool"]
    assert [block["is_error"] for block in results if block["type"] == "tool_result"] == [False] * 7
    assert answer.meta["status"] == "limit"


async def test_calls_of_one_reply_see_what_the_earlier_ones_wrote(page: Page) -> None:
    calls = ['call write_file {"path": "a.txt", "content": "first"}', 'call read_file {"path": "a.txt"}']
    calls += ['call exec_shell {"command": "cat a.txt"}', *(one.replace("first", "second") for one in calls)]
    answer = await page.say("\n".join(calls) + "\nthen\n{results}")
    _, first, shell, _, second = json.loads(answer.words)
    assert ["first" in str(one["result"]) for one in (first, shell)] == [True, True], answer.words
    assert "second" in str(second["result"])


async def test_a_guard_that_the_operator_has_set_ends_the_run_as_a_limit(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, agents={"General": {"limits": {"failed_rounds": 2, "repeats": 1}}}) as there:
        script = "\nthen\n".join(['call read_file {"path": "none.txt"}'] * 4)
        answer = await there.page.say(f"{script}\nthen\nnever")
        assert answer.meta["status"] == "limit"
        told = [message["content"][0] for message in answer.messages if message["role"] == "tool"]
        assert len(told) == 2 and "limits.repeats" in json.dumps(told[1])


@pytest.mark.parametrize("wrong", [0, -1, 101, 1.5, "5", True])
async def test_a_limit_that_is_none_begins_nothing(page: Page, wrong: Any) -> None:
    refused = await page.say("hello", "t", recursion_limit=wrong)
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    assert refused.error["details"][0]["loc"] == ["body", "recursion_limit"]
    assert (await page.ask("GET", "/v1/threads/t")).status == 404


@pytest.mark.parametrize("given", ["0", 0, None, "t:1", "", "the same again", ...])
async def test_whatever_id_a_message_comes_with_it_gets_one_of_its_own(page: Page, given: Any) -> None:
    await page.set_up(ECHO)
    own = {} if given is ... else {"message_id": given}
    person = {"role": "user", "content": [{"type": "text", "text": "call echo\nthen\n{results}"}], **own}
    for number in range(2):  # the same message twice is two messages
        call = (await page.invoke([person], "t")).calls[0]["id"]
        answered = {**result(call, number), **own}
        if given is ...:
            del answered["message_id"]
        last = await page.answer(answered, thread="t")
        assert f'"result":{number}' in last.words
    ids = [message["message_id"] for message in (await page.ask("GET", "/v1/threads/t/messages")).messages]
    assert len(set(ids)) == len(ids) == 8
