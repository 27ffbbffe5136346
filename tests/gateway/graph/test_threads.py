"""Threads over HTTP: the list, one of them, its end; for their owner alone (graph.md 8.1, 8.4)."""

import asyncio
from typing import Any

import pytest

from handspan.core.principals import OPERATOR
from tests.gateway.graph.pages import ECHO, Graph, Page, result

pytestmark = pytest.mark.anyio

HOSTILE = [
    "%2e%2e",
    "..%2f..%2foperator.token",
    "%00",
    "a%27%3b--",
    "%F0%9F%98%80",
    "%ff",
    "x" * 3000,
    "*",
    "{thread_id}",
]


async def listed(page: Page, query: str = "") -> list[dict[str, Any]]:
    answer = await page.ask("GET", f"/v1/threads{query}")
    return list(answer.data["threads"])


async def test_somebody_elses_thread_is_one_that_never_was(there: Graph, page: Page) -> None:
    await page.say("mine", "t")
    stranger = await there.another("somebody else")
    assert await listed(stranger) == []
    for path in ("", "/state", "/messages", "/messages/t:1"):
        theirs = await stranger.ask("GET", f"/v1/threads/t{path}")
        never = await stranger.ask("GET", f"/v1/threads/n{path.replace('t:', 'n:')}")
        assert (theirs.status, theirs.error["code"]) == (404, "RESOURCE_NOT_FOUND")
        assert theirs.error["message"] == never.error["message"].replace("'n", "'t")
    added = {"messages": [{"role": "user", "content": [{"type": "text", "text": "intruder"}]}]}
    for method, path, body in (
        ("DELETE", "", None),
        ("DELETE", "/state", {"config": {}}),
        ("PUT", "/state", {"state": {"context": added["messages"]}}),
        ("PUT", "/state", {"state": {}}),
        ("POST", "/messages", added),
        ("DELETE", "/messages/t:1", None),
    ):
        refused = await stranger.ask(method, f"/v1/threads/t{path}", body)
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND"), (method, path)
    assert len((await page.ask("GET", "/v1/threads/t/messages")).messages) == 2


async def test_another_token_of_the_owner_sees_the_same_threads(there: Graph, page: Page) -> None:
    await page.say("mine", "t")
    other = await there.another()
    assert [thread["thread_id"] for thread in await listed(other)] == ["t"]


async def test_the_session_of_a_run_is_a_run(there: Graph, page: Page) -> None:
    await page.say("mine", "t")
    stored = await there.gateway.gateway.parts.store.conversations.get("t", owner=OPERATOR.owner)
    assert stored.kind == "run"


@pytest.mark.parametrize("path", ["/v1/threads", "/v1/threads/t", "/v1/threads/t/state", "/v1/threads/t/messages"])
async def test_nothing_is_shown_without_a_token_or_to_a_device(there: Graph, path: str) -> None:
    device = await there.another(scopes=("device",))
    refused = await device.ask("GET", path)
    assert (refused.status, refused.error["code"]) == (403, "PERMISSION_ERROR")
    device.http.headers["authorization"] = "Bearer nonsense"
    refused = await device.ask("GET", path)
    assert (refused.status, refused.error["code"]) == (401, "AUTHENTICATION_ERROR")


@pytest.mark.parametrize("path", ["/v1/threads", "/v1/threads/t/messages"])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("offset=-1", "offset"),
        ("offset=99999999999999999999", "offset"),
        ("offset=x", "offset"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-5", "limit"),
        ("limit=", "limit"),
        ("limit=1.5", "limit"),
        ("limit=%D9%A3", "limit"),
    ],
)
async def test_a_part_that_cant_be_is_refused_by_its_place(page: Page, path: str, query: str, field: str) -> None:
    await page.say("hello", "t")
    refused = await page.ask("GET", f"{path}?{query}")
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    (detail,) = refused.error["details"]
    assert detail["loc"] == ["query", field]
    assert detail["msg"]


@pytest.mark.parametrize("path", ["%20", "%20/state", "%20/messages", "t/messages/%09", "%E2%80%83"])
async def test_a_blank_id_is_refused(page: Page, path: str) -> None:
    await page.say("hello", "t")
    refused = await page.ask("GET", f"/v1/threads/{path}")
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    assert refused.error["details"][0]["loc"] == ["path", "message_id" if "t/m" in path else "thread_id"]


