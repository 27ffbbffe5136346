"""Questions over REST: only their owner sees and answers them, and the first answer counts."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from handspan.core.agents import Agent
from handspan.core.principals import OPERATOR
from handspan.core.questions import Answer, Question, QuestionAction
from tests.gateway.rest.served import Rest, RestClient, is_error, session_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def question(client: RestClient, rest: Rest) -> str:
    """The id of an open question, as it stands in a path."""
    await rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    answer = await client.post("/api/tools/get_current_time/call", {"agent": "Asking"})
    asked: str = answer.json()["questions"][0]
    return asked.replace("/", "%2F").replace(" ", "%20")


async def test_somebody_elses_question_is_not_seen_and_not_answered(client: RestClient, question: str) -> None:
    assert (await client.stranger("GET", "/api/questions")).json() == {"questions": []}
    theirs = await client.stranger("POST", f"/api/questions/{question}/answer", {"decision": "allow"})
    never = await client.stranger("POST", "/api/questions/never/answer", {"decision": "allow"})
    assert is_error(theirs, 404, "not_found") and is_error(never, 404, "not_found")
    assert len((await client.get("/api/questions")).json()["questions"]) == 1


@pytest.mark.parametrize("decision", ["expired", "yes", "", None, True])
async def test_what_is_no_answer_is_refused(client: RestClient, question: str, decision: object) -> None:
    answer = await client.post(f"/api/questions/{question}/answer", {"decision": decision})
    assert is_error(answer, 422, "invalid_request")
    assert len((await client.get("/api/questions")).json()["questions"]) == 1


async def test_the_first_answer_wins(client: RestClient, question: str) -> None:
    first = await client.post(f"/api/questions/{question}/answer", {"decision": "deny"})
    second = await client.post(f"/api/questions/{question}/answer", {"decision": "allow"})
    assert first.status_code == 200 and is_error(second, 404, "not_found")
    call = (await client.get("/api/calls")).json()["calls"][0]
    shown = (await client.get(f"/api/calls/{call['id']}?wait=10")).json()
    assert shown["status"] == "approval_denied"


async def test_questions_of_one_session(client: RestClient, rest: Rest, question: str) -> None:
    session = await session_of(rest)
    await client.post("/api/tools/get_current_time/call", {"agent": "Asking", "session": session})
    assert len((await client.get("/api/questions")).json()["questions"]) == 2
    of_session = (await client.get(f"/api/questions?session={session}")).json()["questions"]
    assert [one["session"] for one in of_session] == [session]
    assert 0 < of_session[0]["expires_in"] <= 300 and of_session[0]["kind"] == "approval"


async def test_an_edit_shows_what_it_would_change_and_the_schema_of_its_arguments(
    client: RestClient, rest: Rest, question: str
) -> None:
    workspace = rest.app.settings.workspace
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "list.txt").write_text("milk\nbread\n")
    args = {"path": "list.txt", "content": "milk\nwine\u202e\n"}
    await client.post("/api/tools/write_file/call", {"agent": "Asking", "args": args})
    asked = (await client.get("/api/questions")).json()["questions"]
    assert asked[0]["change"] == [] and asked[0]["parameters"]["type"] == "object"
    assert [line for line in asked[1]["change"] if line[:1] in "+- "][2:] == [" milk", "-bread", "+wine\\u202e"]
    assert "content" in asked[1]["parameters"]["properties"]


COLOUR: dict[str, Any] = {"type": "string", "enum": ["red", "blue"]}


def question_of(kind: Any, **more: Any) -> Question:
    return Question("q1", kind, "", "paint", {}, "Which?", OPERATOR.owner, "", "f", 60.0, **more)


async def shown(client: RestClient, count: int = 1) -> list[dict[str, Any]]:
    """The open questions, once there are so many."""
    async with asyncio.timeout(60):
        while len(found := (await client.get("/api/questions")).json()["questions"]) < count:
            await asyncio.sleep(0.001)
    return list(found)


async def test_a_question_for_a_value_shows_its_schema_and_takes_only_what_fits(client: RestClient, rest: Rest) -> None:
    asking = asyncio.create_task(rest.questions.ask(question_of("input", schema=COLOUR)))
    (found,) = await shown(client)
    assert (found["kind"], found["call_id"], found["schema"], found["action"]) == ("input", "", COLOUR, None)
    for wrong in ({"value": "green"}, {}, {"value": None}):
        refused = await client.post("/api/questions/q1/answer", {"decision": "allow", **wrong})
        assert is_error(refused, 422, "invalid_answer") and "must be" in refused.json()["error"]
    assert len(await shown(client)) == 1
    assert (await client.post("/api/questions/q1/answer", {"decision": "allow", "value": "red"})).status_code == 200
    assert await asyncio.wait_for(asking, 60) == Answer("allow", value="red")
    late = await client.post("/api/questions/q1/answer", {"decision": "allow", "value": "blue"})
    assert is_error(late, 404, "not_found")


@pytest.mark.parametrize(
    ("kind", "action", "seen"),
    [
        ("login", QuestionAction("https://shop.example", hint="Now."), {"url": "https://shop.example", "hint": "Now."}),
        ("trust", QuestionAction(old={"a": 1}, new={"a": 2}), {"old": {"a": 1}, "new": {"a": 2}}),
    ],
)
async def test_a_login_and_a_changed_definition_show_what_to_do(
    client: RestClient, rest: Rest, kind: str, action: QuestionAction, seen: dict[str, Any]
) -> None:
    asking = asyncio.create_task(rest.questions.ask(question_of(kind, action=action)))
    (found,) = await shown(client)
    assert (found["kind"], found["action"], found["schema"]) == (kind, seen, None)
    refused = await client.post("/api/questions/q1/answer", {"decision": "allow", "value": 1})
    assert is_error(refused, 422, "invalid_answer")
    assert (await client.post("/api/questions/q1/answer", {"decision": "deny"})).status_code == 200
    assert await asyncio.wait_for(asking, 60) == Answer("deny")


async def test_a_login_is_started_where_a_device_can_and_else_the_refusal_says_why(
    client: RestClient, rest: Rest
) -> None:
    asked = question_of("login", action=QuestionAction(intent="open", hint="Now."))
    asking = asyncio.create_task(rest.questions.ask(structs.replace(asked, call_id="c1")))
    await shown(client)
    started = await client.post("/api/questions/q1/start", {})
    assert (started.status_code, started.json()) == (200, {"id": "q1", "started": True})
    assert (await client.post("/api/questions/q1/answer", {"decision": "allow"})).status_code == 200
    await asyncio.wait_for(asking, 60)
    assert is_error(await client.post("/api/questions/q1/start", {}), 404, "not_found")
    trust = question_of("trust", action=QuestionAction(new={"a": 2}))
    asking = asyncio.create_task(rest.questions.ask(structs.replace(trust, id="q2")))
    await shown(client)
    assert is_error(await client.post("/api/questions/q2/start", {}), 422, "invalid_answer")
    asking.cancel()
