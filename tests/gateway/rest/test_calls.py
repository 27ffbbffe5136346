"""The journal over REST."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from handspan.core.agents import Agent
from handspan.core.bus import QuestionEnded
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import ToolContext
from handspan.core.principals import OPERATOR, Principal
from handspan.core.results import Attachment, Failure, Pending, Success
from handspan.core.values import Arguments
from tests.gateway.rest.served import STRANGER, Rest, RestClient, TestTool, is_error, serving, session_of, settings
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


async def make_calls(rest: Rest, count: int, owner: str = OPERATOR.owner, session: str = "") -> None:
    """Calls, every second one of which fails."""
    caller = rest.app.caller(who=Principal(owner), session=session)
    for number in range(count):
        name = "read_file" if number % 2 else "get_current_time"
        arguments: Any = {"path": "none"} if number % 2 else {}
        await rest.app.engine.call(ToolCall(name, arguments, f"{owner}-{session}-{number}"), caller)


async def test_somebody_elses_call_is_one_that_never_was(client: RestClient, rest: Rest) -> None:
    await make_calls(rest, 1, STRANGER)
    theirs = await client.get(f"/api/calls/{STRANGER}--0")
    never = await client.get("/api/calls/neverwas--0")
    assert is_error(theirs, 404, "not_found") and is_error(never, 404, "not_found")
    assert theirs.text.replace(STRANGER, "") == never.text.replace("neverwas", "")
    assert (await client.get("/api/calls")).json() == {"calls": [], "next": None}


async def test_pages_hold_every_call_once_the_last_one_first(client: RestClient, rest: Rest) -> None:
    await make_calls(rest, 7)
    seen: list[str] = []
    after = ""
    for _ in range(4):
        page = (await client.get(f"/api/calls?limit=2&after={after}")).json()
        seen += [call["id"] for call in page["calls"]]
        after = page["next"]
    assert seen == [f"operator--{number}" for number in reversed(range(7))] and after is None


async def test_filters_by_tool_status_and_session(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    await make_calls(rest, 4)
    await make_calls(rest, 2, session=session)

    async def found(query: str) -> list[str]:
        return [call["id"] for call in (await client.get(f"/api/calls?{query}")).json()["calls"]]

    assert await found("tool=read_file") == [f"operator-{session}-1", "operator--3", "operator--1"]
    assert await found("status=success") == [f"operator-{session}-0", "operator--2", "operator--0"]
    assert await found(f"status=error&session={session}") == [f"operator-{session}-1"]
    assert await found("status=open") == []
    assert await found(f"status=file_not_found&session={session}") == [f"operator-{session}-1"]
    assert await found("status=timeout") == []
    assert await found("tool=nothing") == []
    assert len(await found("origin=builtin")) == 6
    assert await found("origin=device(phone)") == await found("origin=builtin(other)") == []


async def test_timings_count_every_call_of_the_caller(client: RestClient, rest: Rest) -> None:
    await make_calls(rest, 5)
    await make_calls(rest, 3, STRANGER)
    tools = (await client.get("/api/calls/timings")).json()["tools"]
    assert [(one["tool"], one["calls"], one["failed"]) for one in tools] == [
        ("get_current_time", 3, 0),
        ("read_file", 2, 2),
    ]
    assert all(0 <= one["p50"] <= one["p95"] for one in tools)
    (only,) = (await client.get("/api/calls/timings?tool=read_file")).json()["tools"]
    assert only == tools[1]
    assert (await client.get("/api/calls/timings?session=never")).json() == {"tools": []}


async def test_filters_by_time(client: RestClient, rest: Rest) -> None:
    await make_calls(rest, 3)
    store = rest.app.store
    assert store is not None
    first, second = [(await store.ledger.get(f"operator--{number}", owner=OPERATOR.owner)).at for number in (0, 1)]
    between = datetime.fromtimestamp((first + second) / 2, UTC)

    async def found(query: str) -> list[str]:
        return [call["id"] for call in (await client.get(f"/api/calls?{query}")).json()["calls"]]

    at = quote(between.isoformat())
    assert await found(f"since={at}") == ["operator--2", "operator--1"]
    assert await found(f"until={at}") == ["operator--0"]
    assert await found(f"since={at}&until={at}") == []
    elsewhere = quote(between.astimezone(timezone(timedelta(hours=5))).isoformat())
    assert await found(f"until={elsewhere}") == ["operator--0"]


async def test_a_status_that_is_none_is_refused_with_those_that_there_are(client: RestClient) -> None:
    answer = await client.get("/api/calls?status=succes")
    assert is_error(answer, 422, "invalid_request")
    assert "status: 'succes' is none of open, success, error, " in answer.json()["error"]
    assert answer.json()["error"].endswith("Did you mean 'success'?")


@pytest.mark.parametrize("time", ["", "yesterday", "0.5", "2026-01-31", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z"])
async def test_a_time_that_is_none_or_has_no_zone_is_refused(client: RestClient, time: str) -> None:
    answer = await client.get(f"/api/calls?since={time}")
    assert is_error(answer, 422, "invalid_request") and "as 2026-01-31T12:00:00Z" in answer.json()["error"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_a_filtered_list_has_pages_too(client: RestClient, rest: Rest, limit: int) -> None:
    await make_calls(rest, 8)
    seen: list[str] = []
    after: str | None = ""
    rounds = 0
    while after is not None and rounds < 10:
        page = (await client.get(f"/api/calls?tool=read_file&limit={limit}&after={after}")).json()
        assert len(page["calls"]) == limit or page["next"] is None
        seen += [call["id"] for call in page["calls"]]
        after = page["next"]
        rounds += 1
    assert seen == ["operator--7", "operator--5", "operator--3", "operator--1"] and after is None


async def test_a_call_is_shown_whole_with_its_notes(client: RestClient, rest: Rest) -> None:
    await make_calls(rest, 2)
    assert rest.app.store is not None
    assert await rest.app.store.ledger.note("operator--1", "It came late.")
    call = (await client.get("/api/calls/operator--1")).json()
    assert call["status"] == "file_not_found" and call["state"] == "done" and call["origin"] == "builtin"
    assert call["arguments"] == {"path": "none"} and call["result"]["code"] == "file_not_found"
    assert call["true_result"] is None and call["expires_at"] is None
    assert [note["text"] for note in call["notes"]] == ["It came late."]


async def test_the_files_of_a_result_are_read_by_their_number(client: RestClient, rest: Rest) -> None:
    async def shoot(arguments: Arguments, ctx: ToolContext) -> Success:
        return Success("a photo", (Attachment("image", "image/png", b"pixels", name="photo.png"),))

    rest.app.registry.register(TestTool("shoot", shoot))
    await rest.app.engine.call(ToolCall("shoot", {}, "photo"), rest.app.caller(who=OPERATOR))
    answer = await client.get("/api/calls/photo/files/0")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"pixels", "image/png")
    for missing in ("photo/files/1", "photo/files/-1", "photo/files/x", "never/files/0"):
        assert is_error(await client.get(f"/api/calls/{missing}"), 404, "not_found")


async def test_a_call_whose_outcome_comes_from_elsewhere_is_waited_for(client: RestClient, rest: Rest) -> None:
    async def later(arguments: Arguments, ctx: ToolContext) -> Pending:
        return Pending(expires_in=60.0)

    rest.app.registry.register(TestTool("later", later))
    answer = await client.post("/api/tools/later/call", {})
    assert answer.status_code == 202
    place = answer.headers["location"]
    assert (await client.get(f"{place}?wait=0.01")).json()["state"] == "pending"
    waiting = asyncio.create_task(client.get(f"{place}?wait=20"))
    async with asyncio.timeout(60):
        while not waiting.done():
            await rest.app.engine.settle(answer.json()["call_id"], Success("there"))
            await asyncio.sleep(0.01)
    shown = (await waiting).json()
    assert shown["result"] == {"status": "success", "result": "there"} and shown["expires_at"] is not None


@pytest.mark.parametrize(("raw", "shown"), [(b'{"pa\xff', '{"pa\ufffd'), ("[1]", "[1]")])
async def test_arguments_that_were_none_are_shown_as_they_came(
    client: RestClient, rest: Rest, raw: Any, shown: str
) -> None:
    await rest.app.engine.call(ToolCall("read_file", raw, "broken"), rest.app.caller())
    call = (await client.get("/api/calls/broken")).json()
    assert (call["arguments"], call["status"]) == (shown, "invalid_arguments")


@pytest.mark.parametrize("query", ["wait=-1", "wait=26", "wait=x"])
async def test_waiting_has_bounds(client: RestClient, rest: Rest, query: str) -> None:
    await make_calls(rest, 1)
    assert is_error(await client.get(f"/api/calls/operator--0?{query}"), 422, "invalid_request")


async def test_a_call_that_waits_for_a_person_since_an_earlier_process_is_cancelled_with_its_question(
    tmp_path: Path,
) -> None:
    body = {"args": {"path": "a.txt", "content": "hello"}, "agent": "Asking"}
    async with serving(Rest(settings(tmp_path))) as before:
        store = before.rest.app.store
        assert store is not None
        await before.rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
        waiting = (await before.post("/api/tools/write_file/call", body)).json()
        await store.close()  # as if it were killed: nothing more is written
    async with serving(Rest(settings(tmp_path))) as after:
        ended: list[QuestionEnded] = []
        after.rest.bus.subscribe(QuestionEnded, ended.append)
        (question,) = (await after.get("/api/questions")).json()["questions"]
        cancelled = (await after.post(f"/api/calls/{waiting['call_id']}/cancel")).json()
        assert cancelled["status"] == cancelled["result"]["code"] == "cancelled"
        assert (await after.get("/api/questions")).json()["questions"] == []
        assert [(one.id, one.decision) for one in ended] == [(question["id"], None)]
        place = quote(question["id"], safe="")
        answered = await after.post(f"/api/questions/{place}/answer", {"decision": "allow"})
        assert is_error(answered, 404, "not_found")
        assert (await after.post(f"/api/calls/{waiting['call_id']}/cancel")).json() == cancelled
        assert not (after.rest.settings.workspace / "a.txt").exists()


async def test_a_call_of_another_door_that_waits_for_a_person_is_cancelled_at_once(
    client: RestClient, rest: Rest
) -> None:
    caller = rest.app.caller(Agent("Asking", mode="ask_always"), OPERATOR)
    arguments = {"path": "a.txt", "content": "hello"}
    call = asyncio.create_task(rest.app.engine.call(ToolCall("write_file", arguments, new_call_id()), caller))

    async def is_asked() -> bool:
        return bool((await client.get("/api/questions")).json()["questions"])

    await until(is_asked)
    (question,) = (await client.get("/api/questions")).json()["questions"]
    cancelled = (await client.post(f"/api/calls/{question['call_id']}/cancel")).json()
    assert cancelled["status"] == "cancelled"
    assert isinstance(await soon(call), Failure)
    assert (await client.get(f"/api/calls/{question['call_id']}")).json()["status"] == "cancelled"
    assert not (rest.settings.workspace / "a.txt").exists()
