"""Streams and sockets, as a client needs them that knows nothing of us (graph.md 7; origins 5.2, 9 and 10)."""

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from handspan.core.context import ToolContext
from handspan.core.principals import Origin
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments
from tests.gateway.graph.pages import ECHO, Graph, Page, result, said
from tests.gateway.graph.test_stream import calls_in, run, socket, words

pytestmark = pytest.mark.anyio


def url_of(page: Page, query: str = "") -> str:
    return page.url.replace("http", "ws", 1) + "/v1/graph/ws" + query


async def test_a_chunk_is_there_when_it_happens_and_not_when_the_run_is_over(there: Graph, page: Page) -> None:
    held = there.let_it_hold()
    body = {"messages": [said("I look.\ncall hold\nthen\nend")]}
    async with asyncio.timeout(60), page.http.stream("POST", "/v1/graph/stream", json=body) as response:
        lines = response.aiter_lines()
        early: list[dict[str, Any]] = []
        while "I look." not in words(early, delta=False):
            early.append(json.loads(await anext(lines)))
        await held.is_at_work.wait()  # it is still at work: all this was said before
        assert words(early, delta=True) == "I look."
        held.may_end.set()
        late = [json.loads(line) async for line in lines]
    assert words(late, delta=False) == "end"


async def test_partial_lets_all_through_but_updates(page: Page) -> None:
    script = "call get_current_time\nthen\nend"
    of: dict[str, list[str]] = {}
    for granularity in ("low", "partial", "full"):
        chunks = (await page.stream([said(script)], response_granularity=granularity)).chunks
        of[granularity] = [chunk["event"] for chunk in chunks if chunk["event"] != "state"]
    assert of["partial"] == of["low"] == [event for event in of["full"] if event != "updates"]
    assert "updates" in of["full"]


@pytest.mark.parametrize("granularity", ["partial", "full"])
async def test_the_state_comes_once_before_the_last_chunk(page: Page, granularity: str) -> None:
    for script in ("call echo\nthen\nend", "hello"):
        chunks = (await page.stream([said(script)], tools=[ECHO], response_granularity=granularity)).chunks
        assert [chunk["event"] for chunk in chunks].index("state") == len(chunks) - 2
        state = (await page.ask("GET", f"/v1/threads/{chunks[0]['thread_id']}/state")).data["state"]
        assert chunks[-2]["state"] == state
        assert "meta" in chunks[-1]["metadata"]
    async with socket(page) as connection:
        chunks = await run(connection, invoke_type="fresh", messages=[said("hi")], response_granularity=granularity)
    assert [chunk["event"] for chunk in chunks].count("state") == 1


async def test_updates_tell_each_step_of_a_run(page: Page) -> None:
    body = {"messages": [said("call get_current_time\nthen\nend")], "recursion_limit": 7}
    chunks = (await page.ask("POST", "/v1/graph/stream", {**body, "response_granularity": "full"})).chunks
    told = [chunk["data"] for chunk in chunks if chunk["event"] == "updates"]
    assert [(one["status"], one["node"]) for one in told] == [
        ("invoking_graph", "MAIN"),
        ("invoking_node", "MAIN"),
        ("node_invoked", "MAIN"),
        ("invoking_node", "TOOL"),
        ("node_invoked", "TOOL"),
        ("invoking_node", "MAIN"),
        ("node_invoked", "MAIN"),
        ("graph_invoked", "MAIN"),
    ]
    assert (told[0]["step"], told[0]["max_steps"]) == (1, 7)
    assert told[3]["tool_call_id"] == told[4]["tool_call_id"]


async def test_results_of_the_gateways_tools_come_before_the_calls_of_the_client(page: Page) -> None:
    await page.set_up(ECHO)
    answer = await page.stream([said("call echo\ncall get_current_time\ncall echo\nthen\nend")])
    kinds = [chunk["message"]["content"][0]["type"] for chunk in answer.chunks]
    assert kinds == ["text", "tool_call", "tool_result", "remote_tool_call", "remote_tool_call"]
    assert len({call["id"] for call in answer.calls}) == 2


async def test_a_stream_shows_no_call_again_that_was_asked_before(page: Page) -> None:
    await page.set_up(ECHO)
    asked: list[str] = []
    answer = await page.stream([said("call echo\nthen\ncall echo\nthen\ncall echo\nthen\nend")])
    while answer.calls:
        (call,) = answer.calls
        asked.append(call["id"])
        answer = await page.stream([result(call["id"], 1)], response_granularity="full")
    assert len(set(asked)) == len(asked) == 3
    assert words(answer.chunks, delta=False) == "end"


class Slow:
    """A tool of the gateway that says how far it is."""

    spec = ToolSpec("slow", "Takes its time.", {"type": "object", "properties": {}})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        ctx.progress({"percent": 50})
        return "over"


async def test_what_a_tool_reports_is_an_update(there: Graph, page: Page) -> None:
    there.gateway.gateway.parts.app.registry.register(Slow(), Origin("plugin", "tests"))
    full = (await page.stream([said("call slow\nthen\nend")], response_granularity="full")).chunks
    (told,) = [chunk["data"] for chunk in full if (chunk["data"] or {}).get("status") == "tool_progress"]
    assert (told["node"], told["tool_name"], told["value"]) == ("TOOL", "slow", {"percent": 50})
    low = (await page.stream([said("call slow\nthen\nend")])).chunks
    assert {chunk["event"] for chunk in low} == {"message"}