@pytest.mark.parametrize("thread", HOSTILE)
async def test_an_id_that_is_none_leads_nowhere(page: Page, thread: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/state"), ("GET", "/messages"), ("DELETE", "/state")):
        refused = await page.ask(method, f"/v1/threads/{thread}{path}")
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND")


async def test_a_missing_id_is_not_the_list(page: Page) -> None:
    for path in ("/v1/threads/", "/v1/threads//state"):
        refused = await page.ask("GET", path)
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND")


async def test_the_list_shows_the_last_active_first_with_all_fields(page: Page) -> None:
    await page.say("first words", "one")
    await page.say("other words", "two")
    await page.say("again", "one")
    threads = await listed(page)
    assert [thread["thread_id"] for thread in threads] == ["one", "two"]
    first = threads[0]
    assert set(first) == {"thread_id", "thread_name", "user_id", "metadata", "updated_at", "run_id"}
    assert (first["thread_name"], first["user_id"], first["run_id"]) == ("first words", "operator", None)
    assert first["metadata"]["message_count"] == 4
    assert first["updated_at"].endswith("Z")
    details = (await page.ask("GET", "/v1/threads/one")).data
    assert details == {"thread_data": {"thread": first}}


async def test_a_long_list_is_read_in_parts_and_searched(there: Graph, page: Page) -> None:
    kept = there.gateway.gateway.parts.store.conversations
    for number in range(1030):
        await kept.create(owner=OPERATOR.owner, session=f"s{number}", name="Über 東京" if number % 100 == 7 else "")
    assert len(await listed(page)) == 100
    assert len(await listed(page, "?limit=1000")) == 1000
    assert len(await listed(page, "?limit=1000&offset=1000")) == 30
    assert await listed(page, "?offset=2000") == []
    assert len(await listed(page, "?search=%C3%BCBER")) == 11
    assert len(await listed(page, "?search=%E6%9D%B1%E4%BA%AC&offset=10&limit=5")) == 1
    assert [thread["thread_id"] for thread in await listed(page, "?search=S1029")] == ["s1029"]


@pytest.mark.parametrize("body", [None, {"config": {}}, b"not even JSON"])
async def test_a_deleted_thread_is_gone_with_all_that_belongs_to_it(there: Graph, page: Page, body: Any) -> None:
    await page.set_up(ECHO)
    call = (await page.say("call echo", "t")).calls[0]["id"]  # suspended, and nobody's any more
    deleted = (await page.ask("DELETE", "/v1/threads/t", body)).data
    assert deleted == {"success": True, "message": "Thread deleted successfully", "data": True}
    assert (await page.ask("GET", "/v1/threads/t")).status == 404
    assert (await page.ask("DELETE", "/v1/threads/t", body)).status == 404
    assert await there.gateway.journal() == []
    late = await page.answer(result(call, 1))
    assert (late.status, late.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")
    assert (await page.say("new", "t")).meta["is_new_thread"] is True


async def test_who_watches_the_list_hears_that_a_thread_was_deleted(there: Graph, page: Page) -> None:
    await page.say("hello", "t")
    stream = there.gateway.gateway.parts.live.subscribe(OPERATOR.owner)
    assert (await page.ask("DELETE", "/v1/threads/t")).status == 200
    heard = await stream.next()
    assert heard is not None
    assert (heard.topic, heard.data) == ("sessions", {"session_id": "t", "change": "deleted"})
    stream.end()


async def test_a_thread_at_work_says_so_and_is_changed_by_nobody(there: Graph, page: Page) -> None:
    await page.say("before", "t")
    waiting = there.let_it_wait()
    running = asyncio.create_task(page.say("call wait", "t"))
    async with asyncio.timeout(60):
        await waiting.is_at_work.wait()
    (thread,) = await listed(page)
    assert thread["run_id"]
    assert thread["metadata"]["state"] == "running"
    assert (await page.ask("GET", "/v1/threads/t")).data["thread_data"]["thread"]["run_id"] == thread["run_id"]
    meta = (await page.ask("GET", "/v1/threads/t/state")).data["state"]["execution_meta"]
    assert (meta["status"], meta["interrupt_data"]) == ("running", None)
    added = [{"role": "user", "content": [{"type": "text", "text": "too early"}]}]
    for method, path, body in (
        ("DELETE", "", None),
        ("DELETE", "/state", None),
        ("PUT", "/state", {"state": {"context": added}}),
        ("POST", "/messages", {"messages": added}),
        ("DELETE", "/messages/t:1", None),
    ):
        refused = await page.ask(method, f"/v1/threads/t{path}", body)
        assert (refused.status, refused.error["code"]) == (409, "GRAPH_BUSY"), (method, path)
    await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
    async with asyncio.timeout(60):
        assert (await running).meta["status"] == "stopped"
    assert (await page.ask("DELETE", "/v1/threads/t")).status == 200
