"""Errors before a stream and in it; tokens, agents, limits; clients of versions before 1.0 (SPEC F1, F4, S5)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.models.model import ModelError
from handspan.models.scripted import PlainTurn, Scripted, call
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.spoken import Spoken
from tests.gateway.agui.kit import WEATHER, Node, Place, place, user
from tests.gateway.openai.kit import Held, Slow
from tests.waiting import soon

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway with a model that does what it is told."""
    async with running_gateway(tmp_path, model=Spoken()) as gateway:
        yield gateway


@asynccontextmanager
async def http(gateway: RunningGateway, token: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    """A client that sends what it likes."""
    bearer = {"authorization": f"Bearer {token or gateway.token}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=bearer, timeout=60) as client:
        yield client


def body(*said: str, **more: Any) -> dict[str, Any]:
    """The input of a run."""
    return {"threadId": "t", "runId": "r", "messages": [user(one) for one in said], **more}


def events(response: httpx2.Response) -> list[Any]:
    """The events of a stream."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in response.text.split("\n") if line and not line.startswith(":")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


class TestTokensAndAgents:
    async def test_a_wrong_token_and_an_unknown_agent_are_named_by_the_client(self, there: Place) -> None:
        end = await there.agent("wrong").begin("hi").end()
        assert end["status"] == 401
        end = await there.agent(path="/agui/Nobody").begin("hi").end()
        assert end["status"] == 404 and "It may use: General" in end["error"]

    async def test_a_token_that_is_bound_to_an_agent_talks_to_that_one_alone(self, node: Node, tmp_path: Path) -> None:
        async with place(node, tmp_path, agents={"Pirate": {}, "General": {}}) as there:
            token = await there.parts.auth.issue("operator", ("chat", "agent:Pirate"), "shop")
            for path in ("/agui", "/agui/Pirate"):
                assert (await there.agent(token, path=path).run("hi")).text == "hi"
            assert (await there.agent(token, path="/agui/General").begin("hi").end())["status"] == 404
            async with http(there.gateway, token) as client:
                assert (await client.get("/api/sessions")).status_code == 403

    async def test_a_token_that_may_not_chat_is_refused(self, gateway: RunningGateway) -> None:
        token = await gateway.gateway.parts.auth.issue("operator", ("tools",), "x")
        async with http(gateway, token) as client:
            assert (await client.post("/agui", json=body("hi"))).status_code == 403

    async def test_a_thread_belongs_to_its_token(self, there: Place) -> None:
        other = await there.parts.auth.issue("operator", ("chat",), "other")
        one = there.agent()
        await one.run("secret")
        run = await there.agent(other, thread=one.thread).run("hi")
        assert "MESSAGES_SNAPSHOT" not in run.kinds and len(await there.sessions()) == 2

    async def test_a_page_of_a_known_origin_may_ask_and_any_other_may_not(self, tmp_path: Path) -> None:
        settings: Any = {"gateway": {"origins": ["http://page.test"]}}
        async with running_gateway(tmp_path, model=Spoken(), **settings) as gateway, http(gateway) as client:
            known = await client.post("/agui", json=body("hi"), headers={"origin": "http://page.test"})
            assert known.headers["access-control-allow-origin"] == "http://page.test" and events(known)
            other = await client.post("/agui", json=body("hi"), headers={"origin": "http://other.test"})
            assert other.status_code == 403

    async def test_a_revoked_token_ends_its_stream_with_an_error(self, there: Place) -> None:
        held = there.hold()
        token = await there.parts.auth.issue("operator", ("chat",), "x")
        run = there.agent(token).begin("Wait.\ncall hold\nthen\nend")
        await run.until("TOOL_CALL_START")
        (_, record) = await there.parts.store.tokens.all(owner="operator")
        await there.parts.auth.revoke(record.hash, "operator")
        await run.end()
        assert "revoked" in run.of("RUN_ERROR")[0]["message"]
        held.may_end.set()


class TestRequests:
    @pytest.mark.parametrize(
        ("given", "named"),
        [
            ({"threadId": ""}, "threadId"),
            ({"runId": None}, "runId"),
            ({"messages": "hi"}, "messages"),
            ({"messages": []}, "no message of a person"),
            ({"messages": [{"id": "1", "role": "user", "content": ""}]}, "messages[0]"),
            ({"messages": [{"id": "1", "role": "user", "content": [{"type": "smell"}]}]}, "'smell'"),
            ({"messages": [{"id": "1", "role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages[0]"),
            ({"tools": [{"name": "", "description": "x"}]}, "name"),
            ({"resume": [{"interruptId": "x", "status": "maybe"}]}, "maybe"),
            ({"resume": [{"interruptId": "x", "status": "resolved", "payload": True}]}, "'x' is not open"),
        ],
    )
    async def test_what_is_wrong_is_named(self, gateway: RunningGateway, given: dict[str, Any], named: str) -> None:
        async with http(gateway) as client:
            response = await client.post("/agui", json={**body("hi"), **given})
            assert response.status_code in (400, 409) and named in response.json()["error"], response.text

    async def test_a_body_that_is_no_json_or_too_large_and_another_method(self, tmp_path: Path) -> None:
        settings: Any = {"fronts": {"request_bytes": 2048}}
        async with running_gateway(tmp_path, model=Spoken(), **settings) as gateway, http(gateway) as client:
            assert (await client.post("/agui", content=b"{")).status_code == 400
            large = await client.post("/agui", json=body("x" * 100_000))
            assert large.status_code == 413 and "fronts.request_bytes" in large.json()["error"]
            assert (await client.get("/agui")).status_code == 405
            assert (await client.post("/agui/General/more", json=body("x"))).status_code == 404

    async def test_the_same_key_gets_the_same_stream_and_another_request_is_refused(self, tmp_path: Path) -> None:
        held, model = Held(), Slow()
        async with running_gateway(tmp_path, model=model) as gateway, http(gateway) as client:
            key = {"idempotency-key": "k"}
            given = body("Hello")
            async with client.stream("POST", "/agui", json=given, headers=key):
                await soon(model.has_begun.wait())
            model.may_go_on.set()  # its client has left, and comes back: the run goes on
            again = await client.post("/agui", json=given, headers=key)
            told = "".join(event.get("delta", "") for event in events(again))
            assert told == "Well, done" and model.requests == 1 and not held.count
            assert (await client.post("/agui", json=body("Other"), headers=key)).status_code == 409


class TestRuns:
    async def test_a_model_that_fails_is_an_error_of_the_stream(self, node: Node, tmp_path: Path) -> None:
        script: list[PlainTurn] = [["Let me see.", call("read_file", path="x")], ModelError("refused", "Not that.")]
        async with place(node, tmp_path, Scripted(script)) as there:
            run = there.agent().begin("hi")
            await run.end()
            (error,) = run.of("RUN_ERROR")
            assert (error["message"], error["code"]) == ("Not that.", "refused")

    async def test_an_older_client_gets_no_words_that_it_does_not_know(self, gateway: RunningGateway) -> None:
        asked = body("call get_weather", tools=[{**WEATHER, "parameters": None}])
        async with http(gateway) as client:
            old = events(await client.post("/agui", json=asked))
            assert old[-1] == {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}}
            new = events(await client.post("/agui", json={**asked, "threadId": "u", "protocolVersion": "1.0"}))
            assert len(new[-1]["outcome"]["pendingToolCallIds"]) == 1
            binary = [{"type": "binary", "mimeType": "text/plain", "data": "aGk=", "filename": "hi.txt"}]
            message = {"id": "b", "role": "user", "content": [{"type": "text", "text": "Look"}, *binary]}
            assert events(await client.post("/agui", json=body(messages=[message])))[-1]["outcome"]

    async def test_a_run_that_is_stopped_elsewhere_is_cancelled(self, there: Place) -> None:
        held = there.hold()
        run = there.agent().begin("Wait.\ncall hold\nthen\nend")
        await soon(held.is_at_work.wait())
        (running,) = there.parts.sessions.running("operator")
        there.parts.sessions.abort(running.session_id, "operator")
        await run.good_end()
        assert run.outcome == {"type": "cancelled"}

    async def test_no_field_of_a_stream_is_null(self, gateway: RunningGateway) -> None:
        async with http(gateway) as client:
            asked = body("Look.\ncall get_current_time\ncall get_weather\nthen\nend", tools=[WEATHER])
            told = events(await client.post("/agui", json=asked))
        assert all(value is not None for event in told for value in event.values())
