"""Sessions over REST, in the words that ClawSeed's clients read."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.tool import ToolSpec
from handspan.models.choice import Choice
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelError, ModelEvent, Projection, Replied, TextDelta
from handspan.models.scripted import call
from tests.gateway.rest.served import STRANGER, Counting, Rest, RestClient, is_error, session_of

pytestmark = pytest.mark.anyio

TALK = (
    UserMessage((Text("What time is it?"),)),
    AssistantMessage((CallPart("c1", "get_current_time", "{}"),), "calls", "m"),
    ResultsMessage((CallResult("c1", "get_current_time", '{"status":"success","result":1}'),)),
    AssistantMessage((Text("One."),), "end", "m"),
)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("GET", "/messages", None),
        ("GET", "/state", None),
        ("PUT", "", {"name": "mine"}),
        ("DELETE", "", None),
        ("POST", "/abort", None),
        ("POST", "/undo", None),
        ("POST", "/retry", None),
    ],
)
async def test_somebody_elses_session_is_one_that_never_was(
    client: RestClient, rest: Rest, method: str, path: str, body: Any
) -> None:
    theirs = await session_of(rest, STRANGER, TALK)
    answer = await client.ask(method, f"/api/sessions/{theirs}{path}", body)
    never = await client.ask(method, f"/api/sessions/{'0' * 24}{path}", body)
    assert is_error(answer, 404, "not_found") and is_error(never, 404, "not_found")
    assert answer.text.replace(theirs, "") == never.text.replace("0" * 24, "")
    assert (await client.stranger("GET", f"/api/sessions/{theirs}")).status_code == 200


async def test_a_session_is_listed_for_its_owner_alone(client: RestClient, rest: Rest) -> None:
    theirs, mine = await session_of(rest, STRANGER), await session_of(rest)
    listed = [one["session_id"] for one in (await client.get("/api/sessions")).json()["sessions"]]
    assert listed == [mine] and theirs not in listed


async def test_pages_hold_every_session_once(client: RestClient, rest: Rest) -> None:
    made = {await session_of(rest) for _ in range(7)}
    seen: list[str] = []
    after = ""
    for _ in range(4):
        page = (await client.get(f"/api/sessions?limit=2&after={after}")).json()
        seen += [one["session_id"] for one in page["sessions"]]
        after = page["next"]
        if after is None:
            break
    assert len(seen) == 7 and set(seen) == made
    assert after is None


async def test_a_session_has_the_fields_that_old_clients_read(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    shown = (await client.get("/api/sessions")).json()["sessions"][0]
    assert shown["session_id"] == session and shown["message_count"] == 4 and shown["persona"] == "General"
    assert datetime.fromisoformat(shown["created_at"]) <= datetime.fromisoformat(shown["last_activity"])
    assert "name" not in shown


async def test_messages_are_what_was_said(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    answer = (await client.get(f"/api/sessions/{session}/messages")).json()
    assert [(one["role"], one["content"]) for one in answer["messages"]] == [
        ("user", "What time is it?"),
        ("assistant", "One."),
    ]
    assert answer["session_id"] == session and answer["session_persistence"] is True


async def test_the_last_message_and_its_answer_can_be_removed(client: RestClient, rest: Rest) -> None:
    more = (UserMessage((Text("And now?"),)), AssistantMessage((Text("Two."),), "end", "m"))
    session = await session_of(rest, said=(*TALK, *more))
    for removed, left in ((2, 4), (4, 0)):
        undone = await client.post(f"/api/sessions/{session}/undo")
        assert (undone.status_code, undone.json()) == (200, {"session_id": session, "removed": removed})
        assert (await client.get(f"/api/sessions/{session}")).json()["message_count"] == left
    assert is_error(await client.post(f"/api/sessions/{session}/undo"), 409, "no_user_message")


async def test_full_messages_show_calls_and_results(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    answer = (await client.get(f"/api/sessions/{session}/messages?full=true&after=1")).json()["messages"]
    assert [one["seq"] for one in answer] == [2, 3, 4]
    assert answer[0]["calls"] == [{"id": "c1", "name": "get_current_time", "arguments": "{}"}]
    assert (answer[1]["role"], answer[1]["call_id"], answer[1]["name"]) == ("tool", "c1", "get_current_time")


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "  \n"}, {"name": 5}, {"name": None}])
async def test_a_session_needs_a_name_to_be_renamed(client: RestClient, rest: Rest, body: Any) -> None:
    session = await session_of(rest)
    answer = await client.ask("PUT", f"/api/sessions/{session}", body)
    assert is_error(answer, 400, "name_required")
    assert answer.json()["error"] == "name is required"


async def test_a_session_is_made_renamed_and_deleted(client: RestClient) -> None:
    made = await client.post("/api/sessions", {"name": "first"})
    session = made.json()["session_id"]
    assert made.status_code == 201 and made.json()["name"] == "first"
    renamed = await client.ask("PUT", f"/api/sessions/{session}", {"name": "second", "unknown": 1})
    assert renamed.json() == {"session_id": session, "name": "second"}
    assert (await client.get(f"/api/sessions/{session}")).json()["name"] == "second"
    gone = await client.ask("DELETE", f"/api/sessions/{session}")
    assert gone.json() == {"deleted": True, "session_id": session}
    assert is_error(await client.ask("DELETE", f"/api/sessions/{session}"), 404, "not_found")


async def test_a_session_with_an_agent_that_is_not_there_is_not_made(client: RestClient) -> None:
    assert is_error(await client.post("/api/sessions", {"persona": "Nobody"}), 404, "not_found")
    assert (await client.get("/api/sessions")).json()["sessions"] == []


async def test_a_running_session_is_shown_can_be_stopped_and_not_be_deleted(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    tool.may_end.clear()
    rest.script = [call("counting"), "Done."]
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await tool.began.wait()
    running = (await client.get("/api/sessions/running")).json()["sessions"]
    assert [one["session_id"] for one in running] == ["mine"]
    state = (await client.get("/api/sessions/mine/state")).json()
    assert state["state"] == "running" and state["turn_id"] == running[0]["turn_id"]
    assert datetime.fromisoformat(state["turn_started_at"]) <= datetime.now(UTC)
    assert is_error(await client.ask("DELETE", "/api/sessions/mine"), 409, "busy")
    assert (await client.stranger("GET", "/api/sessions/running")).json()["sessions"] == []
    assert is_error(await client.stranger("POST", "/api/sessions/mine/abort"), 404, "not_found")
    assert (await client.post("/api/sessions/mine/abort")).json() == {"status": "aborted"}
    async with asyncio.timeout(60):
        assert is_error(await turn, 409, "aborted")
    assert (await client.post("/api/sessions/mine/abort")).json() == {"status": "no_active_response"}
    assert (await client.get("/api/sessions/mine/state")).json() == {"session_id": "mine", "state": "idle"}
    assert (await client.get("/api/sessions/running")).json()["sessions"] == []


def hold_choice_of_model(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Let each turn wait before it has a model. Set: the first when a turn waits; the second by the test, to go on."""
    opening = rest.sessions._opening
    asked, may_answer, choose = asyncio.Event(), asyncio.Event(), opening._choose_model

    async def slowly(name: str) -> Choice:
        asked.set()
        await may_answer.wait()
        return await choose(name)

    monkeypatch.setattr(opening, "_choose_model", slowly)
    return asked, may_answer


