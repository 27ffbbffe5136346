"""One tool called over REST: the engine's answer, once for each key."""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from handspan.core.agents import Agent
from handspan.core.principals import OPERATOR, Origin, ToolScope
from handspan.core.tool import READ_ONLY
from tests.gateway.rest.served import (
    STRANGER,
    Counting,
    Rest,
    RestClient,
    is_error,
    register_for,
    serving,
    session_of,
    settings,
)

pytestmark = pytest.mark.anyio

KEY = {"idempotency-key": "k1"}


async def test_an_error_of_the_tool_is_an_answer_with_200(client: RestClient) -> None:
    answer = await client.post("/api/tools/read_file/call", {"args": {"path": "nothing.txt"}})
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "error",
        "error_type": "execution_error",
        "code": "file_not_found",
        "message": "File not found: nothing.txt",
    }


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("no_such_tool", {}, "tool_not_found"),
        ("read_file", {"args": {}}, "invalid_arguments"),
        ("read_file", {"args": {"path": 1}}, "invalid_arguments"),
        ("read_file", {"args": {"path": "../../etc/passwd"}}, "invalid_path"),
    ],
)
async def test_what_the_engine_refuses_is_told_in_its_words(
    client: RestClient, name: str, body: Any, code: str
) -> None:
    answer = await client.post(f"/api/tools/{name}/call", body)
    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (200, "error", code)


async def test_a_result_comes_with_the_place_of_its_record(client: RestClient) -> None:
    answer = await client.post("/api/tools/get_current_time/call", {"args": {"timezone": "UTC"}})
    assert answer.json()["status"] == "success"
    record = (await client.get(answer.headers["location"])).json()
    assert record["tool"] == "get_current_time" and record["arguments"] == {"timezone": "UTC"}
    assert record["result"] == answer.json()


@pytest.mark.parametrize("body", [{"args": []}, {"args": None}, {"arguments": {}}, {"args": {}, "session": "a b"}])
async def test_a_request_that_is_not_right_calls_nothing(client: RestClient, body: Any) -> None:
    assert is_error(await client.post("/api/tools/get_current_time/call", body), 422, "invalid_request")
    assert (await client.get("/api/calls")).json()["calls"] == []


async def test_an_agent_or_session_that_is_not_the_callers_calls_nothing(client: RestClient, rest: Rest) -> None:
    theirs = await session_of(rest, STRANGER)
    for body in ({"agent": "Nobody"}, {"session": theirs}, {"session": "never"}):
        assert is_error(await client.post("/api/tools/get_current_time/call", body), 404, "not_found")
    assert (await client.get("/api/calls")).json()["calls"] == []


async def test_the_agents_rules_hold(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "Reader", "tools": ["read_file"]})
    answer = await client.post("/api/tools/write_file/call", {"args": {"path": "a", "content": "b"}, "agent": "Reader"})
    assert answer.json()["code"] == "tool_not_available"


async def test_a_tool_of_a_session_is_called_in_it(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    register_for(rest, "of_session", Origin("remote", session, "c"), ToolScope("session", session))
    assert (await client.post("/api/tools/of_session/call", {})).json()["code"] == "tool_not_found"
    answer = await client.post("/api/tools/of_session/call", {"session": session})
    assert answer.json() == {"status": "success", "result": "done"}
    record = (await client.get(answer.headers["location"])).json()
    assert record["session"] == session and record["origin"] == f"remote({session})"


async def test_the_same_key_and_request_run_once(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    first = await client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    second = await client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    assert first.json() == second.json() == {"status": "success", "result": {"n": 1, "runs": 1}}
    assert first.headers["location"] == second.headers["location"] and tool.runs == 1
    call_id = first.headers["location"].rpartition("/")[2]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}", call_id)


@pytest.mark.parametrize("annotations", [None, READ_ONLY])
async def test_the_same_key_at_once_runs_once(client: RestClient, rest: Rest, annotations: Any) -> None:
    tool = Counting(rest, annotations=annotations)
    tool.may_end.clear()
    waiting = [
        asyncio.create_task(client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)) for _ in range(8)
    ]
    async with asyncio.timeout(60):
        await tool.began.wait()
        other = await client.post("/api/tools/counting/call", {"args": {"n": 2}}, headers=KEY)
        tool.may_end.set()
        answers = await asyncio.gather(*waiting)
    assert is_error(other, 409, "idempotency_conflict")
    assert [answer.json() for answer in answers] == [{"status": "success", "result": {"n": 1, "runs": 1}}] * 8
    assert tool.runs == 1


