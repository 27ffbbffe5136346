"""A hard limit on money in a whole gateway: turns, the question, what people see (SPEC L5)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from handspan import AskFailed, Handspan
from handspan.agent.budgets import check_zone
from handspan.config.budget_settings import BudgetSettings
from handspan.config.settings import AgentSettings, ModelPrice, ModelSettings, Settings
from handspan.core.agents import Agent
from handspan.core.budgets import BudgetLimits
from handspan.core.bus import QuestionEnded, TurnEvent
from handspan.core.errors import ConfigError
from handspan.core.events import BudgetLow, RequestQueued
from handspan.core.images import ImageReader
from handspan.core.messages import Usage
from handspan.core.questions import Answer, Question
from handspan.core.tool import ToolSpec
from handspan.gateway.channels.answers import buttons_of, read_press, read_words
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelError, ModelEvent, Projection
from handspan.models.scripted import Scripted, ScriptedReply, ScriptTurn
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.waiting import until

pytestmark = pytest.mark.anyio
PRICED: Final = {"api": "custom", "base_url": "http://127.0.0.1:9/v1", "price": {"input": 1000.0, "output": 1000.0}}
"""A dollar for a thousand tokens; so a request without a limit may cost a dollar and what it sends."""
PLAIN: Final = {"tools": [], "instructions": "Be brief."}
HALF: Final = ScriptedReply(("Fifty cents.",), Usage(300, 200))
WAIT: Final = 30.0


@asynccontextmanager
async def gateway_with(
    folder: Path, turns: Sequence[ScriptTurn], **chosen: Any
) -> AsyncIterator[tuple[RunningGateway, httpx2.AsyncClient, Scripted]]:
    """A gateway with a scripted model that costs money."""
    model = chosen.pop("model", None) or Scripted(turns, name="priced")
    given = {"models": {"priced": PRICED}, "agents": {"Plain": PLAIN}, "default_agent": "Plain", **chosen}
    async with (
        running_gateway(folder, model=model, **given) as gateway,
        httpx2.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        client.headers["authorization"] = f"Bearer {gateway.token}"
        yield gateway, client, model


async def say(client: httpx2.AsyncClient, session: str = "s") -> httpx2.Response:
    return await client.post("/webhook", json={"message": "Hello"}, headers={"x-session-id": session})


async def budgets(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get("/api/budgets")).json()["budgets"]
    return found


async def next_question(client: httpx2.AsyncClient) -> dict[str, Any]:
    """The question that is open, as soon as there is one."""
    async with asyncio.timeout(WAIT):
        while not (found := (await client.get("/api/questions")).json()["questions"]):
            await asyncio.sleep(0)
    question: dict[str, Any] = found[0]
    return question


async def answer(client: httpx2.AsyncClient, question: dict[str, Any], value: str) -> None:
    path = f"/api/questions/{question['id'].replace('/', '%2F')}/answer"
    done = await client.post(path, json={"decision": "allow", "value": value})
    assert done.status_code == 200, done.text


async def test_replies_are_settled_with_what_they_did_cost_and_the_page_sees_it(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF, HALF], budget={"day": 5, "month": 60}) as (_, client, _):
        assert (await say(client)).status_code == 200
        assert (await say(client, "t")).status_code == 200
        day, month = await budgets(client)
        text = (await client.get("/metrics")).text
    assert (day["period"], day["limit"], day["spent"], day["reserved"], day["left"]) == ("day", 5.0, 1.0, 0.0, 4.0)
    assert (month["limit"], month["spent"], month["of"]) == (60.0, 1.0, "")
    assert month["free_on"].endswith("-01")
    assert 'handspan_budget_dollars{period="day",kind="left"} 4' in text


async def test_without_a_budget_nothing_is_reserved_and_nothing_is_shown(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF]) as (gateway, client, _):
        assert (await say(client)).status_code == 200
        assert await budgets(client) == []
        assert "handspan_budget" not in (await client.get("/metrics")).text
        assert not gateway.gateway.parts.app.budgets.has_limits


async def test_a_person_who_adds_money_lets_the_turn_go_on(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF], budget={"day": 0.2}) as (gateway, client, model):
        ended: list[QuestionEnded] = []
        gateway.gateway.parts.bus.subscribe(QuestionEnded, ended.append)
        saying = asyncio.create_task(say(client))
        question = await next_question(client)
        assert question["kind"] == "input"
        assert question["schema"] == {"enum": ["Add $2 today", "Add $10 today", "No"]}
        told = "Of the budget of $0.20 a day $0.00 are spent. The next request may cost $1."
        assert question["subject"].startswith(told)
        assert model.requests == []
        await answer(client, question, "Add $2 today")
        assert (await saying).status_code == 200
        (day,) = await budgets(client)
    assert (day["added"], day["spent"], day["left"]) == (2.0, 0.5, pytest.approx(1.7))
    assert [one.decision for one in ended] == ["allow"]


async def test_a_no_ends_the_turn_and_says_when_the_money_is_there_again(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF], budget={"day": 0.2}) as (_, client, model):
        saying = asyncio.create_task(say(client))
        await answer(client, await next_question(client), "No")
        assert (await saying).status_code == 500
        shown = (await client.get("/api/sessions/s")).json()["ended"]
    assert (shown["reason"], shown["fault"]) == ("error", {"of": "model", "code": "budget_spent"})
    assert "more than the whole budget" in shown["text"]
    assert "`handspan budget add 2` adds to it today" in shown["text"]
    assert model.requests == []


async def test_a_question_goes_when_another_one_has_brought_the_money(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF, HALF], budget={"day": 0.2}) as (_, client, model):
        saying = [asyncio.create_task(say(client, session)) for session in ("s", "t")]
        async with asyncio.timeout(WAIT):
            while len(found := (await client.get("/api/questions")).json()["questions"]) < 2:
                await asyncio.sleep(0)
        await answer(client, found[0], "Add $10 today")
        assert [(await one).status_code for one in saying] == [200, 200]
        assert (await client.get("/api/questions")).json()["questions"] == []
        (day,) = await budgets(client)
    assert (day["added"], day["spent"]) == (10.0, 1.0)
    assert len(model.requests) == 2


class Holding:
    """A model whose first reply comes when the test lets it."""

    name = "priced"

    def __init__(self) -> None:
        self._inner = Scripted([HALF, HALF])
        self._replies = 0
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    def projection(self, instructions: str = "") -> KeptMessages:
        return self._inner.projection(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        self._replies += 1
        if self._replies == 1:
            self.has_begun.set()
            await self.may_end.wait()
        async for event in self._inner.reply(projection, specs, artifacts):
            yield event


async def test_a_turn_says_that_its_request_waits_for_money_of_others(tmp_path: Path) -> None:
    waits: list[RequestQueued] = []
    model, has_waited = Holding(), asyncio.Event()
    async with gateway_with(tmp_path, [], model=model, budget={"day": 1.8}) as (gateway, client, _):

        def note(published: TurnEvent) -> None:
            if isinstance(published.event, RequestQueued):
                waits.append(published.event)
                has_waited.set()

        gateway.gateway.parts.bus.subscribe(TurnEvent, note)
        first = asyncio.create_task(say(client, "s"))
        async with asyncio.timeout(WAIT):
            await model.has_begun.wait()
            second = asyncio.create_task(say(client, "t"))
            await has_waited.wait()
            assert (await client.get("/api/questions")).json()["questions"] == []
            model.may_end.set()
            assert [(await one).status_code for one in (first, second)] == [200, 200]
    (event,) = waits
    assert (event.model, event.running) == ("priced", 1)
    assert str(event.reason).startswith("The rest of the budget is reserved by requests that run")


async def test_a_task_of_open_webui_is_paid_by_the_owner_of_its_token(tmp_path: Path) -> None:
    body = {"model": "handspan", "messages": [{"role": "user", "content": "### Task:\nGenerate a title."}]}
    limits = {"owners": {"ann": {"day": 50}}, "each_owner": {"day": 50}}
    async with gateway_with(tmp_path, [HALF, HALF], budget=limits) as (gateway, client, _):
        hers = {"authorization": f"Bearer {await gateway.gateway.parts.auth.issue('ann', ('chat',), 'x')}"}
        for headers in (hers, {**hers, "x-openwebui-chat-id": "c1"}):
            done = await client.post("/v1/chat/completions", json=body, headers=headers)
            assert done.status_code == 200, done.text
        spent = {one["of"]: one["spent"] for one in await budgets(client)}
    assert spent == {"owner:ann": 1.0, "owner:operator": 0.0}


async def test_a_question_goes_with_a_turn_that_is_stopped(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF], budget={"day": 0.2}) as (_, client, _):
        saying = asyncio.create_task(say(client))
        await next_question(client)
        assert (await client.post("/api/sessions/s/abort")).status_code == 200
        await saying
        assert (await client.get("/api/questions")).json()["questions"] == []
        (day,) = await budgets(client)
    assert (day["spent"], day["reserved"]) == (0.0, 0.0)


async def test_a_gateway_that_stops_does_not_wait_for_money(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF], budget={"day": 0.2}) as (gateway, client, _):
        saying = asyncio.create_task(say(client))
        await next_question(client)
        await gateway.close(WAIT)
        await asyncio.gather(saying, return_exceptions=True)
        await gateway.open()
        client.headers["authorization"] = f"Bearer {gateway.token}"
        assert (await client.get("/api/questions")).json()["questions"] == []
        ended = (await client.get("/api/sessions/s")).json()["ended"]
    assert (ended["reason"], ended["fault"]["code"]) == ("error", "budget_spent"), "it did not wait to be stopped"


async def test_money_that_is_added_by_hand_wakes_a_turn_that_waits(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, [HALF], budget={"day": 0.2}) as (_, client, _):
        saying = asyncio.create_task(say(client))
        await next_question(client)
        added = await client.post("/api/budgets/add", json={"dollars": 3})
        assert added.json()["budgets"][0]["added"] == 3.0
        assert (await saying).status_code == 200
        assert (await client.get("/api/questions")).json()["questions"] == []
        missing = await client.post("/api/budgets/add", json={"dollars": 3, "of": "agent:nobody"})
    assert missing.status_code == 404
    assert "There is no budget of 'agent:nobody'" in missing.text


async def test_four_fifths_are_told_once(tmp_path: Path) -> None:
    low: list[BudgetLow] = []
    replies = [ScriptedReply(("Much.",), Usage(4100, 0)), *[ScriptedReply(("Little.",), Usage(1, 1))] * 2]
    models = {"priced": {**PRICED, "options": {"max_tokens": 10}}}
    async with gateway_with(tmp_path, replies, budget={"day": 5}, models=models) as (gateway, client, _):

        def note(published: TurnEvent) -> None:
            if isinstance(published.event, BudgetLow):
                low.append(published.event)

        gateway.gateway.parts.bus.subscribe(TurnEvent, note)
        for session in ("a", "b", "c"):
            assert (await say(client, session)).status_code == 200
    assert [one.text for one in low] == ["Of the budget of $5.00 a day $4.10 are spent."]


async def test_a_failed_request_costs_nothing_and_holds_nothing(tmp_path: Path) -> None:
    failing = ModelError("rejected", "No.")
    async with gateway_with(tmp_path, [failing, HALF], budget={"day": 3}) as (_, client, _):
        assert (await say(client)).status_code == 500
        assert (await say(client, "t")).status_code == 200
        (day,) = await budgets(client)
    assert (day["spent"], day["reserved"]) == (0.5, 0.0)


async def test_a_reply_that_no_api_has_counted_is_estimated(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, ["A reply of some words."], budget={"day": 3}) as (_, client, _):
        assert (await say(client)).status_code == 200
        (day,) = await budgets(client)
    assert 0 < day["spent"] < 3


async def test_an_agent_has_a_budget_of_its_own(tmp_path: Path) -> None:
    agents = {"General": {}, "Cheap": {**PLAIN, "budget": {"month": 0.1}}}
    chosen = {"agents": agents, "default_agent": "Cheap"}
    async with gateway_with(tmp_path, [HALF], **chosen) as (_, client, model):
        saying = asyncio.create_task(say(client))
        question = await next_question(client)
        assert "a month of the agent 'Cheap'" in question["subject"]
        await answer(client, question, "No")
        assert "`handspan budget add 2 --agent Cheap`" in (await saying).text
        (limit,) = await budgets(client)
    assert (limit["of"], limit["period"]) == ("agent:Cheap", "month")
    assert model.requests == []


async def test_a_summary_counts_as_every_request_does(tmp_path: Path) -> None:
    words = "Much was said. " * 200
    long = ScriptedReply((words,), Usage(300, 200))
    async with gateway_with(tmp_path, [long, long, long], budget={"day": 50}) as (_, client, model):
        for _ in range(2):
            assert (await say(client)).status_code == 200
        done = await client.post("/api/sessions/s/compact", json={})
        assert done.status_code == 200, done.text
        assert len(model.requests) == 3, "the third one asks for a summary"

        async def is_settled() -> bool:
            (day,) = await budgets(client)
            return bool((day["spent"], day["reserved"]) == (1.5, 0.0))

        await until(is_settled)


# In programs.


def settings_of(folder: Path, **more: Any) -> Settings:
    models = {"priced": ModelSettings(base_url="http://127.0.0.1:9/v1", price=ModelPrice(1000.0, 1000.0))}
    return Settings(folder / "ws", folder / "st", models=models, **more)


async def test_where_no_person_can_be_asked_the_turn_ends(tmp_path: Path) -> None:
    given = settings_of(tmp_path, budget=BudgetSettings(day=0.3))
    async with Handspan(model=Scripted([HALF], name="priced"), settings=given) as hands:
        with pytest.raises(AskFailed, match=r"Of the budget of \$0\.30 a day \$0\.00 are spent") as failed:
            await hands.ask("Hello", timeout=WAIT)
    assert failed.value.fault is not None and failed.value.fault.code == "budget_spent"


async def test_a_programs_callback_may_add_money(tmp_path: Path) -> None:
    def add(question: Question) -> Answer:
        return Answer("allow", value="Add $2 today")

    given = settings_of(tmp_path, budget=BudgetSettings(day=0.3))
    async with Handspan(model=Scripted([HALF], name="priced"), settings=given, questions=add) as hands:
        assert (await hands.ask("Hello", timeout=WAIT)).text == "Fifty cents."


async def test_a_spent_budget_says_when_it_is_free_again(tmp_path: Path) -> None:
    given = settings_of(tmp_path, budget=BudgetSettings(day=2))
    replies = [ScriptedReply(("Much.",), Usage(1000, 900))] * 2
    async with Handspan(model=Scripted(replies, name="priced"), settings=given) as hands:
        await hands.ask("Hello", timeout=WAIT)
        with pytest.raises(AskFailed, match=r"\$1\.90 are spent\..* It is free again on \d{4}-\d\d-\d\d\."):
            await hands.ask("Hello", timeout=WAIT)


class Unknown:
    """A model that is not ours."""

    name = "unheard-of"

    def __init__(self) -> None:
        self._inner = Scripted(["Hi."])

    def projection(self, instructions: str = "") -> KeptMessages:
        return self._inner.projection(instructions)

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        return self._inner.reply(projection, specs, artifacts)


async def test_models_without_a_price_are_refused_under_a_budget_with_the_remedy(tmp_path: Path) -> None:
    given = settings_of(tmp_path, budget=BudgetSettings(day=2))
    async with Handspan(model=Unknown(), settings=given) as hands:
        with pytest.raises(AskFailed, match=r"'unheard-of' has no price.*models\.unheard-of\.price"):
            await hands.ask("Hello", timeout=WAIT)


async def test_models_that_run_here_cost_nothing(tmp_path: Path) -> None:
    given = settings_of(tmp_path, budget=BudgetSettings(day=0))
    async with Handspan(model="offline", settings=given) as hands:
        assert await hands.ask("hi", timeout=WAIT) is not None
    async with Handspan(model=Scripted(["Hi."]), settings=given) as hands:
        assert (await hands.ask("hi", timeout=WAIT)).text == "Hi."


async def test_the_limit_of_an_agent_of_a_program_holds(tmp_path: Path) -> None:
    agent = Agent("Mine", budget=BudgetLimits(day=0.1))
    async with Handspan(model=Scripted([HALF], name="priced"), agent=agent, settings=settings_of(tmp_path)) as hands:
        with pytest.raises(AskFailed, match="of the agent 'Mine'"):
            await hands.ask("Hello", timeout=WAIT)


def test_a_zone_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"budget\.zone: there is no time zone 'Mars/Base'"):
        check_zone(settings_of(tmp_path, budget=BudgetSettings(zone="Mars/Base")))
    check_zone(settings_of(tmp_path, budget=BudgetSettings(zone="Europe/Berlin")))
    assert AgentSettings().budget == BudgetLimits()


def test_the_question_has_three_buttons_in_a_chat() -> None:
    question = Question(
        "budget/1",
        "input",
        "",
        "budget",
        {},
        subject="Add money today?",
        owner="operator",
        session="s",
        fingerprint="",
        expires_in=300.0,
        schema={"enum": ["Add $2 today", "Add $10 today", "No"]},
    )
    buttons = buttons_of(question)
    assert [one.label for one in buttons] == ["Add $2 today", "Add $10 today", "No"]
    assert read_press(question, "0") == Answer("allow", value="Add $2 today")
    assert read_words(question, "2") == Answer("allow", value="Add $10 today")
