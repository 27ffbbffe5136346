"""A call that is watched while it runs: progress as it comes, then the one result (SPEC X5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from handspan.core.agents import Agent
from handspan.core.context import ToolContext
from handspan.core.principals import BUILTIN, OPERATOR
from handspan.core.results import Failure, Pending
from handspan.core.tool import Annotations, ToolSpec
from handspan.core.values import Arguments, Json
from handspan.gateway.http.calls import RunningCall
from handspan.gateway.http.streams import preferred_stream
from handspan.gateway.rest.call_events import CallStream, render_result
from handspan.wire.rest.calls import CallBegan, CallEnded, CallReported
from tests.gateway.rest.served import Rest, RestClient, TestTool, is_error, serving, settings

pytestmark = pytest.mark.anyio

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
KEY = {"idempotency-key": "k1"}


class Reporting:
    """A tool that reports what a test tells it to, until it may end."""

    def __init__(self, rest: Rest) -> None:
        self.to_report: asyncio.Queue[Json] = asyncio.Queue()
        self.was_stopped = False
        rest.app.registry.register(TestTool("reporting", self._run, Annotations()), BUILTIN)

    def end(self) -> None:
        self.to_report.put_nowait(None)

    async def _run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        reported = 0
        try:
            while (value := await self.to_report.get()) is not None:
                ctx.progress(value)
                reported += 1
        except asyncio.CancelledError:
            self.was_stopped = True
            raise
        return {"reported": reported}


class Watching:
    """The events of one call, as a client reads them."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> Any:
        """The next event."""
        async with asyncio.timeout(60):
            if self.answer.headers["content-type"] == LINES:
                return msgspec.json.decode(await anext(self._lines))
            name, data, end = [await anext(self._lines) for _ in range(3)]
        told = msgspec.json.decode(data.removeprefix("data: "))
        assert (name, end) == (f"event: {told['event']}", "")
        return told

    async def rest(self) -> list[Any]:
        """All that comes until the end."""
        heard: list[Any] = []
        try:
            while True:
                heard.append(await self.next())
        except StopAsyncIteration:
            return heard


@asynccontextmanager
async def watching(
    client: RestClient, tool: str = "reporting", kind: str = EVENTS, *, token: str = "", **more: Any
) -> AsyncIterator[Watching]:
    headers = {
        "authorization": f"Bearer {token or client.rest.owner_token}",
        "accept": kind,
        **more.pop("headers", {}),
    }
    place = f"{client.url}/api/tools/{tool}/call"
    async with client.http.stream("POST", place, json=more.pop("body", {}), headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].partition(";")[0] == kind
        assert answer.headers["cache-control"] == "no-store"
        yield Watching(answer)


async def test_what_is_refused_before_the_call_begins_is_no_stream(client: RestClient) -> None:
    for body, status, code in (({"args": 1}, 422, "invalid_request"), ({"agent": "Nobody"}, 404, "not_found")):
        answer = await client.post("/api/tools/read_file/call", body, headers={"accept": EVENTS})
        assert is_error(answer, status, code)


@pytest.mark.parametrize("kind", [EVENTS, LINES])
async def test_progress_comes_while_the_tool_runs_and_then_the_result(
    client: RestClient, rest: Rest, kind: str
) -> None:
    tool = Reporting(rest)
    async with watching(client, kind=kind) as call:
        began = await call.next()
        assert began["event"] == "began"
        values: list[Json] = ["half\nway", {"percent": 50}, [1]]
        for value in values:
            tool.to_report.put_nowait(value)
            assert await call.next() == {"event": "progress", "value": value}
        tool.end()
        ended = await call.next()
        assert await call.rest() == []
    record = (await client.get(call.answer.headers["location"])).json()
    assert call.answer.headers["location"].endswith(began["call_id"])
    assert ended == {"event": "result", "result": {"status": "success", "result": {"reported": 3}}}
    assert record["result"] == ended["result"]


async def test_the_record_of_a_call_that_has_just_begun_is_there_for_its_owner_alone(
    client: RestClient, rest: Rest
) -> None:
    tool = Reporting(rest)
    async with watching(client) as call:
        place = f"/api/calls/{(await call.next())['call_id']}"
        assert (await client.get(place)).json()["status"] == "open"
        assert is_error(await client.stranger("GET", place), 404, "not_found")
        tool.end()


