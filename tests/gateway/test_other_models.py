"""Another model answers while one can't, in a whole gateway: settings, the event, the message, the log (SPEC L6)."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from handspan.config.load import load_settings
from handspan.config.settings import Settings
from handspan.core.bus import TurnEvent
from handspan.core.errors import ConfigError
from handspan.core.events import ModelSwitched
from handspan.core.values import JsonObject
from handspan.gateway.log.events import EventLog
from handspan.gateway.setting_problems import agent_problems, check_settings
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.models.fake_replies import Call
from tests.models.fake_server import KEY, FakeModelServer, Turn

pytestmark = pytest.mark.anyio
PRICES = {"first": {"input": 1.0, "output": 1.0}, "second": {"input": 1_000_000.0, "output": 0.0}}


def settings_of(folder: Path, chosen: JsonObject) -> Settings:
    return load_settings(None, {"HOME": str(folder)}, {**folders(folder), **chosen})


def folders(folder: Path) -> JsonObject:
    return {"workspace": str(folder / "ws"), "state": str(folder / "st")}


def section(server: FakeModelServer, name: str, **more: Any) -> JsonObject:
    return {"api": "anthropic", "base_url": server.url("anthropic"), "key": KEY, "price": PRICES[name], **more}


@asynccontextmanager
async def gateway_with(
    folder: Path, first: Sequence[Turn], second: Sequence[Turn], *, model_id: str = "", **chosen: Any
) -> AsyncIterator[tuple[RunningGateway, httpx2.AsyncClient, FakeModelServer, FakeModelServer]]:
    """A gateway whose model `first` has the model `second` behind it. `model_id`: what their API calls both."""
    async with FakeModelServer(first) as one, FakeModelServer(second) as two:
        models: JsonObject = {
            "first": section(one, "first", then=["second"], model=model_id),
            "second": section(two, "second", model=model_id),
        }
        settings = settings_of(folder, {"models": models, **chosen})
        async with (
            running_gateway(
                folder, model="", models=settings.models, agents=settings.agents, default_agent=settings.default_agent
            ) as gateway,
            httpx2.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            client.headers["authorization"] = f"Bearer {gateway.token}"
            yield gateway, client, one, two


FAILS = [Turn(fault="unknown_model")]


async def test_the_event_the_message_and_the_log_name_the_model_that_answers_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[ModelSwitched] = []
    async with gateway_with(tmp_path, FAILS, [Turn(text="It is me.", input=3)]) as (gateway, client, _, _):

        def note(published: TurnEvent) -> None:
            if isinstance(published.event, ModelSwitched):
                events.append(published.event)

        gateway.gateway.parts.bus.subscribe(TurnEvent, note)
        EventLog().follow(gateway.gateway.parts.bus)
        with caplog.at_level(logging.WARNING):
            said = await client.post("/webhook", json={"message": "Who?"}, headers={"x-session-id": "s"})
        assert said.status_code == 200, said.text
        message = (await client.get("/api/sessions/s/messages")).json()["messages"][-1]
        usage = (await client.get("/api/usage?by=model")).json()["usage"]
        which = (await client.get("/api/models/which")).json()
    (event,) = events
    assert (event.model, event.of) == ("second", "first")
    assert "no such model" in event.reason
    assert (message["content"], message["in_place_of"]) == ("It is me.", "first")
    assert "no such model" in message["reason"]
    assert any("second answers in place of first" in record.getMessage() for record in caplog.records)
    assert usage[0]["cost"]["known"] == pytest.approx(3.0), "the price is that of the model that answered"
    assert [one["name"] for one in which["models"]] == ["first", "second"]
    first, second = which["models"]
    assert first["state"] == "resting" and 50 < first["seconds"] <= 60 and "no such model" in first["reason"]
    assert second == {"name": "second", "state": "ready"}
    assert which["why"].endswith("While it can't answer: second.")


async def test_the_cost_in_the_usage_of_openais_api_is_that_of_the_model_that_answered(tmp_path: Path) -> None:
    body = {"model": "handspan", "messages": [{"role": "user", "content": "Who?"}]}
    answers = [Turn(text="Me.", input=3, output=7), Turn(text="Me again.", input=2, output=7)]
    async with gateway_with(tmp_path, FAILS, answers, model_id="m-1") as (_, client, _, _):
        costs = [(await client.post("/v1/chat/completions", json=body)).json()["usage"]["cost"] for _ in range(2)]
    assert costs == [pytest.approx(3.0), pytest.approx(2.0)]


async def test_the_journal_names_the_model_that_asked_for_a_call_and_why_it_answered(tmp_path: Path) -> None:
    asks = Turn(calls=(Call("get_current_time", "{}"),))
    async with gateway_with(tmp_path, FAILS, [asks, Turn(text="Noon.")]) as (_, client, _, _):
        said = await client.post("/webhook", json={"message": "What time is it?"}, headers={"x-session-id": "s"})
        assert said.status_code == 200, said.text
        assert (await client.post("/api/tools/get_current_time/call", json={"args": {}})).status_code == 200
        by_hand, by_model = (await client.get("/api/calls")).json()["calls"]
        record = (await client.get(f"/api/calls/{by_model['id']}")).json()
        messages = (await client.get("/api/sessions/s/messages")).json()["messages"]
    assert (by_hand["model"], by_hand["in_place_of"], by_hand["reason"]) == ("", "", "")
    assert by_model["model"] == messages[-1]["model"]
    assert by_model["in_place_of"] == "first"
    assert "no such model" in by_model["reason"]
    assert {name: record[name] for name in by_model} == by_model


async def test_a_model_that_a_person_chose_answers_alone(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, FAILS, [Turn(text="never")]) as (_, client, _, two):
        chosen = (await client.post("/api/models/use", json={"model": "first"})).json()
        assert [one["name"] for one in chosen["models"]] == ["first"]
        said = await client.post("/webhook", json={"message": "Who?"}, headers={"x-session-id": "s"})
        assert said.status_code == 500
        assert two.asked == []
        await client.post("/api/models/use", json={"model": ""})
        assert (await client.post("/webhook", json={"message": "Who?"})).json()


async def test_a_model_that_a_person_chose_for_one_chat_answers_alone_there(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, FAILS, [Turn(text="Me.")] * 3) as (_, client, _, two):
        for chat in ("own", "other"):
            said = await client.post("/webhook", json={"message": "Who?"}, headers={"x-session-id": chat})
            assert said.status_code == 200
        asked = len(two.asked)
        changed = await client.put("/api/sessions/own", json={"model": "first"})
        assert changed.json()["model"] == "first"
        said = await client.post("/webhook", json={"message": "Who?"}, headers={"x-session-id": "own"})
        assert said.status_code == 500 and len(two.asked) == asked
        which = (await client.get("/api/models/which?session=own")).json()
        assert [one["name"] for one in which["models"]] == ["first"]
        said = await client.post("/webhook", json={"message": "Who?"}, headers={"x-session-id": "other"})
        assert said.status_code == 200 and len(two.asked) == asked + 1


async def test_an_agent_may_name_other_models_or_none(tmp_path: Path) -> None:
    agents: JsonObject = {"Strict": {"model": "first", "then": []}, "Free": {"model": "second", "then": ["first"]}}
    chosen: dict[str, Any] = {"agents": agents, "default_agent": "Strict"}
    async with gateway_with(tmp_path, FAILS, [Turn(text="Me.")], **chosen) as (_, client, one, two):
        which = (await client.get("/api/models/which?agent=Strict")).json()
        assert [one["name"] for one in which["models"]] == ["first"]
        which = (await client.get("/api/models/which?agent=Free")).json()
        assert [one["name"] for one in which["models"]] == ["second", "first"]
        failed = await client.post("/webhook", json={"message": "Who?"})
        assert failed.status_code == 500
        assert (len(one.asked), len(two.asked)) == (1, 0)


async def test_a_model_without_its_key_is_left_out_and_told(tmp_path: Path) -> None:
    async with FakeModelServer([Turn(text="Hi.")]) as server:
        models: JsonObject = {
            "first": section(server, "first", then=["second"]),
            "second": {"api": "anthropic", "base_url": server.url("anthropic"), "key": "env:NO_SUCH_KEY"},
        }
        settings = settings_of(tmp_path, {"models": models})
        async with running_gateway(tmp_path, model="", models=settings.models) as gateway:
            headers = {"authorization": f"Bearer {gateway.token}"}
            async with httpx2.AsyncClient(base_url=gateway.url, timeout=60, headers=headers) as client:
                assert (await client.post("/webhook", json={"message": "Hello"})).status_code == 200
                which = (await client.get("/api/models/which")).json()
    assert which["models"][1]["state"] == "unusable"
    assert "NO_SUCH_KEY" in which["models"][1]["reason"]
    assert any("NO_SUCH_KEY" in problem for problem in agent_problems(settings, {}))


def test_a_name_that_no_model_has_is_refused_at_the_start(tmp_path: Path) -> None:
    models: JsonObject = {"first": {"api": "anthropic", "then": ["secnd"]}, "second": {"api": "anthropic"}}
    with pytest.raises(ConfigError, match=r"models\.first\.then: there is no model 'secnd'\. Did you mean 'second'"):
        check_settings(settings_of(tmp_path, {"models": models}))
    agents: JsonObject = {"a": {"then": ["thrd"]}}
    known = settings_of(tmp_path, {"agents": agents})
    assert any("agents.a.then: there is no model 'thrd'" in problem for problem in agent_problems(known, {}))
    assert structs.asdict(known)["agents"]["a"].then == ("thrd",)
