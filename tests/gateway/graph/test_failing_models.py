"""Runs whose model fails or takes too long: what each kind of request is told (graph.md 1.3, 4.7, 7.6)."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from handspan.core.images import ImageReader
from handspan.core.messages import Message, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.gateway.graph import invoke as invoking
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelError, ModelEvent, Projection, TextDelta
from handspan.testing.spoken import Spoken
from tests.gateway.graph.pages import ECHO, Graph, Page, graph_gateway, result, said

pytestmark = pytest.mark.anyio


class FailingModel:
    """Does what it is told, but for these words: `fail`, `break` and `wait` do so after some words of its own."""

    name = "moody"

    def __init__(self) -> None:
        self.is_waiting = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.is_down = False
        """Whether it fails whatever it is told."""
        self._spoken = Spoken()

    def projection(self, instructions: str = "") -> KeptMessages:
        return self._spoken.projection(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        assert isinstance(projection, KeptMessages)
        told = _last_words(projection.messages)
        if told in ("fail", "break", "wait"):
            yield TextDelta("Well, ")
        if told == "fail" or self.is_down:
            raise ModelError("overloaded", "The model is overloaded: try again later.")
        if told == "break":
            raise RuntimeError("something that nobody foresaw, with a secret in it")
        if told == "wait":
            self.is_waiting.set()
            await self.may_go_on.wait()
        async for event in self._spoken.reply(projection, specs, artifacts):
            yield event


def _last_words(messages: Sequence[Message]) -> str:
    """What a person has said last, if nobody has answered it."""
    last = messages[-1]
    return "".join(part.text for part in last.parts if isinstance(part, Text)) if isinstance(last, UserMessage) else ""


@asynccontextmanager
async def moody(folder: Path) -> AsyncIterator[tuple[Graph, FailingModel]]:
    model = FailingModel()
    async with graph_gateway(folder, model) as there:
        yield there, model


async def roles(page: Page, thread: str) -> list[str]:
    """Who has spoken; nobody yet in a thread that has just begun."""
    answer = await page.ask("GET", f"/v1/threads/{thread}/messages")
    return [] if answer.status == 404 else [message["role"] for message in answer.messages]


async def test_a_model_that_fails_is_500_with_its_reason_and_the_thread_goes_on(tmp_path: Path) -> None:
    async with moody(tmp_path) as (there, _):
        page = there.page
        failed = await page.say("fail", "t")
        assert (failed.status, failed.error["code"]) == (500, "GRAPH_ERROR")
        assert failed.error["message"] == "The model is overloaded: try again later."
        assert await roles(page, "t") == ["user", "assistant"], "what had arrived is kept"
        assert (await page.say("Hello again", "t")).words == "Hello again"


async def test_a_thread_says_how_its_runs_ended(tmp_path: Path) -> None:
    async with moody(tmp_path) as (there, _):
        page = there.page
        await page.say("fail", "t")
        [asked, cut] = (await page.ask("GET", "/v1/threads/t/messages")).messages
        assert cut["content"][0]["text"] == "Well, " and "ended" not in asked["metadata"]
        ended = cut["metadata"]["ended"]
        assert ended.pop("at") > 1_700_000_000
        fault = {"of": "model", "code": "overloaded"}
        text = "The model is overloaded: try again later."
        assert ended == {"reason": "error", "model": "moody", "text": text, "fault": fault}
        state = await page.ask("GET", "/v1/threads/t/state")
        assert state.data["state"]["execution_meta"]["status"] == "error"
        assert state.data["state"]["context"][-1]["metadata"]["ended"]["reason"] == "error"
        assert (await page.ask("GET", "/v1/threads/t")).data["thread_data"]["thread"]["thread_name"] == "fail"
        await page.say("Hello", "t")
        state = await page.ask("GET", "/v1/threads/t/state")
        assert state.data["state"]["execution_meta"]["status"] == "completed"


@pytest.mark.parametrize("way", ["invoke", "stream"])
async def test_a_run_that_failed_is_begun_again_with_the_tools_of_the_page(tmp_path: Path, way: str) -> None:
    async with moody(tmp_path) as (there, model):
        page = there.page
        await page.set_up(ECHO)
        model.is_down = True
        assert (await page.say("call echo", "t")).status == 500
        model.is_down = False
        config = {"thread_id": "t", "retry": True}
        if way == "invoke":
            again = await page.ask("POST", "/v1/graph/invoke", {"messages": [said("ignored")], "config": config})
            assert again.meta["status"] == "interrupted" and again.messages[0]["content"][0]["text"] == "call echo"
            ids = [message["message_id"] for message in again.messages]
        else:
            again = await page.stream([said("ignored")], config=config)
            ids = [chunk["message"]["message_id"] for chunk in again.chunks if chunk["event"] == "message"]
        assert await roles(page, "t") == ["user", "assistant"]
        listed = [one["message_id"] for one in (await page.ask("GET", "/v1/threads/t/messages")).messages]
        assert set(listed) <= set(ids)
        state = (await page.ask("GET", "/v1/threads/t/state")).data["state"]["execution_meta"]
        [call] = state["interrupt_data"]["open_calls"]
        busy = await page.ask("POST", "/v1/graph/invoke", {"messages": [said("x")], "config": config})
        assert busy.status == 409, "the run waits for the page"
        await page.answer(result(call["id"], "done"))
        await page.say("fail", "t")
        assert (await page.ask("POST", "/v1/graph/invoke", {"messages": [said("x")], "config": config})).status == 500
        assert await roles(page, "t") == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_what_can_not_be_begun_again_is_refused(tmp_path: Path) -> None:
    async with moody(tmp_path) as (there, _):
        page = there.page
        for config, status in (({"thread_id": "t", "retry": True}, 404), ({"retry": True}, 404), ({"retry": 1}, 422)):
            refused = await page.ask("POST", "/v1/graph/invoke", {"messages": [said("x")], "config": config})
            assert refused.status == status


async def test_a_model_that_fails_when_results_came_leaves_them_in_the_thread(tmp_path: Path) -> None:
    async with moody(tmp_path) as (there, model):
        page = there.page
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend", "t")).calls[0]["id"]
        model.is_down = True
        failed = await page.answer(result(call, "kept"))
        assert (failed.status, failed.error["code"]) == (500, "GRAPH_ERROR")
        again = await page.answer(result(call, "kept"))
        assert (again.status, again.error["code"]) == (422, "GRAPH_ANSWERED_CALL")
        assert await roles(page, "t") == ["user", "assistant", "tool"]


async def test_what_nobody_foresaw_is_told_in_the_log_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with moody(tmp_path) as (there, _):
        failed = await there.page.say("break", "t")
        assert (failed.status, failed.error["code"]) == (500, "GRAPH_ERROR")
        assert "secret" not in failed.text
        streamed = await there.page.stream([said("break")])
        assert "secret" not in streamed.text
        assert streamed.chunks[-1]["event"] == "error"
    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 2
    assert "secret" in caplog.text


@pytest.mark.parametrize("granularity", ["low", "partial", "full"])
async def test_a_stream_that_has_begun_ends_with_an_error_chunk(tmp_path: Path, granularity: str) -> None:
    async with moody(tmp_path) as (there, _):
        answer = await there.page.stream([said("fail")], response_granularity=granularity)
        *before, last = answer.chunks
        assert [chunk["event"] for chunk in answer.chunks].count("error") == 1
        assert last["event"] == "error"
        assert last["data"] == {"reason": "The model is overloaded: try again later.", "code": "GRAPH_ERROR"}
        assert "meta" not in last["metadata"]
        assert before[0]["message"]["role"] == "user"
        assert any(chunk["message"] and chunk["message"]["delta"] for chunk in before)
        assert {chunk["thread_id"] for chunk in answer.chunks} == {last["thread_id"]}


async def test_a_socket_hears_the_error_and_that_it_is_over_and_stays_open(tmp_path: Path) -> None:
    async with moody(tmp_path) as (there, _), asyncio.timeout(60):
        url = f"{there.page.url.replace('http', 'ws')}/v1/graph/ws"
        async with connect(url, additional_headers={"authorization": f"Bearer {there.page.token}"}) as socket:
            for text, kinds in (("fail", "error"), ("fine", "message")):
                await socket.send(json.dumps({"invoke_type": "fresh", "messages": [said(text)]}))
                chunks: list[dict[str, Any]] = []
                while not chunks or (chunks[-1].get("data") or {}).get("status") != "done":
                    chunks.append(json.loads(await socket.recv()))
                assert chunks[-2]["event"] == kinds
                assert (chunks[-1]["data"]["meta"] is None) == (kinds == "error")


async def test_a_run_that_takes_too_long_is_504_and_goes_on_in_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invoking, "ANSWER_SECONDS", 0.1)
    async with moody(tmp_path) as (there, model), asyncio.timeout(60):
        page = there.page
        late = await page.say("wait", "t")
        assert (late.status, late.error["code"]) == (504, "GRAPH_TIMEOUT")
        (thread,) = (await page.ask("GET", "/v1/threads")).data["threads"]
        assert thread["run_id"]
        model.may_go_on.set()
        while await roles(page, "t") != ["user", "assistant"]:
            await asyncio.sleep(0.01)


async def test_a_run_that_took_too_long_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoking, "ANSWER_SECONDS", 0.1)
    async with moody(tmp_path) as (there, model), asyncio.timeout(60):
        page = there.page
        assert (await page.say("wait", "t")).status == 504
        await model.is_waiting.wait()
        assert (await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})).data["running"] is True
        while (await page.ask("GET", "/v1/threads/t")).data["thread_data"]["thread"]["run_id"]:
            await asyncio.sleep(0.01)
        monkeypatch.undo()
        assert (await page.say("On we go", "t")).words == "On we go"


async def test_a_client_that_hangs_up_does_not_stop_its_run(tmp_path: Path) -> None:
    async with moody(tmp_path) as (there, model), asyncio.timeout(60):
        page = there.page
        asking = asyncio.create_task(page.say("wait", "t"))
        await model.is_waiting.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        model.may_go_on.set()
        while await roles(page, "t") != ["user", "assistant"]:
            await asyncio.sleep(0.01)