async def test_an_error_of_the_tool_is_a_result_too(client: RestClient) -> None:
    async with watching(client, "read_file", LINES, body={"args": {"path": "nothing.txt"}}) as call:
        heard = await call.rest()
    assert [event["event"] for event in heard] == ["began", "result"]
    assert heard[-1]["result"]["code"] == "file_not_found"


class CountingAloud:
    """A tool that runs on a thread and reports from there."""

    spec = ToolSpec("counting_aloud", "Counts to three.", {"type": "object"})

    def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        for number in (1, 2, 3):
            ctx.progress(number)
        return "done"


async def test_progress_from_a_thread_comes_in_its_order_before_the_result(client: RestClient, rest: Rest) -> None:
    rest.app.registry.register(CountingAloud(), BUILTIN)
    async with watching(client, "counting_aloud", LINES) as call:
        began, *progress, ended = await call.rest()
    assert began["event"] == "began" and ended["result"]["result"] == "done"
    assert progress == [{"event": "progress", "value": number} for number in (1, 2, 3)]


@pytest.mark.parametrize("more", [KEY, {"prefer": "wait=5, Respond-Async"}], ids=["key", "prefer"])
async def test_a_call_goes_on_without_its_client_where_the_request_says_so(
    client: RestClient, rest: Rest, more: dict[str, str]
) -> None:
    tool = Reporting(rest)
    async with watching(client, headers=more) as call:
        began = await call.next()
    tool.to_report.put_nowait("unheard")
    tool.end()
    record = (await client.get(f"/api/calls/{began['call_id']}?wait=10")).json()
    assert record["result"] == {"status": "success", "result": {"reported": 1}} and not tool.was_stopped


async def test_a_call_is_cancelled_when_its_client_leaves(client: RestClient, rest: Rest) -> None:
    tool = Reporting(rest)
    async with watching(client) as call:
        began = await call.next()
        tool.to_report.put_nowait("at work")
        await call.next()
    record = (await client.get(f"/api/calls/{began['call_id']}?wait=25")).json()
    assert (record["status"], tool.was_stopped) == ("cancelled", True)


async def test_who_asks_again_under_the_same_key_hears_the_rest(client: RestClient, rest: Rest) -> None:
    tool = Reporting(rest)
    async with watching(client, headers=KEY) as first:
        began = await first.next()
        tool.to_report.put_nowait(1)
        await first.next()
        async with watching(client, kind=LINES, headers=KEY) as second:
            assert await second.next() == began
            tool.to_report.put_nowait(2)
            tool.end()
            assert await first.rest() == await second.rest()
    async with watching(client, headers=KEY) as third:  # it is over
        heard = await third.rest()
    assert [event["event"] for event in heard] == ["began", "result"] and heard[0] == began


async def test_a_question_is_told_and_its_answer_waited_for(client: RestClient, rest: Rest) -> None:
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    body = {"args": {"path": "a.txt", "content": "hello"}, "agent": "Asking"}
    async with watching(client, "write_file", body=body, headers=KEY) as call:
        assert (await call.next())["event"] == "began"
        asked = await call.next()
        async with watching(client, "write_file", body=body, headers=KEY) as late:
            await late.next()
            assert await late.next() == asked  # who comes later hears of it too
        place = asked["question"].replace("/", "%2F").replace(" ", "%20")
        assert (await client.post(f"/api/questions/{place}/answer", {"decision": "allow"})).status_code == 200
        assert asked["event"] == "question" and (await call.next())["result"]["status"] == "success"


async def test_a_plain_request_under_the_key_of_a_call_that_waits_is_told_the_question(
    client: RestClient, rest: Rest
) -> None:
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    body = {"args": {"path": "a.txt", "content": "hello"}, "agent": "Asking"}
    first = await client.post("/api/tools/write_file/call", body, headers=KEY)
    second = await client.post("/api/tools/write_file/call", body, headers=KEY)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json() and len(first.json()["questions"]) == 1


async def test_an_outcome_that_comes_from_elsewhere_ends_the_stream_as_pending(client: RestClient, rest: Rest) -> None:
    async def later(arguments: Arguments, ctx: ToolContext) -> Pending:
        return Pending(expires_in=60.0)

    rest.app.registry.register(TestTool("later", later))
    for _ in range(2):
        async with watching(client, "later", headers=KEY) as call:
            began, *others = await call.rest()
        assert others == [{"event": "pending", "call_id": began["call_id"], "questions": []}]


