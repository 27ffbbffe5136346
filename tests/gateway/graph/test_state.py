"""The state of a thread over HTTP: how a page that was reloaded finds its open calls again (graph.md 8.2)."""

import time
from typing import Any

import pytest

from handspan.core.calls import CallRecord, new_call_id
from handspan.core.values import Json
from tests.gateway.graph.pages import ECHO, Graph, Page, result, tool

pytestmark = pytest.mark.anyio


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": words}]}


async def state(page: Page, thread: str = "t") -> Any:
    answer = (await page.ask("GET", f"/v1/threads/{thread}/state")).data
    assert set(answer) == {"state"}
    assert set(answer["state"]) == {"context", "context_summary", "execution_meta"}
    return answer["state"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", ["body"]),
        (b"[]", ["body"]),
        ({}, ["body", "state"]),
        ({"state": []}, ["body", "state"]),
        ({"state": {"context": {}}}, ["body", "state", "context"]),
        ({"state": {"context": [{"role": "system", "content": []}]}}, ["body", "state", "context", "0", "role"]),
        ({"state": {"context": [text("assistant", "twice")]}}, ["body", "state", "context"]),
    ],
)
async def test_a_state_that_cant_be_put_is_refused_by_its_place(page: Page, body: Any, place: list[str]) -> None:
    await page.say("hello", "t")
    refused = await page.ask("PUT", "/v1/threads/t/state", body)
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    assert refused.error["details"][0]["loc"] == place
    assert len((await state(page))["context"]) == 2


async def test_a_thread_that_rests_is_completed(page: Page) -> None:
    await page.say("call get_current_time\nthen\nend", "t")
    found = await state(page)
    assert found["execution_meta"] == {
        "current_node": "MAIN",
        "step": 2,
        "status": "completed",
        "interrupted_node": None,
        "interrupt_reason": None,
        "interrupt_data": None,
        "thread_id": "t",
        "stop_current_execution": "none",
        "internal_data": {},
    }
    assert [message["role"] for message in found["context"]] == ["user", "assistant", "tool", "assistant"]
    assert found["context_summary"] is None
    assert (await page.ask("GET", "/v1/threads/t/messages")).messages == found["context"]


@pytest.mark.parametrize("after_restart", [False, True])
async def test_a_page_that_was_reloaded_finds_its_open_calls_and_answers_them(
    there: Graph, page: Page, after_restart: bool
) -> None:
    mine = [tool("look"), tool("get_current_time", timeout=30), tool("do it! 手")]
    script = 'call look {"at": "手"}\ncall tools__get_current_time\nthen\n{results}'
    asked = await page.say(script, "t", tools=mine)
    if after_restart:
        await there.gateway.restart()
    meta = (await state(page))["execution_meta"]
    assert (meta["status"], meta["interrupted_node"], meta["current_node"]) == ("interrupted_after", "TOOL", "TOOL")
    assert meta["interrupt_reason"] == "Remote tool call - graph interrupted"
    look, clock = meta["interrupt_data"]["open_calls"]
    assert (look["name"], look["args"]) == ("look", {"at": "手"})
    assert (clock["name"], clock["args"]) == ("get_current_time", {})
    assert {look["id"], clock["id"]} == {call["id"] for call in asked.calls}
    assert time.time() + 500 < look["expires_at"] < time.time() + 600
    assert clock["expires_at"] < time.time() + 30
    await page.answer(result(clock["id"], "noon"))
    left = (await state(page))["execution_meta"]["interrupt_data"]["open_calls"]
    assert [call["id"] for call in left] == [look["id"]]
    assert "noon" in (await page.answer(result(look["id"], 1))).words
    assert (await state(page))["execution_meta"]["status"] == "completed"


async def test_calls_of_another_client_of_the_owner_are_not_offered_to_this_one(there: Graph, page: Page) -> None:
    other = await there.another()
    await other.set_up(ECHO)
    await other.say("call echo", "t")
    meta = (await state(page))["execution_meta"]
    assert (meta["status"], meta["interrupt_data"]) == ("interrupted_after", {"open_calls": []})
    assert len((await state(other))["execution_meta"]["interrupt_data"]["open_calls"]) == 1


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}', b'{"a": 1}'])
async def test_arguments_are_an_object_in_whatever_form_they_were_kept(
    there: Graph, page: Page, arguments: dict[str, Json] | str | bytes
) -> None:
    await page.set_up(ECHO)
    await page.say("call echo", "t")
    ledger = there.gateway.gateway.parts.store.ledger
    (known,) = await ledger.open_calls(owner="operator", session="t")
    other = CallRecord(new_call_id(), "echo", known.tool, arguments, known.owner, "t", known.agent, known.at + 1)
    await ledger.suspend(other)
    calls = (await state(page))["execution_meta"]["interrupt_data"]["open_calls"]
    assert (calls[1]["id"], calls[1]["args"]) == (other.id, {"a": 1})


async def test_a_state_that_is_put_appends_its_messages_and_ignores_the_rest(page: Page) -> None:
    await page.say("hello", "t")
    before = (await state(page))["execution_meta"]
    sent = {
        "context": [text("user", "remember"), text("assistant", "I do")],
        "context_summary": "all of it",
        "execution_meta": {"status": "error", "step": 99},
        "my_field": {"a": [1]},
    }
    put = (await page.ask("PUT", "/v1/threads/t/state", {"state": sent, "config": {"x": 1}})).data["state"]
    assert [message["content"][0]["text"] for message in put["context"]] == ["hello", "hello", "remember", "I do"]
    assert put == await state(page)
    assert put["execution_meta"] == before
    for nothing in (b"{}", b'{"context": null}', b'{"context": []}'):
        same = (await page.ask("PUT", "/v1/threads/t/state", b'{"state": %b}' % nothing)).data["state"]
        assert same == put


@pytest.mark.parametrize("body", [None, {"config": {}}])
async def test_a_cleared_thread_is_there_and_empty(page: Page, body: Any) -> None:
    await page.say("hello", "t")
    cleared = (await page.ask("DELETE", "/v1/threads/t/state", body)).data
    assert cleared == {"success": True, "message": "State cleared successfully", "data": True}
    assert (await state(page))["context"] == []
    assert (await page.ask("GET", "/v1/threads/t")).status == 200
    (again, _) = (await page.say("again", "t", response_granularity="partial")).data["context"]
    assert again["message_id"] == "t:3"  # those before it were others


async def test_clearing_gives_up_what_is_suspended(page: Page) -> None:
    await page.set_up(ECHO)
    call = (await page.say("call echo", "t")).calls[0]["id"]
    assert (await page.ask("DELETE", "/v1/threads/t/state")).status == 200
    found = await state(page)
    assert (found["context"], found["execution_meta"]["status"]) == ([], "completed")
    late = await page.answer(result(call, 1))
    assert (late.status, late.error["code"]) == (422, "GRAPH_ANSWERED_CALL")
    assert (await page.say("on", "t")).words == "on"