async def test_a_session_whose_first_turn_begins_is_not_deleted(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = hold_choice_of_model(rest, monkeypatch)
    bound = await rest.sessions.bind("mine", OPERATOR)
    rest.sessions.announce(bound, OPERATOR.owner)
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await asked.wait()
        refused = await client.ask("DELETE", "/api/sessions/mine")
        may_answer.set()
        assert (await turn).status_code == 200
    assert is_error(refused, 409, "busy")
    assert (await client.ask("DELETE", "/api/sessions/mine")).json() == {"deleted": True, "session_id": "mine"}


async def test_a_session_that_is_not_kept_yet_disturbs_no_list(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = hold_choice_of_model(rest, monkeypatch)
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await asked.wait()
        answer = await client.get("/api/sessions/running")
        may_answer.set()
        assert (await turn).status_code == 200
    assert (answer.status_code, answer.json()) == (200, {"sessions": []})


async def test_a_look_at_the_skills_of_a_session_as_another_agent_changes_nothing(
    client: RestClient, rest: Rest
) -> None:
    await client.post("/api/agents", {"name": "Reader", "tools": ["read_file"]})
    session = await session_of(rest)
    before = (await client.get(f"/api/sessions/{session}")).json()
    seen = (await client.get(f"/api/sessions/{session}/skills?agent=Reader")).json()
    assert [tool["name"] for tool in seen["tools"]] == ["read_file"]
    assert (await client.get(f"/api/sessions/{session}")).json() == before
    own = (await client.get(f"/api/sessions/{session}/skills")).json()
    assert len(own["tools"]) > 1


class FailingModel:
    """A model that says some words and fails, until it is mended."""

    name = "moody"

    def __init__(self) -> None:
        self.is_mended = False

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        yield TextDelta("Once")
        if not self.is_mended:
            raise ModelError("cut", "The answer broke off. Try again.")
        yield Replied(AssistantMessage((Text("Once upon a time"),), "end", "moody"))


async def test_a_session_shows_how_its_turns_ended_and_retry_answers_again(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FailingModel()

    async def choose(_: str) -> Choice:
        return Choice(model, "for a test")

    monkeypatch.setattr(rest.sessions._opening, "_choose_model", choose)
    failed = await client.post("/webhook", {"message": "Tell me a story"}, headers={"x-session-id": "s"})
    assert failed.status_code == 500
    shown = (await client.get("/api/sessions/s")).json()
    ended = shown["ended"]
    assert shown["name"] == "Tell me a story"
    assert datetime.fromisoformat(ended["at"]).year >= 2026
    assert {**ended, "at": ""} == {
        "after": 2,
        "reason": "error",
        "at": "",
        "model": "moody",
        "text": "The answer broke off. Try again.",
        "fault": {"of": "model", "code": "cut"},
    }
    answer = (await client.get("/api/sessions/s/messages")).json()
    assert [one["content"] for one in answer["messages"]] == ["Tell me a story", "Once"] and answer["ends"] == [ended]
    assert (await client.get("/api/sessions/s/messages?after=2")).json()["ends"] == [ended]
    assert "ended" not in (await client.get("/api/sessions")).json()["sessions"][0]

    again = (await client.post("/api/sessions/s/retry")).json()
    assert (again["reason"], again["fault"]["code"]) == ("error", "cut")
    model.is_mended = True
    retried = await client.post("/api/sessions/s/retry")
    assert (retried.status_code, retried.json()) == (
        200,
        {"session_id": "s", "reason": "done", "text": "Once upon a time"},
    )
    answer = (await client.get("/api/sessions/s/messages")).json()
    assert [one["content"] for one in answer["messages"]] == ["Tell me a story", "Once upon a time"]
    assert answer["ends"] == [] and "ended" not in (await client.get("/api/sessions/s")).json()


async def test_a_session_without_a_message_has_nothing_to_retry(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    assert is_error(await client.post(f"/api/sessions/{session}/retry"), 409, "no_user_message")
    assert is_error(await client.post("/api/sessions/nowhere/retry"), 404, "not_found")