async def test_a_call_that_is_stopped_with_the_gateway_says_so(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        tool = Reporting(client.rest)
        async with watching(client) as call:
            tool.to_report.put_nowait("at work")
            await call.next()
            assert (await call.next())["event"] == "progress"
            await client.rest.state.drain(0)
            ended = await call.next()
    assert ended["result"]["code"] == "cancelled" and tool.was_stopped


async def test_without_a_store_the_result_is_told_all_the_same(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        tool = Reporting(client.rest)
        async with watching(client) as call:
            began = await call.next()
            await client.rest.parts.store.close()
            tool.end()
            heard = await call.rest()
    assert heard[-1]["event"] in ("result", "pending"), (began, heard)


async def test_a_revoked_token_hears_nothing_more(client: RestClient, rest: Rest) -> None:
    tool = Reporting(rest)
    token = await rest.parts.auth.issue(OPERATOR.owner, ("chat",))
    async with watching(client, token=token) as call, watching(client, headers=KEY) as other:
        await call.next()
        await other.next()
        kept = [one for one in await rest.parts.store.tokens.all(owner=OPERATOR.owner) if one.revoked is None]
        assert await rest.parts.auth.revoke(kept[-1].hash, OPERATOR.owner)
        assert await call.rest() == []
        tool.end()
        tool.end()
        assert (await other.next())["event"] == "result"


def stream_of(kind: Any = LINES) -> CallStream:
    async def last() -> CallEnded:
        return CallEnded(render_result(Failure("timeout", "Too late.")))

    return CallStream(kind, "token", last)


async def test_a_client_that_reads_too_slowly_misses_progress_and_is_told_how_much() -> None:
    stream = stream_of()
    for number in range(40):
        stream.put(CallReported("x" * 100_000 + str(number)))
    heard = [await stream.next() for _ in range(10)]
    stream.put(CallReported("there is room again"))
    heard += [await stream.next(), await stream.next()]
    assert heard[-2:] == [b'{"event":"missed","count":30}\n', b'{"event":"progress","value":"there is room again"}\n']
    for _ in range(12):
        stream.put(CallReported("x" * 100_000))
    stream.on_done()
    rest = [await stream.next() for _ in range(11)]
    assert rest[-1] is not None and rest[-1].startswith(b'{"event":"missed","count":2}\n{"event":"result"')
    assert await stream.next() is None


async def test_a_wait_that_is_cancelled_loses_no_event() -> None:
    stream = stream_of()
    for event in (CallBegan("c"), None):
        waiting = asyncio.create_task(stream.next())
        await asyncio.sleep(0)
        waiting.cancel()
        if event is None:
            stream.on_done()
        else:
            stream.put(event)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        piece = await stream.next()
        assert piece is not None and piece.startswith(b'{"event":"began"' if event else b'{"event":"result"')
    assert await stream.next() is None


async def test_a_stream_that_was_ended_takes_no_events() -> None:
    stream = stream_of()
    stream.end()
    stream.put(CallBegan("c"))
    assert await stream.next() is None


async def test_a_stream_that_ended_is_not_kept_by_its_call() -> None:
    call = RunningCall("c", "me")
    may_end = asyncio.Event()

    async def work() -> Pending:
        await may_end.wait()
        return Pending()

    call.task = asyncio.create_task(work())
    stream = stream_of()
    call.watch(stream)
    stream.end()
    call.report(1)
    assert not call.listeners
    may_end.set()
    await call.task


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", None),
        ("*/*", None),
        ("application/json", None),
        ("text/html", None),
        ("text/event-stream;q=0", None),
        ("text/event-stream;q=x", None),
        ("application/json, text/event-stream", None),
        ("text/event-stream;q=0.5, */*", None),
        ("text/event-stream", EVENTS),
        ("Text/Event-Stream; q=0.9, */*;q=0.1", EVENTS),
        ("application/json;q=0.5, application/x-ndjson", LINES),
        ("text/html, application/x-ndjson, application/json", LINES),
    ],
)
def test_a_stream_is_for_who_prefers_it(accept: str, kind: str | None) -> None:
    assert preferred_stream(accept) == kind
