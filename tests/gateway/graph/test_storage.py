"""What the disk does not take is told as STORAGE_ERROR, wherever in a run it happens (graph.md 1.7).

The failures are SQLite's own, and one is a disk that is really full.
"""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handspan.store.sqlite.database import SqliteDatabase
from tests.gateway.graph.pages import ECHO, Graph, Page, result, said
from tests.gateway.graph.test_stream import run, socket, words
from tests.stores import database_of

pytestmark = pytest.mark.anyio

LARGE = "x" * 500_000
"""More than fits into what a database has left that may not grow."""


async def pragma(database: SqliteDatabase, setting: str) -> None:
    """Let the connection that writes have this."""
    async with asyncio.timeout(60):
        await database.write(lambda connection: connection.fetch_one(f"PRAGMA {setting}"))


@asynccontextmanager
async def full_disk(there: Graph) -> AsyncIterator[None]:
    """The database may not grow: SQLite itself says that it is full."""
    database = database_of(there.gateway.gateway.parts.store)
    await pragma(database, "max_page_count = 1")
    try:
        yield
    finally:
        await pragma(database, "max_page_count = 1000000")


@asynccontextmanager
async def held_database(there: Graph) -> AsyncIterator[None]:
    """Another process writes, and does not end."""
    database = database_of(there.gateway.gateway.parts.store)
    await pragma(database, "busy_timeout = 1")
    other = sqlite3.connect(database.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


async def test_a_disk_that_is_really_full_is_told_whichever_way_is_asked(tmp_path: Path) -> None:
    small = ["bwrap", "--dev-bind", "/", "/", "--size", str(2 * 1024 * 1024), "--tmpfs", str(tmp_path)]
    if (await ran(*small, "true")).returncode != 0:
        pytest.skip("bubblewrap can't make a small file system here")
    filled = await ran(*small, sys.executable, "-m", "tests.gateway.graph.filling", str(tmp_path))
    assert filled.returncode == 0, filled.stderr


async def ran(*command: str) -> "subprocess.CompletedProcess[str]":
    root = Path(__file__).parents[3]
    try:
        return await asyncio.to_thread(
            subprocess.run, command, cwd=root, timeout=40, check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127)


class TestInvoke:
    async def test_a_full_disk_is_503_and_says_what_to_do(self, there: Graph, page: Page) -> None:
        await page.say("hello", "t")
        async with full_disk(there):
            refused = await page.say(LARGE, "t")
            assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
            assert "the disk is full. Make room" in refused.error["message"]
        assert (await page.say("hello again", "t")).words == "hello again"

    async def test_a_database_that_another_holds_is_503(self, there: Graph, page: Page) -> None:
        await page.say("hello", "t")
        async with held_database(there):
            refused = await page.say("me too", "t")
            assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
            assert "another process holds it. Try again" in refused.error["message"]
        assert (await page.say("hello again", "t")).words == "hello again"

    async def test_a_database_that_may_not_be_written_is_503(self, there: Graph, page: Page) -> None:
        await page.say("hello", "t")
        await pragma(database_of(there.gateway.gateway.parts.store), "query_only = ON")
        refused = await page.say("me too", "t")
        assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
        assert "it is read-only. Let this user write" in refused.error["message"]
        assert (await page.say("hello again", "t")).words == "hello again"  # it was opened anew

    async def test_a_result_that_does_not_fit_is_503_and_may_be_sent_again(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        (call,) = (await page.say("call echo\nthen\nend", "t")).calls
        async with full_disk(there):
            refused = await page.answer(result(call["id"], {"x": LARGE}))
            assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
        state = (await page.ask("GET", "/v1/threads/t/state")).data["state"]["execution_meta"]
        assert [one["id"] for one in state["interrupt_data"]["open_calls"]] == [call["id"]]
        assert (await page.answer(result(call["id"], "small"))).words == "end"

    async def test_under_a_key_it_is_tried_again(self, there: Graph, page: Page) -> None:
        key = {"idempotency-key": "k"}
        async with full_disk(there):
            assert (await page.say(LARGE, "t", headers=key)).error["code"] == "STORAGE_ERROR"
        assert (await page.say(LARGE, "t", headers=key)).words == LARGE

    @pytest.mark.parametrize("within", [0.0, 0.001, 0.002, 0.003, 0.004])
    async def test_the_run_is_over_when_the_refusal_comes(
        self, there: Graph, page: Page, within: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its beginning may be stored already when its end does not fit."""
        monkeypatch.setattr("handspan.gateway.runs.runs._COMMIT_SECONDS", within)
        async with full_disk(there):
            assert (await page.say(LARGE, "t")).error["code"] == "STORAGE_ERROR"
        assert (await page.say("hello", "t")).words == "hello"

    async def test_a_fault_of_the_model_is_still_one_of_the_run(self, there: Graph, page: Page) -> None:
        failed = await page.say("fail", "t", config={"thread_id": "t", "agent": "nobody"})
        assert failed.error["code"] != "STORAGE_ERROR"


class TestStream:
    async def test_before_the_first_chunk_it_is_an_ordinary_503(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        one, two = (call["id"] for call in (await page.say("call echo\ncall echo\nthen\nend", "t")).calls)
        async with full_disk(there):
            refused = await page.stream([result(one, {"x": LARGE})])
            assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR")
        assert words((await page.stream([result(one), result(two)])).chunks, delta=False) == "end"

    async def test_after_it_it_is_the_last_chunk(self, there: Graph, page: Page) -> None:
        async with full_disk(there):
            *before, last = (await page.stream([said(LARGE)], response_granularity="full")).chunks
        assert before
        assert (last["event"], last["data"]["code"]) == ("error", "STORAGE_ERROR")
        assert "Make room" in last["data"]["reason"]
        assert last["thread_id"] == before[0]["thread_id"]
        assert all("meta" not in chunk["metadata"] for chunk in before)

    async def test_no_whole_answer_is_shown_that_is_not_kept(self, there: Graph, page: Page) -> None:
        async with full_disk(there):
            chunks = (await page.stream([said(LARGE)])).chunks
        assert words(chunks, delta=False) == ""

    async def test_under_a_key_it_is_tried_again(self, there: Graph, page: Page) -> None:
        body = {"messages": [said(LARGE)]}
        key = {"idempotency-key": "k"}
        async with full_disk(there):
            failed = await page.ask("POST", "/v1/graph/stream", body, headers=key)
            assert failed.chunks[-1]["data"]["code"] == "STORAGE_ERROR"
        good = await page.ask("POST", "/v1/graph/stream", body, headers=key)
        assert good.chunks[-1]["metadata"]["meta"]["status"] == "completed"
        assert words(good.chunks, delta=False) == LARGE
        assert (await page.ask("POST", "/v1/graph/stream", body, headers=key)).text == good.text


class TestSocket:
    async def test_it_is_told_and_the_socket_stays_open(self, there: Graph, page: Page) -> None:
        async with socket(page, max_size=None) as connection:
            async with full_disk(there):
                chunks = await run(connection, invoke_type="fresh", messages=[said(LARGE)])
                assert (chunks[-1]["event"], chunks[-1]["data"]["code"]) == ("error", "STORAGE_ERROR")
                assert "Make room" in chunks[-1]["data"]["reason"]
            assert words(await run(connection, invoke_type="fresh", messages=[said("hi")]), delta=False) == "hi"

    async def test_a_result_that_does_not_fit_is_told_and_may_be_sent_again(self, there: Graph, page: Page) -> None:
        async with socket(page, max_size=None) as connection:
            asking: dict[str, Any] = {"messages": [said("call echo\nthen\nend")], "tools": [ECHO]}
            first = await run(connection, invoke_type="fresh", **asking)
            call = first[-1]["metadata"]["meta"]["open_calls"][0]
            async with full_disk(there):
                large = result(call, {"x": LARGE})
                failed = await run(connection, invoke_type="resume", tool_result=[large])
                assert failed[-1]["data"]["code"] == "STORAGE_ERROR"
            last = await run(connection, invoke_type="resume", tool_result=[result(call, 1)])
            assert words(last, delta=False) == "end"


async def test_a_call_that_is_not_kept_is_asked_of_nobody(there: Graph, page: Page) -> None:
    script = "call echo " + json.dumps({"x": LARGE})
    await page.set_up(ECHO)
    async with full_disk(there):
        chunks = (await page.stream([said(script)], response_granularity="full")).chunks
    asked = [
        block
        for chunk in chunks
        if chunk["message"]
        for block in chunk["message"]["content"]
        if block["type"] == "remote_tool_call"
    ]
    assert asked == []
    assert chunks[-1]["data"]["code"] == "STORAGE_ERROR"
