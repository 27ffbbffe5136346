"""Arguments that a person edits at an approval are checked when the answer comes, at every door (SPEC P5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from handspan.core.principals import OPERATOR
from handspan.core.results import Success, ToolResult
from handspan.testing import FakeDevice, RunningGateway, running_gateway
from tests.gateway.test_question_rights import first_open, http_of
from tests.waiting import soon

pytestmark = pytest.mark.anyio

WRONG: Final[list[dict[str, Any]]] = [
    {},
    {"path": 7},
    {"path": "b.txt", "content": "x", "colour": "red"},
]


@asynccontextmanager
async def waiting_write(folder: Path) -> AsyncIterator[tuple[RunningGateway, str, "asyncio.Task[ToolResult]"]]:
    """A gateway where a call waits for approval, the id of the question, and the call."""
    async with running_gateway(folder, agents={"General": {"mode": "ask_always"}}) as gateway:
        calling = asyncio.create_task(gateway.call("write_file", path="a.txt", content="x"))
        question = await first_open(gateway)
        yield gateway, question.id, calling
        assert isinstance(await soon(calling), Success)
        assert (gateway.gateway.parts.app.settings.workspace / "b.txt").read_text() == "x"
        assert not (gateway.gateway.parts.app.settings.workspace / "a.txt").exists()


RIGHT: Final[dict[str, Any]] = {"path": "b.txt", "content": "x"}


async def test_rest_refuses_arguments_that_do_not_fit_and_the_question_stays_open(tmp_path: Path) -> None:
    async with waiting_write(tmp_path) as (gateway, question, _), http_of(gateway, gateway.token) as http:
        path = f"/api/questions/{quote(question, safe='')}/answer"
        for wrong in WRONG:
            refused = await http.post(path, json={"decision": "allow", "arguments": wrong})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_answer"), refused.text
            assert "'write_file' can't run with these arguments" in refused.json()["error"]
        assert (await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner))[0].id == question
        assert (await http.post(path, json={"decision": "allow", "arguments": RIGHT})).status_code == 200


async def test_the_graph_api_refuses_arguments_that_do_not_fit(tmp_path: Path) -> None:
    async with waiting_write(tmp_path) as (gateway, question, _), http_of(gateway, gateway.token) as http:
        answer = {"question_id": question, "decision": "allow"}
        for wrong in WRONG:
            refused = await http.post("/v1/graph/answer", json={**answer, "arguments": wrong})
            assert refused.status_code == 422 and "write_file" in refused.text
        taken = await http.post("/v1/graph/answer", json={**answer, "arguments": RIGHT})
        assert taken.json()["data"]["accepted"]


async def test_a_chat_is_told_that_edited_arguments_do_not_fit(tmp_path: Path) -> None:
    async with waiting_write(tmp_path) as (gateway, question, _), FakeDevice(gateway.url, gateway.token) as chat:
        await chat.connect(role="chat", capabilities=("events", "questions", "question_kinds"))
        for wrong in WRONG:
            await chat.send({"type": "answer", "id": question, "decision": "allow", "arguments": wrong})
            refused = await chat.expect("error")
            assert (refused["code"], refused["id"]) == ("INVALID_ANSWER", question)
            assert "write_file" in str(refused["message"])
        await chat.send({"type": "answer", "id": question, "decision": "allow", "arguments": RIGHT})


async def test_what_was_meant_is_read_as_in_a_call_and_a_no_needs_no_valid_arguments(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, agents={"General": {"mode": "ask_always"}}) as gateway,
        http_of(gateway, gateway.token) as http,
    ):
        calling = asyncio.create_task(gateway.call("read_file", path="a.txt"))
        path = f"/api/questions/{quote((await first_open(gateway)).id, safe='')}/answer"
        lenient = {"path": "a.txt", "limit": "3"}
        assert (await http.post(path, json={"decision": "allow", "arguments": lenient})).status_code == 200
        await soon(calling)
        calling = asyncio.create_task(gateway.call("read_file", path="a.txt"))
        path = f"/api/questions/{quote((await first_open(gateway)).id, safe='')}/answer"
        assert (await http.post(path, json={"decision": "deny", "arguments": {}})).status_code == 200
        await soon(calling)
