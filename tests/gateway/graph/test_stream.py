"""What happens, chunk by chunk: over HTTP and over WebSocket (graph.md 7)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from handspan.core.principals import OPERATOR
from handspan.gateway.graph.chunks import RunLocation, error_chunk
from tests.gateway.graph.pages import ECHO, Graph, Page, graph_gateway, result, said, tool

pytestmark = pytest.mark.anyio


def words(chunks: list[dict[str, Any]], *, delta: bool) -> str:
    shown = [chunk["message"] for chunk in chunks if chunk["event"] == "message"]
    return "".join(
        block["text"]
        for message in shown
        if message["role"] == "assistant" and message["delta"] is delta
        for block in message["content"]
        if block["type"] == "text"
    )


async def revoke(there: Graph) -> None:
    """The token of the one page that is not the operator's."""
    tokens = await there.gateway.gateway.parts.store.tokens.all(owner=OPERATOR.owner)
    (token,) = [one for one in tokens if one.label == "a page"]
    assert await there.gateway.gateway.parts.auth.revoke(token.hash, OPERATOR.owner)


async def until_said(page: Page, thread: str, text: str) -> None:
    """Wait until the model has said this in the thread."""
    async with asyncio.timeout(60):
        while True:
            found = (await page.ask("GET", f"/v1/threads/{thread}/messages")).data["messages"]
            blocks = [block for message in found if message["role"] == "assistant" for block in message["content"]]
            if any(block.get("text") == text for block in blocks):
                return
            await asyncio.sleep(0.01)


