"""Questions over REST: only their owner sees and answers them, and the first answer counts."""

import pytest

from handspan.core.agents import Agent
from handspan.core.principals import OPERATOR
from tests.gateway.rest.house import House, Knocking, is_error, session_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def question(knocking: Knocking, house: House) -> str:
    """The id of an open question, as it stands in a path."""
    await house.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
    answer = await knocking.post("/api/tools/get_current_time/call", {"agent": "Asking"})
    asked: str = answer.json()["questions"][0]
    return asked.replace("/", "%2F").replace(" ", "%20")


async def test_somebody_elses_question_is_not_seen_and_not_answered(knocking: Knocking, question: str) -> None:
    assert (await knocking.stranger("GET", "/api/questions")).json() == {"questions": []}
    theirs = await knocking.stranger("POST", f"/api/questions/{question}/answer", {"decision": "allow"})
    never = await knocking.stranger("POST", "/api/questions/never/answer", {"decision": "allow"})
    assert is_error(theirs, 404, "not_found") and is_error(never, 404, "not_found")
    assert len((await knocking.get("/api/questions")).json()["questions"]) == 1


@pytest.mark.parametrize("decision", ["expired", "yes", "", None, True])
async def test_what_is_no_answer_is_refused(knocking: Knocking, question: str, decision: object) -> None:
    answer = await knocking.post(f"/api/questions/{question}/answer", {"decision": decision})
    assert is_error(answer, 422, "invalid_request")
    assert len((await knocking.get("/api/questions")).json()["questions"]) == 1


async def test_the_first_answer_wins(knocking: Knocking, question: str) -> None:
    first = await knocking.post(f"/api/questions/{question}/answer", {"decision": "deny"})
    second = await knocking.post(f"/api/questions/{question}/answer", {"decision": "allow"})
    assert first.status_code == 200 and is_error(second, 404, "not_found")
    call = (await knocking.get("/api/calls")).json()["calls"][0]
    shown = (await knocking.get(f"/api/calls/{call['id']}?wait=10")).json()
    assert shown["status"] == "approval_denied"


async def test_questions_of_one_session(knocking: Knocking, house: House, question: str) -> None:
    session = await session_of(house)
    await knocking.post("/api/tools/get_current_time/call", {"agent": "Asking", "session": session})
    assert len((await knocking.get("/api/questions")).json()["questions"]) == 2
    of_session = (await knocking.get(f"/api/questions?session={session}")).json()["questions"]
    assert [one["session"] for one in of_session] == [session]
    assert 0 < of_session[0]["expires_in"] <= 300 and of_session[0]["kind"] == "approval"
