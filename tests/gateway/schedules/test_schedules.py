"""Schedules in a whole gateway: due turns run, wait, fail, are capped and delivered (SPEC J1, J2)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import pytest

from handspan.core.bus import MessagePosted, QuestionOpened
from handspan.core.messages import Message, ResultsMessage, UserMessage
from handspan.core.schedules import MAX_FAILURES, At, Every, Maker, Schedule, SchedulePlan
from handspan.models.model import ModelError
from handspan.models.scripted import Call, Scripted, ScriptTurn, call
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

PLAIN: Final = {"tools": ["get_current_time", "schedule", "ask_user"], "instructions": "Be brief."}
BODY: Final = {"when": "every 30m", "text": "Look outside.", "name": "Weather"}


class Served:
    """A gateway with its REST client."""

    def __init__(self, gateway: RunningGateway, client: httpx2.AsyncClient, model: Scripted) -> None:
        self.gateway = gateway
        self.client = client
        self.model = model

    async def post(self, path: str, body: object = None, status: int = 200) -> Any:
        response = await soon(self.client.post(f"/api/schedules{path}", json=body))
        assert response.status_code == status, response.text
        return response.json()

    async def get(self, path: str = "") -> Any:
        response = await soon(self.client.get(f"/api/schedules{path}"))
        assert response.status_code == 200, response.text
        return response.json()

    async def make(self, **changes: object) -> str:
        made: dict[str, Any] = await self.post("", {**BODY, **changes}, 201)
        return str(made["id"])

    async def runs(self, schedule: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(f"/{schedule}"))["runs"]
        return found

    async def until_run(self, schedule: str, count: int = 1) -> list[dict[str, Any]]:
        """The runs, once so many of them are done."""

        async def are_done() -> bool:
            return len([run for run in await self.runs(schedule) if run["state"] == "done"]) >= count

        await until(are_done)
        return await self.runs(schedule)

    async def run_now(self, schedule: str) -> None:
        await self.post(f"/{schedule}/run")

    def posted(self) -> list[MessagePosted]:
        """The messages to pages, from now on."""
        found: list[MessagePosted] = []
        self.gateway.gateway.parts.bus.subscribe(MessagePosted, found.append)
        return found


@asynccontextmanager
async def serving(folder: Path, turns: Sequence[ScriptTurn], **chosen: Any) -> AsyncIterator[Served]:
    model = Scripted(turns)
    given = {"agents": {"Plain": PLAIN}, "default_agent": "Plain", **chosen}
    async with (
        running_gateway(folder, model=model, **given) as gateway,
        httpx2.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        client.headers["authorization"] = f"Bearer {gateway.token}"
        yield Served(gateway, client, model)


def answer_path(question: dict[str, Any]) -> str:
    return f"/api/questions/{quote(question['id'], safe='')}/answer"


async def test_a_schedule_is_made_listed_paused_resumed_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as served:
        made = await served.post("", {**BODY, "zone": "Europe/Berlin", "when": "30 7 * * 1-5"}, 201)
        assert made["when"] == "cron 30 7 * * 1-5 (Europe/Berlin)" and len(made["next_words"]) == 3
        assert made["next_words"][0].endswith("07:30 (Europe/Berlin)") and made["tools"] is None
        [listed] = (await served.get())["schedules"]
        assert listed == made
        path = f"/{made['id']}"
        paused = await served.post(f"{path}/pause")
        assert (paused["next"], paused["paused"], paused["next_words"]) == (None, "You paused it.", [])
        resumed = await served.post(f"{path}/resume")
        assert (resumed["next"], resumed["paused"]) == (made["next"], "")
        assert (await served.client.delete(f"/api/schedules{path}")).json() == {"removed": made["id"]}
        for refused in (
            served.client.delete(f"/api/schedules{path}"),
            served.client.get(f"/api/schedules{path}"),
            served.client.post(f"/api/schedules{path}/run"),
        ):
            assert (await refused).status_code == 404


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"when": "0 30 7 * * *"}, 422, "six fields"),
        ({"zone": "Mars"}, 422, "no time zone"),
        ({"text": "  "}, 422, "text"),
        ({"agent": "Nobody"}, 404, "no agent"),
        ({"session": "unknown"}, 404, "unknown"),
        ({"deliver": "telegram:7"}, 422, "no channel 'telegram'"),
        ({"deliver": "telegram"}, 422, "CHANNEL:CHAT"),
    ],
)
async def test_what_can_not_be_scheduled_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, str], status: int, why: str
) -> None:
    async with serving(tmp_path, []) as served:
        response = await soon(served.client.post("/api/schedules", json={**BODY, **change}))
        assert response.status_code == status and why in response.json()["error"]


async def test_a_due_turn_runs_in_a_fresh_session_and_its_answer_is_shown_with_its_chat(tmp_path: Path) -> None:
    async with serving(tmp_path, ["It rains.", "The sun shines."]) as served:
        posted, schedule = served.posted(), await served.make()
        for number, text in enumerate(("It rains.", "The sun shines."), 1):
            await served.run_now(schedule)
            run = (await served.until_run(schedule, number))[0]
            assert (run["end"], run["text"], run["problem"]) == ("done", text, "")
            assert run["session"].startswith(f"scheduled-{schedule}-")
            await until(lambda: [one.content for one in posted][-1:] == [run["text"]])  # noqa: B023 - waited for here
            assert posted[-1].session == run["session"]
            stored = await served.client.get(f"/api/sessions/{run['session']}")
            assert stored.json()["kind"] == "run" and stored.json()["name"] == "Weather"
        assert len({run["session"] for run in await served.runs(schedule)}) == 2


async def test_a_session_can_go_on_with_each_run(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hello.", "One.", "Two."]) as served:
        await soon(served.client.post("/webhook", json={"message": "Hi"}, headers={"x-session-id": "mine"}))
        schedule = await served.make(session="mine", deliver="none")
        for number in (1, 2):
            await served.run_now(schedule)
            await served.until_run(schedule, number)
        said = [one for one in served.model.requests[-1].messages if isinstance(one, UserMessage)]
        assert len(said) == 3 and {run["session"] for run in await served.runs(schedule)} == {"mine"}


async def test_a_gateway_that_was_off_runs_the_last_missed_time_once_and_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Done."]) as served:
        store = served.gateway.gateway.parts.store
        now = store.ledger.now()
        plan = SchedulePlan(Every(600.0, now - 6000), "Look outside.")
        await store.schedules.add(Schedule("late", plan, Maker("operator"), now - 6000, now - 5400))
        old = SchedulePlan(At(now - 3 * 86400), "Too late.")
        await store.schedules.add(Schedule("old", old, Maker("operator"), now, now - 3 * 86400))
        await served.gateway.restart()
        served.client.headers["authorization"] = f"Bearer {served.gateway.token}"
        [run] = await served.until_run("late")
        assert run["end"] == "done" and run["since"] < run["due"]
        [asked] = served.model.requests[0].messages
        assert isinstance(asked, UserMessage)
        text = asked.parts[0].text  # type: ignore[union-attr] # a text
        assert text.startswith("Look outside.\n\n(This was due on") and "which were missed" in text
        [missed] = await served.until_run("old")
        assert (missed["end"], missed["session"]) == ("missed", "") and "No gateway ran" in missed["text"]


async def test_a_run_that_was_cut_off_goes_on_and_nothing_is_said_twice(tmp_path: Path) -> None:
    async with serving(tmp_path, [call("ask_user", question="Which one?"), "The first."]) as served:
        schedule = await served.make()
        asked: list[QuestionOpened] = []
        served.gateway.gateway.parts.bus.subscribe(QuestionOpened, asked.append)
        await served.run_now(schedule)
        await until(lambda: asked)
        await served.gateway.restart()  # the question waits, and so does the run
        served.client.headers["authorization"] = f"Bearer {served.gateway.token}"
        [run] = await served.runs(schedule)
        assert run["state"] == "running"
        questions = (await served.client.get("/api/questions")).json()["questions"]
        assert [one["kind"] for one in questions] == ["input"]
        answer = {"decision": "allow", "value": "this"}
        answered = await served.client.post(answer_path(questions[0]), json=answer)
        assert answered.status_code == 200, answered.text
        [run] = await served.until_run(schedule)
        assert (run["end"], run["text"]) == ("done", "The first.")
        said = [one for one in served.model.requests[-1].messages if isinstance(one, UserMessage)]
        assert len(said) == 1


async def test_five_failures_in_a_row_pause_it_and_the_owner_is_told(tmp_path: Path) -> None:
    failures: list[ScriptTurn] = [ModelError("refused", "No.") for _ in range(MAX_FAILURES)]
    async with serving(tmp_path, failures) as served:
        posted, schedule = served.posted(), await served.make(deliver="none")
        for number in range(1, MAX_FAILURES + 1):
            await served.run_now(schedule)
            assert (await served.until_run(schedule, number))[0]["end"] == "error"
        found = (await served.get(f"/{schedule}"))["schedule"]
        assert found["failures"] == MAX_FAILURES and "runs in a row have failed" in found["paused"]
        await until(lambda: any("is paused" in one.content for one in posted))
        assert f"handspan schedule resume {schedule}" in posted[-1].content


async def test_a_schedule_whose_agent_is_gone_is_paused_and_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as served:
        agent = {"name": "Gardener", "tools": []}
        assert (await served.client.post("/api/agents", json=agent)).status_code == 201
        schedule = await served.make(agent="Gardener")
        await served.client.delete("/api/agents/Gardener")
        await served.run_now(schedule)
        [run] = await served.until_run(schedule)
        assert run["end"] == "error" and "no agent 'Gardener'" in run["text"]
        assert "no agent 'Gardener'" in (await served.get(f"/{schedule}"))["schedule"]["paused"]


async def test_another_owners_schedules_do_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as served:
        schedule = await served.make()
        token = await served.gateway.gateway.parts.auth.issue("bob", ("chat",))
        bob = {"authorization": f"Bearer {token}"}
        assert (await served.client.get("/api/schedules", headers=bob)).json() == {"schedules": []}
        response = await served.client.post(f"/api/schedules/{schedule}/run", headers=bob)
        assert response.status_code == 404


# The tool.


def propose(**more: str) -> ScriptTurn:
    given = {"action": "create", "when": "@daily", "text": "Look outside.", "zone": "Europe/Berlin", **more}
    return call("schedule", **given)


def result_of(messages: Sequence[Message]) -> str:
    last = messages[-1]
    assert isinstance(last, ResultsMessage)
    return last.results[0].envelope


async def say(served: Served, text: str = "Do it daily.") -> None:
    headers = {"x-session-id": "s"}
    await soon(served.client.post("/webhook", json={"message": text}, headers=headers))


async def answer_question(served: Served, value: str) -> str:
    """Answer the open question, and return its text."""
    found: list[dict[str, Any]] = []

    async def is_open() -> bool:
        found[:] = (await served.client.get("/api/questions")).json()["questions"]
        return bool(found)

    await until(is_open)
    body = {"decision": "allow", "value": value}
    response = await served.client.post(answer_path(found[0]), json=body)
    assert response.status_code == 200, response.text
    return str(found[0]["subject"])


@pytest.mark.parametrize("value", ["Yes", "No"])
async def test_the_person_confirms_what_the_agent_proposes_with_the_next_three_times(
    tmp_path: Path, value: str
) -> None:
    async with serving(tmp_path, [propose(), "Well."]) as served:
        talking = asyncio.create_task(say(served))
        subject = await answer_question(served, value)
        await soon(talking)
        assert subject.count("00:00 (Europe/Berlin)") == 3 and "'Look outside.'" in subject
        made = (await served.get())["schedules"]
        assert len(made) == (value == "Yes")
        assert ("created" if made else "declined") in result_of(served.model.requests[-1].messages)
        if made:
            assert made[0]["tools"] == ["ask_user", "get_current_time", "schedule"] and made[0]["agent"] == "Plain"


@pytest.mark.parametrize(
    ("more", "why"),
    [({"when": "often"}, "can't be used"), ({"text": ""}, "what the agent"), ({"zone": "No/Such"}, "zone")],
)
async def test_a_wrong_proposal_is_refused_without_a_question(tmp_path: Path, more: dict[str, str], why: str) -> None:
    async with serving(tmp_path, [propose(**more), "Well."]) as served:
        await say(served)
        assert why in result_of(served.model.requests[-1].messages)


async def test_the_agent_lists_schedules_and_the_person_confirms_the_end_of_one(tmp_path: Path) -> None:
    def cancel(_: Sequence[Message]) -> Call:
        return call("schedule", action="cancel", id=schedule)

    async with serving(tmp_path, [call("schedule", action="list"), cancel, "Gone."]) as served:
        schedule = await served.make()
        talking = asyncio.create_task(say(served, "Stop that."))
        subject = await answer_question(served, "Yes")
        await soon(talking)
        assert "Weather" in subject and "every 30 minutes" in subject
        assert (await served.get())["schedules"] == []
        assert "Look outside." in result_of(served.model.requests[1].messages)


async def test_a_scheduled_turn_has_at_most_the_tools_and_the_mode_of_the_turn_that_made_it(tmp_path: Path) -> None:
    agents = {"Plain": {**PLAIN, "mode": "automatic"}}
    async with serving(tmp_path, [call("schedule", action="list"), "Done.", "Free."], agents=agents) as served:
        parts = served.gateway.gateway.parts
        now = parts.store.ledger.now()
        maker = Maker("operator", ("chat",), tools=("get_current_time",), mode="read_only")
        plan = SchedulePlan(Every(600.0, now), "Look outside.", agent="Plain")
        await parts.store.schedules.add(Schedule("capped", plan, maker, now, now + 600))
        await served.run_now("capped")
        [run] = await served.until_run("capped")
        assert served.model.requests[0].tools == ("get_current_time",)
        assert "not available" in result_of(served.model.requests[1].messages)
        await soon(served.client.post("/webhook", json={"message": "Hi"}, headers={"x-session-id": run["session"]}))
        assert "schedule" in served.model.requests[2].tools, "a person's own turn has the agent's tools"
