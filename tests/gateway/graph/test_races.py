"""Two things at once in one thread: stops, expiries, results and new messages that meet (graph.md 4.8, 5, 6, 7.7)."""

import asyncio
import json
from typing import Any

import pytest

from handspan.agent.requests import NOTHING_TO_DO
from handspan.core.errors import StoreError
from handspan.core.principals import OPERATOR
from tests.gateway.graph.pages import ECHO, Graph, Page, result, said, tool
from tests.gateway.graph.test_stream import socket, until_done
from tests.stores import commits_of
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


async def open_calls(there: Graph, thread: str) -> list[str]:
    ledger = there.gateway.gateway.parts.store.ledger
    return [record.id for record in await ledger.open_calls(owner=OPERATOR.owner, session=thread)]


async def state_of(page: Page, thread: str) -> str:
    found = (await page.ask("GET", f"/v1/threads/{thread}")).data["thread_data"]["thread"]
    return str(found["metadata"]["state"])


def fresh(text: str, thread: str) -> str:
    return json.dumps({"invoke_type": "fresh", "messages": [said(text)], "config": {"thread_id": thread}})


STOP = json.dumps({"invoke_type": "stop"})


class TestStop:
    async def test_a_call_that_nobody_was_asked_for_yet_does_not_stay_open(self, there: Graph, page: Page) -> None:
        waiting = there.let_it_wait()
        await page.set_up(ECHO)
        running = asyncio.create_task(page.say("call echo\ncall wait", "t"))
        await soon(waiting.is_at_work.wait())
        assert (await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})).data["running"] is True
        assert (await running).meta["status"] == "stopped"
        assert await open_calls(there, "t") == []

    async def test_when_it_is_answered_it_is_over(self, there: Graph, page: Page) -> None:
        waiting = there.let_it_wait()
        running = asyncio.create_task(page.say("call wait", "t"))
        await soon(waiting.is_at_work.wait())
        await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
        assert there.gateway.gateway.parts.sessions.state("t", OPERATOR.owner) is None
        assert await state_of(page, "t") == "idle"
        await running

    async def test_fix_leaves_a_run_alone_that_is_at_work(self, there: Graph, page: Page) -> None:
        held = there.let_it_hold()
        running = asyncio.create_task(page.say("call hold\nthen\nend", "t"))
        await soon(held.is_at_work.wait())
        assert (await page.ask("POST", "/v1/graph/fix", {"thread_id": "t"})).data["removed_count"] == 0
        held.may_end.set()
        assert (await running).words == "end"

    async def test_a_disk_that_refuses_is_told(self, there: Graph, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        await page.set_up(ECHO)
        await page.say("call echo", "t")

        async def refuse(session: str, **more: Any) -> None:
            raise StoreError("The disk is full: make room.")

        monkeypatch.setattr(there.gateway.gateway.parts.store.conversations, "begin_turn", refuse)
        assert (await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})).error["code"] == "STORAGE_ERROR"

    async def test_over_the_socket_it_means_the_run_that_has_just_been_begun(self, there: Graph, page: Page) -> None:
        waiting = there.let_it_wait()
        await page.set_up(ECHO)
        async with socket(page) as connection:
            await connection.send(fresh("hello", "first"))
            await until_done(connection)
            elsewhere = await page.say("call echo\nthen\nend", "first")
            await connection.send(fresh("call wait", "second"))
            await connection.send(STOP)
            await until_done(connection)
            assert not waiting.is_at_work.is_set() or await state_of(page, "second") == "idle"
        assert (await page.answer(result(elsewhere.calls[0]["id"]))).words == "end"

    async def test_over_the_socket_it_gives_up_a_suspended_run(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        async with socket(page) as connection:
            await connection.send(fresh("call echo", "t"))
            await until_done(connection)
            await connection.send(json.dumps({"invoke_type": "resume", "tool_result": [result("unknown")]}))
            await until_done(connection)
            assert len(await open_calls(there, "t")) == 1
            await connection.send(STOP)

            async def is_over() -> bool:
                return not await open_calls(there, "t")

            await until(is_over)


class TestExpiry:
    async def test_of_a_call_while_others_of_its_round_run_lets_the_run_go_on(self, there: Graph, page: Page) -> None:
        held = there.let_it_hold()
        await page.set_up(tool("echo", timeout=0.05))
        running = asyncio.create_task(page.say("call echo\ncall hold\nthen\nend {results}", "t"))
        await soon(held.is_at_work.wait())

        async def has_expired() -> bool:
            return len(await open_calls(there, "t")) == 1

        await until(has_expired)
        held.may_end.set()
        ended = await running
        assert ended.meta["status"] == "completed"
        assert ended.calls == []
        assert '"timeout"' in ended.words and '"held"' in ended.words

    async def test_of_an_older_run_does_not_end_a_newer_one(self, there: Graph, page: Page) -> None:
        held = there.let_it_hold()
        await page.set_up(ECHO)
        running = asyncio.create_task(page.say("call hold\nthen\ncall echo\nthen\nend", "t"))
        await soon(held.is_at_work.wait())
        waiting = there.gateway.gateway.parts.sessions.get("t", OPERATOR.owner)
        ending = asyncio.create_task(
            waiting.give_up(OPERATOR, expired=True).wait_for_end()
        )  # as for a call that has expired
        held.may_end.set()
        (call,) = (await running).calls
        assert await ending is NOTHING_TO_DO
        assert (await page.answer(result(call["id"]))).words == "end"


class TestResults:
    async def test_what_is_refused_because_the_gateway_ends_took_nothing(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        (call,) = (await page.say("call echo", "t")).calls
        await there.gateway.gateway.parts.sessions.drain(0)
        refused = await page.answer(result(call["id"]))
        assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
        assert "being stopped" in refused.error["message"]
        assert await open_calls(there, "t") == [call["id"]]

    async def test_a_partial_answer_names_the_run(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\ncall echo", "t")
        part = await page.answer(result(first.calls[0]["id"]))
        assert part.meta["run_id"] == first.meta["run_id"]

    async def test_of_requests_that_overlap_one_counts_as_a_whole_and_the_other_not_at_all(self, page: Page) -> None:
        await page.set_up(ECHO)
        one, two, three = (call["id"] for call in (await page.say("call echo\ncall echo\ncall echo", "t")).calls)
        answers = await asyncio.gather(
            page.answer(result(one), result(two)), page.answer(result(three), result(two)), return_exceptions=False
        )
        good = [answer for answer in answers if answer.status == 200]
        bad = [answer for answer in answers if answer.status != 200]
        assert [answer.error["code"] for answer in bad] == ["GRAPH_ANSWERED_CALL"]
        (left,) = good[0].meta["open_calls"]
        assert left in (one, three)

    async def test_the_answer_that_ends_a_first_run_has_the_name_of_its_thread(self, page: Page) -> None:
        assert (await page.say("hello you", "t")).meta["thread_name"] == "hello you"

    async def test_so_has_the_one_that_ends_it_after_calls_of_the_client(self, there: Graph, page: Page) -> None:
        first = await page.say("call echo\nthen\nend", "t", tools=[ECHO])
        assert first.meta["thread_name"] is None
        before = commits_of(there.gateway.gateway.parts.store)
        assert (await page.answer(result(first.calls[0]["id"]))).meta["thread_name"] == "call echo then end"
        assert commits_of(there.gateway.gateway.parts.store) == before + 1  # the name waits for no disk of its own

    async def test_a_name_that_is_given_meanwhile_stays(self, there: Graph, page: Page) -> None:
        held = there.let_it_hold()
        running = asyncio.create_task(page.say("call hold\nthen\nend", "t"))
        async with asyncio.timeout(60):
            await held.is_at_work.wait()
        assert (await page.ask("PUT", "/api/sessions/t", {"name": "Chosen"})).status == 200
        held.may_end.set()
        assert (await running).meta["thread_name"] == "Chosen"

    async def test_a_disk_that_refuses_is_not_remembered_under_a_key(
        self, there: Graph, page: Page, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refuse(*these: Any, **more: Any) -> None:
            raise StoreError("The disk is full: make room.")

        key = {"idempotency-key": "k"}
        with monkeypatch.context() as patch:
            patch.setattr(there.gateway.gateway.parts.store.browser_tools, "save", refuse)
            refused = await page.say("call echo", "t", tools=[ECHO], headers=key)
            assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
        assert len((await page.say("call echo", "t", tools=[ECHO], headers=key)).calls) == 1


async def test_of_pages_that_set_up_at_once_one_counts_as_a_whole(page: Page) -> None:
    await asyncio.gather(*(page.set_up(tool(f"t{number}", node=f"n{number}")) for number in range(8)))
    nodes = (await page.ask("GET", "/v1/graph/tools")).data["nodes"]
    assert len({node["node_name"] for node in nodes} - {"TOOL"}) == 1


async def test_tools_that_the_disk_did_not_take_are_kept_with_the_next_request(
    there: Graph, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = there.gateway.gateway.parts.store.browser_tools
    save = kept.save

    async def lost(client: str, set_id: str, tools: bytes) -> None:
        """As if its commit failed later."""

    monkeypatch.setattr(kept, "save", lost)
    await page.say("hello", "t", tools=[ECHO])
    monkeypatch.setattr(kept, "save", save)
    (call,) = (await page.say("call echo\nthen\n{tools}", "t", tools=[ECHO])).calls
    await there.gateway.restart()
    assert "echo" in (await page.answer(result(call["id"]))).words