class TestTheSocket:
    @pytest.mark.parametrize("way", ["query", "header", "sub-protocol"])
    async def test_a_token_is_taken_where_a_client_can_put_it(self, page: Page, way: str) -> None:
        told = {"authorization": f"Bearer {page.token}"} if way == "header" else {}
        offered: Any = ["agentflow-bearer", page.token] if way == "sub-protocol" else None
        query = f"?token={page.token}" if way == "query" else ""
        async with connect(url_of(page, query), additional_headers=told, subprotocols=offered) as connection:
            assert words(await run(connection, invoke_type="fresh", messages=[said("hi")]), delta=False) == "hi"
            assert connection.subprotocol == (offered and "agentflow-bearer")

    @pytest.mark.parametrize("offered", [["agentflow-bearer", "wrong"], ["agentflow-bearer"], ["wrong"]])
    async def test_a_sub_protocol_without_a_good_token_opens_nothing(self, page: Page, offered: Any) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(url_of(page), subprotocols=offered)
        assert refused.value.response.status_code == 401
        told = json.loads(refused.value.response.body or b"")
        assert set(told) == {"error", "metadata"}

    async def test_every_chunk_says_its_thread_from_the_first_one_on(self, page: Page) -> None:
        async with socket(page) as connection:
            asking = [said("Well.\ncall echo\nthen\nend")]
            first = await run(connection, invoke_type="fresh", messages=asking, tools=[ECHO])
            thread = first[0]["thread_id"]
            assert thread
            assert {chunk["thread_id"] for chunk in first} == {thread}
            assert {chunk["metadata"]["thread_id"] for chunk in first} == {thread}
            again = {"tool_result": [result(calls_in(first)[0])], "config": {"thread_id": thread}}
            last = await run(connection, invoke_type="resume", **again)
            assert {chunk["thread_id"] for chunk in last} == {thread}

    async def test_three_calls_are_asked_once_and_may_be_answered_one_by_one(self, page: Page) -> None:
        async with socket(page) as connection:
            script = "call echo\ncall echo\ncall echo\nthen\n{results}"
            chunks = await run(connection, invoke_type="fresh", messages=[said(script)], tools=[ECHO])
            calls = calls_in(chunks)
            assert len(set(calls)) == len(calls) == 3
            for number in (2, 0):
                part = await run(connection, invoke_type="resume", tool_result=[result(calls[number], number)])
                assert calls_in(part) == []  # nothing is repeated, and the run waits on
                assert words(part, delta=False) == ""
            twice = await run(connection, invoke_type="resume", tool_result=[result(calls[0], "again")])
            assert [chunk["data"]["code"] for chunk in twice] == ["GRAPH_ANSWERED_CALL"]
            last = await run(connection, invoke_type="resume", tool_result=[result(calls[1], 1)])
            assert [one["result"] for one in json.loads(words(last, delta=False))] == [0, 1, 2]

    async def test_results_of_somebody_else_are_refused(self, there: Graph, page: Page) -> None:
        other = await there.another()
        async with socket(page) as mine, socket(other) as theirs:
            chunks = await run(mine, invoke_type="fresh", messages=[said("call echo\nthen\nend")], tools=[ECHO])
            answer = {"invoke_type": "resume", "tool_result": [result(calls_in(chunks)[0])]}
            (refused,) = await run(theirs, **answer)
            assert (refused["event"], refused["data"]["code"]) == ("error", "GRAPH_UNKNOWN_CALL")
            assert words(await run(mine, **answer), delta=False) == "end"

    async def test_rounds_are_counted_over_its_requests(self, page: Page) -> None:
        limited = {"recursion_limit": 1, "tools": [ECHO]}
        async with socket(page) as connection:
            script = "call echo\nthen\ncall echo\nthen\nnever"
            chunks = await run(connection, invoke_type="fresh", messages=[said(script)], **limited)
            last = await run(connection, invoke_type="resume", tool_result=[result(calls_in(chunks)[0])], **limited)
            assert calls_in(last) == []
            assert last[-1]["metadata"]["meta"]["status"] == "limit"

    async def test_when_the_gateway_ends_it_is_told_to_come_back(self, there: Graph, page: Page) -> None:
        async with socket(page) as connection, asyncio.timeout(60):
            chunks = await run(connection, invoke_type="fresh", messages=[said("call echo\nthen\nend")], tools=[ECHO])
            await there.gateway.restart()
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        async with socket(page) as connection:
            last = await run(connection, invoke_type="resume", tool_result=[result(calls_in(chunks)[0])])
            assert words(last, delta=False) == "end"

    async def test_who_comes_while_the_gateway_ends_is_refused_in_the_envelope(self, there: Graph, page: Page) -> None:
        there.gateway.gateway.parts.peers.is_open = False  # as while it drains
        with pytest.raises(InvalidStatus) as refused:
            async with socket(page):
                pass
        assert refused.value.response.status_code == 503
        assert set(json.loads(refused.value.response.body or b"")) == {"error", "metadata"}
