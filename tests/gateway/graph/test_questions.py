"""Questions of a page's own run reach its person, and the page answers them (graph.md 7.10, SPEC P5)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.testing import RunningGateway
from tests.gateway.graph.pages import ECHO, Graph, graph_gateway, result, said
from tests.gateway.graph.test_stream import socket
from tests.waiting import until

pytestmark = pytest.mark.anyio

SCRIPT = 'call echo {"a": 1}\nthen\n{results}'


@asynccontextmanager
async def careful(folder: Path) -> AsyncIterator[Graph]:
    """A gateway whose agent asks before every call."""
    async with asyncio.timeout(60), graph_gateway(folder, agents={"General": {"mode": "ask_always"}}) as there:
        yield there


def updates(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["data"] for chunk in chunks if chunk["event"] == "updates"]


@pytest.mark.parametrize("is_socket", [False, True], ids=["stream", "socket"])
async def test_a_question_comes_with_the_run_and_its_answer_lets_it_go_on(tmp_path: Path, is_socket: bool) -> None:
    async with careful(tmp_path) as there:
        page, chunks = there.page, list[dict[str, Any]]()
        body = {"messages": [said(SCRIPT)], "tools": [ECHO], "questions": True}

        async def take(line: str | bytes) -> None:
            chunks.append(json.loads(line))
            if chunks[-1]["event"] == "updates" and chunks[-1]["data"]["status"] == "question":
                asked = chunks[-1]["data"]["question"]
                answer = {"question_id": asked["id"], "decision": "allow", "arguments": {"a": 2}}
                taken = (await page.ask("POST", "/v1/graph/answer", answer)).data
                assert (taken["accepted"], taken["question_id"]) == (True, asked["id"])
                assert not (await page.ask("POST", "/v1/graph/answer", answer)).data["accepted"]

        if is_socket:
            async with socket(page) as connection:
                await connection.send(json.dumps({"invoke_type": "fresh", **body}))
                while not chunks or (chunks[-1]["data"] or {}).get("status") != "done":
                    await take(await connection.recv())
        else:
            async with page.http.stream("POST", "/v1/graph/stream", json=body) as response:
                async for line in response.aiter_lines():
                    await take(line)
        asked, closed, *_ = updates(chunks)
        question = asked["question"]
        assert (question["kind"], question["tool"], question["arguments"]) == ("approval", "echo", {"a": 1})
        assert question["agent"] == "General"
        assert (closed["status"], closed["question_id"]) == ("question_closed", question["id"])
        calls = [block for chunk in chunks if chunk.get("message") for block in chunk["message"]["content"]]
        assert [block["args"] for block in calls if block["type"] == "remote_tool_call"] == [{"a": 2}]


async def test_a_client_that_shows_no_questions_gets_none(tmp_path: Path) -> None:
    async with careful(tmp_path) as there:
        body = {"messages": [said(SCRIPT)], "tools": [ECHO], "response_granularity": "full"}
        statuses: list[str] = []
        async with there.page.http.stream("POST", "/v1/graph/stream", json=body) as response:
            async for line in response.aiter_lines():
                data = json.loads(line)["data"] or {}
                statuses.append(data.get("status", ""))
                if data.get("status") == "tool_progress":  # what it gets: for whom the run waits
                    assert data["value"]["text"].startswith("Waiting for your answer: may 'echo' run?")
                    question = data["value"]["waiting_for"]["question"]
                    denied = {"question_id": question, "decision": "deny"}
                    assert (await there.page.ask("POST", "/v1/graph/answer", denied)).data["accepted"]
        assert "tool_progress" in statuses and not {"question", "question_closed"} & set(statuses)


async def test_an_answer_is_checked_and_only_its_owner_can_give_it(tmp_path: Path) -> None:
    async with careful(tmp_path) as there:
        run = asyncio.create_task(there.page.say(SCRIPT, tools=[ECHO]))
        while not (asked := await there.gateway.gateway.parts.questions.open_for(owner="operator")):
            await asyncio.sleep(0.01)
        stranger = await there.another("stranger")
        answer = {"question_id": asked[0].id, "decision": "allow"}
        assert not (await stranger.ask("POST", "/v1/graph/answer", answer)).data["accepted"]
        for wrong in ({"decision": "allow"}, {**answer, "decision": "expired"}, {**answer, "value": 1}):
            assert (await there.page.ask("POST", "/v1/graph/answer", wrong)).error["code"] == "VALIDATION_ERROR"
        assert (await there.page.ask("POST", "/v1/graph/answer", {**answer, "decision": "deny"})).data["accepted"]
        assert '"approval_denied"' in (await run).words


@pytest.mark.parametrize("flag", [1, "yes", []])
async def test_a_flag_that_is_none_is_refused_with_its_place(tmp_path: Path, flag: object) -> None:
    async with careful(tmp_path) as there:
        refused = await there.page.invoke([said("hi")], questions=flag)
        assert refused.error["details"][0]["loc"] == ["body", "questions"]


async def test_a_run_that_waits_for_a_person_goes_on_after_a_stop(tmp_path: Path) -> None:
    script = 'call write_file {"path": "a.txt", "content": "x"}\nthen\n{results}'
    async with careful(tmp_path) as there:
        running = asyncio.create_task(there.page.say(script, "t", tools=[ECHO]))
        question = await open_question(there.gateway)
        await there.gateway.close(3600)
        refused = await running
        assert refused.status == 503 and "the turn is not over" in refused.error["message"]
        await there.gateway.open()
        assert await open_question(there.gateway) == question
        assert await there.gateway.gateway.parts.questions.answer(question, Answer("allow"), person(OPERATOR))
        await ends_with(there.gateway, "Successfully wrote")


async def test_a_page_gets_its_call_though_the_gateway_stops_while_a_person_is_asked_in_the_same_round(
    tmp_path: Path,
) -> None:
    script = 'call echo {"a": 1}\ncall ask_user {"question": "Which?"}\nthen\n{results}'
    async with asyncio.timeout(60), graph_gateway(tmp_path) as there:
        running = asyncio.create_task(there.page.say(script, "t", tools=[ECHO]))
        question = await open_question(there.gateway)
        await there.gateway.close(3600)
        [called] = (await running).calls
        await there.gateway.open()
        await there.page.answer(result(called["id"], "echoed"))
        assert await open_question(there.gateway) == question
        given = Answer("allow", value="blue")
        assert await there.gateway.gateway.parts.questions.answer(question, given, person(OPERATOR))
        await ends_with(there.gateway, "echoed", "blue")


async def open_question(gateway: RunningGateway) -> str:
    """The id of the question, once it is open."""

    async def is_open() -> bool:
        return bool(await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner))

    await until(is_open)
    return (await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner))[0].id


async def ends_with(gateway: RunningGateway, *words: str) -> None:
    """Wait until the run is over. Its last message has these words."""
    conversations = gateway.gateway.parts.store.conversations

    async def is_over() -> bool:
        return (await conversations.get("t", owner=OPERATOR.owner)).state == "idle"

    await until(is_over)
    last = (await conversations.load("t", owner=OPERATOR.owner))[-1]
    assert all(word in getattr(last, "text", "") for word in words), last
