"""A client's tools are its own, at whatever door somebody else comes in, and while its run is at work (SPEC H5)."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from handspan.gateway.entry.tokens import hash_of
from tests.gateway.graph.pages import ECHO, Graph, Page, graph_gateway, result, said, tool
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def listed(page: Page) -> set[str]:
    """What `/api/tools` shows to this client."""
    return {one["name"] for one in (await page.ask("GET", "/api/tools")).json["tools"]}


async def test_while_the_run_is_at_work_nobody_else_has_its_tools(there: Graph, page: Page) -> None:
    held = there.let_it_hold()
    running = asyncio.create_task(page.say("call hold\nthen\ncall echo\nthen\nend", "t", tools=[ECHO]))
    await soon(held.is_at_work.wait())
    stranger, other = await there.another("somebody else"), await there.another()
    assert "echo" not in await listed(stranger)
    refused = await stranger.ask("POST", "/api/tools/echo/call", {"args": {}, "session": "t"})
    assert refused.status == 404
    for who in (other, page):  # of the same owner, even the page itself: it is the run's
        assert "echo" not in await listed(who)
        refused = await who.ask("POST", "/api/tools/echo/call", {"args": {}, "session": "t"})
        assert refused.json["code"] == "tool_not_found"
    for who in (stranger, other):  # in a thread of their own, at the same time
        answer = await who.say("{tools}\ncall echo\nthen\n{results}")
        assert answer.calls == []
        assert json.loads(answer.words)[0]["code"] == "tool_not_found"
    held.may_end.set()
    (call,) = (await running).calls
    assert (await page.answer(result(call["id"]))).words == "end"


async def test_two_runs_of_one_client_at_once_have_the_tools_of_their_own_requests(there: Graph, page: Page) -> None:
    held = there.let_it_hold()
    first = asyncio.create_task(page.say("call hold\nthen\n{tools}", "one", tools=[tool("left")]))
    await soon(held.is_at_work.wait())
    second = json.loads((await page.say("{tools}", "two", tools=[tool("right")])).words)
    held.may_end.set()
    has = json.loads((await first).words)
    assert ("left" in has, "right" in has) == (True, False)
    assert ("left" in second, "right" in second) == (False, True)


async def test_when_the_run_waits_or_is_over_the_gateway_lists_them_to_nobody(there: Graph, page: Page) -> None:
    await page.set_up(ECHO)
    first = await page.say("call echo\nthen\nend", "t")
    for who in (page, await there.another(), await there.another("somebody else")):
        assert "echo" not in await listed(who)
    envelope = (await page.ask("POST", "/api/tools/echo/call", {"args": {}, "session": "t"})).json
    assert envelope["code"] == "tool_not_found"
    assert (await page.answer(result(first.calls[0]["id"]))).words == "end"
    assert "echo" not in await listed(page)


async def test_a_client_can_not_take_anothers_calls_by_offering_the_same_tools(there: Graph, page: Page) -> None:
    call = (await page.say("call echo\nthen\nend", "t", tools=[ECHO])).calls[0]["id"]
    other = await there.another()
    took = await other.answer(result(call, "mine"), thread="t", tools=[ECHO])
    assert (took.status, took.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")
    assert (await page.answer(result(call, "mine"))).words == "end"


@pytest.mark.parametrize(
    "spoof", [{"user_id": "somebody else"}, {"user": {"user_id": "somebody else"}}, {"authz": "*"}]
)
async def test_who_one_is_can_not_be_said_in_the_configuration(there: Graph, page: Page, spoof: dict[str, Any]) -> None:
    stranger = await there.another("somebody else")
    await stranger.set_up(ECHO)
    await stranger.say("a secret", "theirs")
    config: dict[str, Any] = {"thread_id": "mine", "remote_tools": ["echo"], **spoof}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "{tools}"}]}],
        "config": config,
    }
    answer = await page.ask("POST", "/v1/graph/invoke", body)
    assert "echo" not in json.loads(answer.words)
    thread = (await page.ask("GET", "/v1/threads/mine")).data["thread_data"]["thread"]
    assert thread["user_id"] == "operator"
    body["config"] = {**config, "thread_id": "theirs"}
    assert (await page.ask("POST", "/v1/graph/invoke", body)).status == 403


async def test_the_answer_under_a_key_is_told_again_only_to_the_client_whose_key_it_was(
    there: Graph, page: Page
) -> None:
    key = {"idempotency-key": "k"}
    mine = await page.say("a secret of mine", headers=key)
    for other in (await there.another(), await there.another("somebody else")):
        theirs = await other.say("a secret of mine", headers=key)
        assert theirs.meta["thread_id"] != mine.meta["thread_id"]
        body = {"messages": [said("a secret of mine")]}
        streamed = await other.ask("POST", "/v1/graph/stream", body, headers=key)
        assert streamed.chunks[0]["thread_id"] not in (mine.meta["thread_id"], theirs.meta["thread_id"])
    assert (await page.say("a secret of mine", headers=key)).meta == mine.meta


async def test_a_token_that_is_revoked_while_its_request_is_at_work_gets_no_answer(there: Graph) -> None:
    held, page = there.let_it_hold(), await there.another()
    running = asyncio.create_task(page.say("call hold\nthen\nend", "t"))
    await soon(held.is_at_work.wait())
    assert await there.gateway.gateway.parts.auth.revoke(hash_of(page.token), "operator")
    held.may_end.set()
    refused = await running
    assert (refused.status, refused.error["code"]) == (401, "AUTHENTICATION_ERROR")
    messages = (await there.page.ask("GET", "/v1/threads/t/messages")).messages
    assert messages[-1]["content"][0]["text"] == "end"  # the run went on in its thread


async def test_beside_the_run_its_tools_hide_no_other_and_are_known_to_nobody(there: Graph, page: Page) -> None:
    waiting, held = there.let_it_wait(), there.let_it_hold()
    held.may_end.set()
    running = asyncio.create_task(page.say("call wait", "t", tools=[tool("hold"), tool("secret_of_a_page")]))
    await soon(waiting.is_at_work.wait())
    called = await page.ask("POST", "/api/tools/hold/call", {"args": {}, "session": "t"})
    assert called.json["result"] == "held"  # the plugin's
    why = await page.ask("GET", "/api/tools/secret_of_a_page/why?session=t")
    near = await page.ask("POST", "/api/tools/secret_of_a_pag/call", {"args": {}, "session": "t"})
    assert (why.json["usable"], near.json["code"]) == (False, "tool_not_found")
    assert "browser" not in why.text and "secret_of_a_page" not in near.text
    await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
    assert (await running).meta["status"] == "stopped"


async def test_a_call_that_waited_for_a_person_does_not_become_one_of_a_pages_tool(tmp_path: Path) -> None:
    agents = {"General": {}, "Careful": {"mode": "ask_always"}}
    before, after = tmp_path / "before", tmp_path / "after"
    async with graph_gateway(before, agents=agents) as there:
        there.let_it_hold()
        await there.page.say("hello", "t")
        asked = {"args": {}, "session": "t", "agent": "Careful"}
        call = (await there.page.ask("POST", "/api/tools/hold/call", asked)).json["call_id"]
        shutil.copytree(before, after)  # what kill -9 leaves
    async with graph_gateway(after, agents=agents) as there:
        there.let_it_hold().may_end.set()
        waiting = there.let_it_wait()
        running = asyncio.create_task(there.page.say("call wait", "t", tools=[tool("hold")]))
        await soon(waiting.is_at_work.wait())
        (question,) = (await there.page.ask("GET", "/api/questions")).json["questions"]
        await there.page.ask("POST", f"/api/questions/{quote(question['id'], safe='')}/answer", {"decision": "allow"})
        async with asyncio.timeout(60):
            while (found := (await there.page.ask("GET", f"/api/calls/{call}")).json)["state"] != "done":
                await asyncio.sleep(0.01)
        assert (found["origin"], found["result"]["result"]) == ("plugin(tests)", "held")
        await there.page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
        await running


@pytest.mark.parametrize(
    ("path", "body", "look"),
    [
        ("/v1/graph/invoke", {"messages": [said("a trace")]}, ("GET", "/v1/threads")),
        ("/v1/graph/invoke", {"messages": []}, ("GET", "/v1/threads")),  # 422 else
        ("/v1/store/memories", {"content": "a trace"}, ("POST", "/v1/store/memories/list")),
        ("/api/tokens", {"label": "a trace", "scopes": ["admin"]}, ("GET", "/api/tokens")),
    ],
)
async def test_what_was_not_asked_in_full_when_its_token_was_revoked_is_not_done(
    there: Graph, path: str, body: dict[str, Any], look: tuple[str, str]
) -> None:
    page, auth, whole = (
        await there.another(scopes=("admin",)),
        there.gateway.gateway.parts.auth,
        json.dumps(body).encode(),
    )
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def halves() -> AsyncIterator[bytes]:
        yield whole[:5]
        has_begun.set()
        await may_end.wait()
        yield whole[5:]

    headers = {"content-type": "application/json"}
    asking = asyncio.create_task(page.http.post(path, content=halves(), headers=headers))
    await soon(has_begun.wait())
    assert (await page.ask("GET", "/v1/graph")).status == 200  # the head of the other one has been read by now
    await auth.revoke(hash_of(page.token), "operator")
    may_end.set()
    assert (await asking).status_code == 401
    method, place = look
    after = await there.page.ask(method, place, {} if method == "POST" else None)
    assert after.status == 200 and "a trace" not in after.text