class TestTheStream:
    async def test_the_loop_goes_over_streams(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.stream([said('call echo {"x": 1}\nthen\nIt said {results}')])
        (call,) = first.calls
        last = await page.stream([result(call["id"], "hello")])
        assert "hello" in words(last.chunks, delta=False)
        assert last.calls == []
        assert {chunk["thread_id"] for chunk in first.chunks + last.chunks} == {first.chunks[0]["thread_id"]}
        assert {chunk["run_id"] for chunk in first.chunks + last.chunks} == {first.chunks[0]["run_id"]}

    async def test_a_run_may_go_on_another_way_than_it_began(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.stream([said("call echo\nthen\n{results}")])).calls[0]["id"]
        assert "ok" in (await page.answer(result(call, "ok"))).words

    async def test_words_come_as_they_are_said_and_then_whole_under_the_same_id(self, page: Page) -> None:
        chunks = (await page.stream([said("Hello there, all of you")])).chunks
        assert words(chunks, delta=True) == words(chunks, delta=False) == "Hello there, all of you"
        ids = {chunk["message"]["message_id"] for chunk in chunks if chunk["message"]["role"] == "assistant"}
        assert len(ids) == 1

    async def test_the_message_is_echoed_first_and_the_results_of_a_run_that_goes_on(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.stream([said("call echo\nthen\nend")])
        assert first.chunks[0]["message"]["role"] == "user"
        assert first.chunks[0]["metadata"]["status"] == "invoking_graph"
        last = await page.stream([result(first.calls[0]["id"], "x")])
        assert last.chunks[0]["message"]["content"][0]["type"] == "tool_result"
        assert last.chunks[0]["metadata"]["status"] == "invoking_graph"

    async def test_a_call_is_asked_in_one_chunk_that_is_no_delta(self, page: Page) -> None:
        await page.set_up(ECHO)
        answer = await page.stream([said("I look.\ncall echo")])
        asking = [
            chunk
            for chunk in answer.chunks
            if any(block["type"] == "remote_tool_call" for block in chunk["message"]["content"])
        ]
        assert len(asking) == 1
        assert asking[0]["message"]["delta"] is False
        assert asking[0]["data"] == {
            "status": "tool_result",
            "tool_name": "echo",
            "args": {},
            "tool_call_id": answer.calls[0]["id"],
            "node": "TOOL",
        }
        assert answer.chunks[-1] is not None
        assert asking[0] == answer.chunks[-1]

    async def test_the_last_chunk_tells_how_the_run_stands(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.stream([said("call echo\nthen\nend")])
        meta = first.chunks[-1]["metadata"]["meta"]
        assert (meta["status"], meta["open_calls"]) == ("interrupted", [first.calls[0]["id"]])
        last = await page.stream([result(first.calls[0]["id"])])
        assert last.chunks[-1]["metadata"]["meta"]["status"] == "completed"

    async def test_low_lets_messages_through_and_full_also_what_happens_between(self, page: Page) -> None:
        low = (await page.stream([said("call get_current_time\nthen\nend")])).chunks
        full = (await page.stream([said("call get_current_time\nthen\nend")], response_granularity="full")).chunks
        assert {chunk["event"] for chunk in low} == {"message"}
        assert {chunk["event"] for chunk in full} == {"message", "updates", "state"}

    async def test_the_pause_is_told_in_the_words_that_clients_look_for(self, page: Page) -> None:
        await page.set_up(ECHO)
        chunks = (await page.stream([said("call echo")], response_granularity="full")).chunks
        assert chunks[-1]["data"]["reason"] == "Remote tool call - graph interrupted"

    async def test_it_is_ndjson_that_nobody_may_keep_or_press(self, page: Page) -> None:
        answer = await page.stream([said("hello")])
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        assert "no-transform" in answer.headers["cache-control"]
        assert "content-encoding" not in answer.headers

    async def test_what_fails_before_the_first_chunk_is_an_ordinary_error(self, page: Page) -> None:
        refused = await page.stream([result("nobody", 1)])
        assert (refused.status, refused.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")
        assert (await page.stream([])).status == 422

    @pytest.mark.parametrize("granularity", ["low", "partial", "full"])
    async def test_after_a_partial_answer_its_one_chunk_tells_which_calls_are_open(
        self, page: Page, granularity: str
    ) -> None:
        await page.set_up(ECHO)
        first = await page.stream([said("call echo\ncall echo\ncall echo\nthen\nend")])
        one, two, three = (call["id"] for call in first.calls)
        *states, chunk = (await page.stream([result(two)], response_granularity=granularity)).chunks
        assert [state["event"] for state in states] == ([] if granularity == "low" else ["state"])
        assert (chunk["event"], chunk["message"]) == ("updates", None)
        assert chunk["data"] == {
            "status": "graph_invoked",
            "node": "TOOL",
            "reason": "Remote tool call - graph interrupted",
        }
        begun = first.chunks[0]
        assert (chunk["thread_id"], chunk["run_id"]) == (begun["thread_id"], begun["run_id"])
        over_invoke = (await page.answer(result(one))).meta
        assert chunk["metadata"]["meta"] == {**over_invoke, "open_calls": [one, three]}
        assert words((await page.stream([result(three)])).chunks, delta=False) == "end"

    async def test_a_run_that_is_stopped_tells_that_it_is(self, there: Graph, page: Page) -> None:
        waiting = there.let_it_wait()
        asked = {"messages": [said("call wait")], "config": {"thread_id": "t"}}
        streaming = asyncio.create_task(page.ask("POST", "/v1/graph/stream", asked))
        async with asyncio.timeout(60):
            await waiting.is_at_work.wait()
            await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
            last = (await streaming).chunks[-1]
        assert last["metadata"]["meta"]["status"] == "stopped"
        assert last["data"] == {"status": "graph_invoked", "node": "MAIN", "reason": "stopped"}

    async def test_an_error_that_nobody_foresaw_has_its_code_and_not_its_story(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        chunk = json.loads(error_chunk(RuntimeError("with a secret"), RunLocation("t", "r")))
        assert (chunk["event"], chunk["data"]["code"], chunk["thread_id"]) == ("error", "GRAPH_ERROR", "t")
        assert "secret" not in chunk["data"]["reason"]
        assert "secret" in caplog.text

    async def test_an_error_after_the_first_chunk_is_a_chunk(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, agents={"General": {"model": "nowhere:none"}}) as there:
            refused = await there.page.stream([said("hello")])
            assert refused.status == 500
            assert refused.error["code"] == "GRAPH_ERROR"

    async def test_a_revoked_token_ends_it_and_the_run_goes_on(self, there: Graph, page: Page) -> None:
        held, other = there.let_it_hold(), await there.another()
        body = {"messages": [said("call hold\nthen\nend")], "config": {"thread_id": "t"}}
        async with asyncio.timeout(60), other.http.stream("POST", "/v1/graph/stream", json=body) as response:
            lines = response.aiter_lines()
            first = json.loads(await anext(lines))
            await held.is_at_work.wait()
            await revoke(there)
            last = [json.loads(line) async for line in lines][-1]
        assert (last["event"], last["data"]["code"]) == ("error", "AUTHENTICATION_ERROR")
        assert "revoked" in last["data"]["reason"]
        assert (last["thread_id"], last["run_id"]) == (first["thread_id"], first["run_id"]) == ("t", first["run_id"])
        held.may_end.set()
        await until_said(page, "t", "end")

    async def test_a_revoked_token_ends_it_before_its_first_chunk_too(self, there: Graph) -> None:
        held, other = there.let_it_hold(), await there.another()
        running = asyncio.create_task(other.say("call hold\nthen\nend", "t"))
        async with asyncio.timeout(60):
            await held.is_at_work.wait()
            queued = asyncio.create_task(other.stream([said("me too")], config={"thread_id": "t"}))
            sessions = there.gateway.gateway.parts.sessions
            while not (turn := sessions.state("t", OPERATOR.owner)) or not turn.waiting:
                await asyncio.sleep(0)
            await revoke(there)
            refused = await queued
            assert (refused.status, refused.error["code"]) == (401, "AUTHENTICATION_ERROR")
            held.may_end.set()
            await running
            await until_said(there.page, "t", "me too")

    async def test_a_token_that_is_revoked_while_the_body_comes_begins_no_run(self, there: Graph) -> None:
        other = await there.another()
        body = json.dumps({"messages": [said("hello")], "config": {"thread_id": "t"}}).encode()
        host = other.url.removeprefix("http://")
        head = (
            f"POST /v1/graph/stream HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {other.token}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\nexpect: 100-continue\r\n\r\n"
        )
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
            writer.write(head.encode())
            await reader.readuntil(b"100 Continue\r\n\r\n")  # it was let in, and waits for the body
            await revoke(there)
            writer.write(body)
            answer = await reader.read()
            writer.close()
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "AUTHENTICATION_ERROR"
        assert (await there.page.ask("GET", "/v1/threads/t")).status == 404

    async def test_streams_of_other_tokens_go_on(self, there: Graph, page: Page) -> None:
        held = there.let_it_hold()
        await there.another()
        streaming = asyncio.create_task(page.stream([said("call hold\nthen\nend")]))
        async with asyncio.timeout(60):
            await held.is_at_work.wait()
            await revoke(there)
            held.may_end.set()
            assert words((await streaming).chunks, delta=False) == "end"

    async def test_a_client_that_goes_away_does_not_stop_the_run(self, there: Graph, page: Page) -> None:
        body = {"messages": [said("call echo\nthen\nend")], "tools": [ECHO], "config": {"thread_id": "t"}}
        async with page.http.stream("POST", "/v1/graph/stream", json=body) as response:
            async for _ in response.aiter_raw():
                break
        async with asyncio.timeout(60):
            store = there.gateway.gateway.parts.store
            while not (calls := await store.ledger.open_calls(owner=OPERATOR.owner, session="t")):
                await asyncio.sleep(0.01)
        assert (await page.answer(result(calls[0].id))).words == "end"


@asynccontextmanager
async def socket(page: Page, **more: Any) -> AsyncIterator[ClientConnection]:
    """A connection as a browser makes it."""
    url = page.url.replace("http", "ws", 1) + "/v1/graph/ws"
    offered = [Subprotocol("agentflow-bearer"), Subprotocol(page.token)]
    async with connect(url, subprotocols=offered, **more) as connection:
        yield connection


async def run(connection: ClientConnection, **request: Any) -> list[dict[str, Any]]:
    """The chunks of one run, without `done`."""
    await connection.send(json.dumps(request))
    return await until_done(connection)


async def until_done(connection: ClientConnection) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while True:
            chunk = json.loads(await connection.recv())
            if chunk.get("data") and chunk["data"].get("status") == "done":
                return chunks
            chunks.append(chunk)


def calls_in(chunks: list[dict[str, Any]]) -> list[str]:
    return [
        block["id"]
        for chunk in chunks
        if chunk["message"]
        for block in chunk["message"]["content"]
        if block["type"] == "remote_tool_call"
    ]


class TestTheSocket:
    async def test_the_sub_protocol_is_the_one_that_browsers_ask_for(self, page: Page) -> None:
        async with socket(page) as connection:
            assert connection.subprotocol == "agentflow-bearer"

    async def test_a_run_goes_over_it(self, page: Page) -> None:
        async with socket(page) as connection:
            first = await run(
                connection, invoke_type="fresh", messages=[said("call echo\nthen\n{results}")], tools=[ECHO]
            )
            (call,) = calls_in(first)
            thread = first[0]["thread_id"]
            last = await run(
                connection, invoke_type="resume", tool_result=[result(call, "hello")], config={"thread_id": thread}
            )
            assert "hello" in words(last, delta=False)

    async def test_every_run_ends_with_done_one_that_fails_too(self, page: Page) -> None:
        async with socket(page) as connection:
            (chunk,) = await run(connection, invoke_type="resume", tool_result=[result("nobody", 1)])
            assert (chunk["event"], chunk["data"]["code"]) == ("error", "GRAPH_UNKNOWN_CALL")
            assert words(await run(connection, invoke_type="fresh", messages=[said("hi")]), delta=False) == "hi"

    @pytest.mark.parametrize("request_", ["{", "[]", "{}", '{"invoke_type":"what"}', '{"invoke_type":"fresh"}'])
    async def test_what_cant_be_read_is_told_and_the_socket_stays_open(self, page: Page, request_: str) -> None:
        async with socket(page) as connection:
            await connection.send(request_)
            (chunk,) = await until_done(connection)
            assert chunk["event"] == "error"
            assert chunk["data"]["reason"].startswith("Invalid request")
            assert words(await run(connection, invoke_type="fresh", messages=[said("hi")]), delta=False) == "hi"

    async def test_one_run_at_a_time_and_stop_ends_it(self, there: Graph, page: Page) -> None:
        waiting = there.let_it_wait()
        async with socket(page) as connection:
            await connection.send(json.dumps({"invoke_type": "fresh", "messages": [said("call wait")]}))
            async with asyncio.timeout(60):
                await waiting.is_at_work.wait()
            await connection.send(json.dumps({"invoke_type": "fresh", "messages": [said("me too")]}))
            await connection.send(json.dumps({"invoke_type": "stop"}))
            chunks = await until_done(connection)
            assert "GRAPH_BUSY" in [chunk["data"]["code"] for chunk in chunks if chunk["event"] == "error"]

    async def test_a_result_may_be_as_large_as_over_http(self, page: Page) -> None:
        async with socket(page, max_size=None) as connection:
            saying = [said("call echo\nthen\nend")]
            (call,) = calls_in(await run(connection, invoke_type="fresh", messages=saying, tools=[ECHO]))
            large = result(call, "x" * 5_000_000)
            assert words(await run(connection, invoke_type="resume", tool_result=[large]), delta=False) == "end"

    async def test_a_message_that_is_too_large_closes_it(self, page: Page) -> None:
        async with socket(page, max_size=None) as connection:
            with pytest.raises(ConnectionClosed) as closed:
                await connection.send("x" * 11_000_000)
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    async def test_who_has_no_token_is_not_let_in(self, page: Page) -> None:
        url = page.url.replace("http", "ws", 1) + "/v1/graph/ws"
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == 401
        body = json.loads(refused.value.response.body or b"")
        assert body["error"]["code"] == "AUTHENTICATION_ERROR"

    async def test_a_device_token_is_not_let_in(self, there: Graph) -> None:
        device = await there.another(scopes=("device",))
        with pytest.raises(InvalidStatus) as refused:
            async with socket(device):
                pass
        assert refused.value.response.status_code == 403

    async def test_a_revoked_token_closes_it(self, there: Graph) -> None:
        page = await there.another()
        async with socket(page) as connection:
            await run(connection, invoke_type="fresh", messages=[said("hi")])
            await revoke(there)
            with pytest.raises(ConnectionClosed) as closed:
                async with asyncio.timeout(60):
                    await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008

    async def test_a_run_goes_on_when_its_socket_is_gone(self, there: Graph, page: Page) -> None:
        async with socket(page) as connection:
            request = {"invoke_type": "fresh", "messages": [said("call look\nthen\nend")], "tools": [tool("look")]}
            await connection.send(json.dumps({**request, "config": {"thread_id": "t"}}))
        async with asyncio.timeout(60):
            store = there.gateway.gateway.parts.store
            while not (calls := await store.ledger.open_calls(owner=OPERATOR.owner, session="t")):
                await asyncio.sleep(0.01)
        assert (await page.answer(result(calls[0].id))).words == "end"

    async def test_another_path_has_no_socket(self, page: Page) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(page.url.replace("http", "ws", 1) + "/v1/graph/live")
        assert refused.value.response.status_code == 404


class TestEveryError:
    """The trap of origins 4.6: an error without both objects makes the client itself fail."""

    @pytest.mark.parametrize(
        ("method", "path", "status", "code"),
        [
            ("GET", "/v1/nothing", 404, "RESOURCE_NOT_FOUND"),
            ("POST", "/v1/", 404, "RESOURCE_NOT_FOUND"),
            ("GET", "/v1/graph/invoke", 405, "METHOD_NOT_ALLOWED"),
            ("DELETE", "/v1/graph/setup", 405, "METHOD_NOT_ALLOWED"),
        ],
    )
    async def test_paths_and_methods(self, page: Page, method: str, path: str, status: int, code: str) -> None:
        refused = await page.ask(method, path)
        assert (refused.status, refused.error["code"]) == (status, code)

    async def test_no_token_a_wrong_one_and_one_without_the_scope(self, there: Graph, page: Page) -> None:
        for token, status, code in (
            ("", 401, "AUTHENTICATION_ERROR"),
            ("Bearer wrong", 401, "AUTHENTICATION_ERROR"),
            (f"Bearer {(await there.another(scopes=('device',))).token}", 403, "PERMISSION_ERROR"),
        ):
            refused = await page.ask("POST", "/v1/graph/setup", {"tools": []}, headers={"authorization": token})
            assert (refused.status, refused.error["code"]) == (status, code)

    async def test_a_body_that_is_too_large(self, page: Page) -> None:
        refused = await page.ask("POST", "/v1/graph/invoke", b" " * (10 * 1024 * 1024 + 1))
        assert (refused.status, refused.error["code"]) == (413, "REQUEST_TOO_LARGE")

    async def test_a_host_and_an_origin_that_are_not_known(self, page: Page) -> None:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            refused = await page.ask("POST", "/v1/graph/setup", {"tools": []}, headers=headers)
            assert (refused.status, refused.error["code"]) == (403, "PERMISSION_ERROR")

    async def test_ping_answers_everybody_in_the_envelope(self, page: Page) -> None:
        async with httpx2.AsyncClient(base_url=page.url, timeout=60) as anybody:
            answer = (await anybody.get("/ping")).json()
        assert answer["data"] == "pong"
        assert set(answer["metadata"]) == {"request_id", "timestamp", "message"}

    async def test_a_page_of_a_known_origin_may_ask_and_any_other_may_not(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, gateway={"origins": ["https://app.example"]}) as there:
            asking = {
                "origin": "https://app.example",
                "access-control-request-method": "DELETE",
                "access-control-request-headers": "authorization,content-type,idempotency-key",
            }
            async with httpx2.AsyncClient(base_url=there.page.url, timeout=60) as browser:
                good = await browser.request("OPTIONS", "/v1/threads/t", headers=asking)
                bad = await browser.request(
                    "OPTIONS", "/v1/threads/t", headers={**asking, "origin": "https://evil.example"}
                )
            assert good.status_code == 204
            assert good.headers["access-control-allow-origin"] == "https://app.example"
            assert "DELETE" in good.headers["access-control-allow-methods"]
            for name in ("authorization", "content-type", "idempotency-key"):
                assert name in good.headers["access-control-allow-headers"]
            assert bad.status_code == 403
            asked = await there.page.ask(
                "POST", "/v1/graph/setup", {"tools": []}, headers={"origin": "https://app.example"}
            )
            assert asked.headers["access-control-allow-origin"] == "https://app.example"
            assert "x-request-id" in asked.headers["access-control-expose-headers"]


async def test_a_stream_that_was_lost_is_told_again_under_its_key(page: Page) -> None:
    await page.set_up(ECHO)
    call = (await page.say("call echo\nthen\nend")).calls[0]["id"]
    key = {"idempotency-key": "k"}
    body = {"messages": [result(call, 1)]}
    first = await page.ask("POST", "/v1/graph/stream", body, headers=key)
    again = await page.ask("POST", "/v1/graph/stream", body, headers=key)
    assert words(first.chunks, delta=False) == "end"
    assert again.text == first.text
    without = await page.ask("POST", "/v1/graph/stream", body)
    assert without.error["code"] == "GRAPH_ANSWERED_CALL"


async def test_an_error_under_a_key_is_told_again_too(page: Page) -> None:
    for _ in range(2):
        refused = await page.ask(
            "POST", "/v1/graph/stream", {"messages": [result("nobody")]}, headers={"idempotency-key": "k"}
        )
        assert (refused.status, refused.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")