async def test_a_key_is_bound_to_its_request(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    session = await session_of(rest)
    await client.post("/api/agents", {"name": "Other"})
    await client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    for name, body in (
        ("counting", {"args": {"n": 2}}),
        ("counting", {}),
        ("get_current_time", {"args": {"n": 1}}),
        ("counting", {"args": {"n": 1}, "agent": "Other"}),
        ("counting", {"args": {"n": 1}, "session": session}),
    ):
        answer = await client.post(f"/api/tools/{name}/call", body, headers=KEY)
        assert is_error(answer, 409, "idempotency_conflict"), body
    assert tool.runs == 1


async def test_a_key_is_its_owners(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    await client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    theirs = await client.ask(
        "POST", "/api/tools/counting/call", {"args": {"n": 2}}, headers=KEY, token=rest.stranger_token
    )
    assert theirs.json()["result"] == {"n": 2, "runs": 2} and tool.runs == 2


async def test_a_refused_call_keeps_its_key(client: RestClient) -> None:
    first = await client.post("/api/tools/nothing/call", {}, headers=KEY)
    second = await client.post("/api/tools/nothing/call", {}, headers=KEY)
    assert first.json()["code"] == second.json()["code"] == "tool_not_found"
    assert len((await client.get("/api/calls")).json()["calls"]) == 1


async def test_a_key_holds_after_a_restart(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as before:
        Counting(before.rest)
        first = await before.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    async with serving(Rest(settings(tmp_path))) as after:
        tool = Counting(after.rest)
        again = await after.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
        other = await after.post("/api/tools/counting/call", {"args": {"n": 2}}, headers=KEY)
    assert again.json() == first.json() and tool.runs == 0
    assert is_error(other, 409, "idempotency_conflict")
    assert ((tmp_path / "st" / "idempotency.key").stat().st_mode & 0o777) == 0o600


async def test_after_a_restart_a_request_is_compared_with_what_was_asked_not_with_what_ran(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as before:
        Counting(before.rest)
        first = await before.post("/api/tools/counting/call", {"args": {"n": "1"}}, headers=KEY)
        assert first.json()["result"]["n"] == 1, "the text was read as a number (A6)"
    async with serving(Rest(settings(tmp_path))) as after:
        tool = Counting(after.rest)
        again = await after.post("/api/tools/counting/call", {"args": {"n": "1"}}, headers=KEY)
        other = await after.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    assert again.json() == first.json() and tool.runs == 0
    assert is_error(other, 409, "idempotency_conflict")


async def test_after_a_restart_a_request_whose_arguments_a_person_edited_gets_its_result(tmp_path: Path) -> None:
    body = {"args": {"n": 1}, "agent": "Asking"}
    async with serving(Rest(settings(tmp_path))) as before:
        Counting(before.rest)
        await before.rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
        waiting = await before.post("/api/tools/counting/call", body, headers=KEY)
        place = quote(waiting.json()["questions"][0], safe="")
        await before.post(f"/api/questions/{place}/answer", {"decision": "allow", "arguments": {"n": 2}})
        ran = (await before.get(f"{waiting.headers['location']}?wait=10")).json()
        assert ran["arguments"] == {"n": 2}
    async with serving(Rest(settings(tmp_path))) as after:
        again = await after.post("/api/tools/counting/call", body, headers=KEY)
    assert again.json() == ran["result"]


async def test_a_call_that_takes_long_is_pending_and_found_later(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    tool.may_end.clear()
    rest.state.wait_seconds = 0.05
    answer = await client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    assert answer.status_code == 202 and answer.json()["status"] == "pending"
    place = f"/api/calls/{answer.json()['call_id']}"
    assert answer.headers["location"] == place
    assert (await client.get(place)).json()["status"] == "open"
    again = await client.post("/api/tools/counting/call", {"args": {"n": 1}}, headers=KEY)
    assert (again.status_code, again.json()["call_id"]) == (202, answer.json()["call_id"])
    assert (await client.get(f"{place}?wait=0.05")).json()["status"] == "open"
    waiting = asyncio.create_task(client.get(f"{place}?wait=20"))
    tool.may_end.set()
    async with asyncio.timeout(60):
        assert (await waiting).json()["result"] == {"status": "success", "result": {"n": 1, "runs": 1}}


async def test_a_call_that_a_person_has_to_approve_is_pending_and_runs_when_approved(
    client: RestClient, rest: Rest
) -> None:
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    body = {"args": {"path": "a.txt", "content": "hello"}, "agent": "Asking"}
    answer = await client.post("/api/tools/write_file/call", body)
    assert answer.status_code == 202 and len(answer.json()["questions"]) == 1
    question = (await client.get("/api/questions")).json()["questions"][0]
    assert question["id"] == answer.json()["questions"][0] and question["call_id"] == answer.json()["call_id"]
    assert not (rest.settings.workspace / "a.txt").exists()
    place = question["id"].replace("/", "%2F").replace(" ", "%20")
    edited = {**body["args"], "content": "edited"}  # type: ignore[dict-item] # an object
    told = await client.post(f"/api/questions/{place}/answer", {"decision": "allow", "arguments": edited})
    assert told.json() == {"id": question["id"], "accepted": True}
    record = (await client.get(f"{answer.headers['location']}?wait=10")).json()
    assert record["status"] == "success" and record["arguments"] == edited
    assert (rest.settings.workspace / "a.txt").read_text(encoding="utf-8") == "edited"


async def test_a_question_that_a_rule_answers_is_not_waited_for(client: RestClient, rest: Rest) -> None:
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    body = {"args": {"timezone": "UTC"}, "agent": "Asking"}
    await client.post("/api/tools/get_current_time/call", body)
    question = (await client.get("/api/questions")).json()["questions"][0]["id"]
    place = question.replace("/", "%2F").replace(" ", "%20")
    await client.post(f"/api/questions/{place}/answer", {"decision": "allow", "always": True})
    rest.parts.app.engine.asker._remembered.clear()  # as after a restart: only the store knows the rule
    answer = await client.post("/api/tools/get_current_time/call", body)
    assert (answer.status_code, answer.json()["status"]) == (200, "success")


async def test_a_rule_that_refuses_says_so_and_why_counts_it(client: RestClient, rest: Rest) -> None:
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    why = "/api/tools/get_current_time/why?agent=Asking"
    before = (await client.get(why)).json()
    assert before["usable"] and "A person is asked first: The agent 'Asking' asks" in before["reasons"][-1]["text"]
    body = {"args": {}, "agent": "Asking"}
    await client.post("/api/tools/get_current_time/call", body)
    question = (await client.get("/api/questions")).json()["questions"][0]
    assert (question["agent"], question["arguments"]) == ("Asking", {})
    await client.post(f"/api/questions/{quote(question['id'], safe='')}/answer", {"decision": "deny_forever"})
    for _ in range(2):
        refused = (await client.post("/api/tools/get_current_time/call", body)).json()
        assert refused["code"] == "approval_denied"
        assert "is refused by a rule of the user" in refused["message"]
        rest.parts.app.engine.asker._remembered.clear()  # as after a restart: only the store knows the rule
    after = (await client.get(why)).json()
    assert not after["usable"]
    assert after["reasons"][-1]["text"].startswith('Your rule "never" refuses it: The agent')
    await client.ask("DELETE", "/api/rules/get_current_time")
    assert (await client.get(why)).json()["usable"]


async def test_a_call_that_waits_says_for_whom_and_its_record_has_the_time_apart(
    client: RestClient, rest: Rest
) -> None:
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    answer = await client.post("/api/tools/get_current_time/call", {"agent": "Asking"})
    assert answer.status_code == 202
    [waiting] = answer.json()["waiting_for"]
    assert waiting.startswith("Waiting for your answer: may 'get_current_time' run?")
    question = quote(answer.json()["questions"][0], safe="")
    denied = {"decision": "deny", "reason": "Not now\u202e"}
    assert (await client.post(f"/api/questions/{question}/answer", denied)).status_code == 200
    record = (await client.get(f"{answer.headers['location']}?wait=10")).json()
    assert record["result"]["message"].endswith("so it did not run: Not now.")
    assert record["waited"] > 0


async def test_calls_may_finish_before_the_gateway_stops(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    tool.may_end.clear()
    await rest.state.running_calls.wait(0.0)
    waiting = asyncio.create_task(client.post("/api/tools/counting/call", {}))
    async with asyncio.timeout(60):
        await tool.began.wait()
        await rest.state.running_calls.wait(0.01)
        assert not waiting.done()
        tool.may_end.set()
        await rest.state.running_calls.wait(5.0)
        assert (await waiting).json()["status"] == "success"


async def test_calls_at_work_get_their_result_when_the_gateway_stops(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        tool = Counting(client.rest)
        tool.may_end.clear()
        waiting = asyncio.create_task(client.post("/api/tools/counting/call", {}))
        async with asyncio.timeout(60):
            await tool.began.wait()
            await client.rest.state.drain(0)
            answer = await waiting
        assert answer.status_code in (200, 503)
        calls = (await client.get("/api/calls")).json()["calls"]
    assert [call["status"] for call in calls] == ["cancelled"]
