"""Errors in OpenAI's form, on its paths alone; tokens, models, limits (SPEC F2, S5)."""

import json
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from handspan.core.events import Ended, TurnFault
from handspan.gateway.openai.envelope import failure_of
from handspan.models.model import ModelError
from handspan.models.scripted import PlainTurn, Scripted, call
from tests.gateway.openai.kit import Front, front, user

pytestmark = pytest.mark.anyio

FIELDS = {"message", "type", "param", "code"}


async def failed(there: Front, *messages: Any, **more: Any) -> openai.APIStatusError:
    """The error that a request gets."""
    with pytest.raises(openai.APIStatusError) as found:
        await there.ask(*(messages or ("hi",)), **more)
    assert set(json.loads(found.value.response.content)["error"]) == FIELDS
    return found.value


class TestTokensAndModels:
    async def test_a_wrong_token_is_an_authentication_error(self, there: Front) -> None:
        with pytest.raises(openai.AuthenticationError) as found:
            await there.another("wrong").models.list()
        assert found.value.code == "invalid_api_key"

    async def test_an_unknown_model_is_named_with_those_that_are_there(self, there: Front) -> None:
        error = await failed(there, model="gpt-5")
        assert (error.status_code, error.code, error.param) == (404, "model_not_found", "model")
        assert "handspan/General" in error.message
        with pytest.raises(openai.NotFoundError):
            await there.client.models.retrieve("gpt-5")

    async def test_agents_are_models_and_a_slash_in_the_path_may_be_encoded(self, tmp_path: Path) -> None:
        async with front(tmp_path, agents={"My Pirate": {"description": "Arr."}}) as there:
            listed = [model.id async for model in there.client.models.list()]
            assert listed == ["handspan", "handspan/General", "handspan/My Pirate"]
            assert (await there.client.models.retrieve("handspan/My Pirate")).id == "handspan/My Pirate"

    async def test_a_token_that_is_bound_to_an_agent_has_that_one_here_and_nothing_elsewhere(
        self, tmp_path: Path
    ) -> None:
        async with front(tmp_path, agents={"Pirate": {}, "General": {}}) as there:
            token = await there.parts.auth.issue("operator", ("chat", "agent:Pirate"), "webui")
            client = there.another(token)
            assert [model.id async for model in client.models.list()] == ["handspan", "handspan/Pirate"]
            answer = await client.chat.completions.create(model="handspan", messages=[user("hi")])
            assert answer.choices[0].message.content == "hi"
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="handspan/General", messages=[user("hi")])
            bearer = {"authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(base_url=there.gateway.url, headers=bearer) as http:
                for method, path in (
                    ("GET", "/api/sessions"),
                    ("GET", "/api/tools"),
                    ("POST", "/v1/graph/invoke"),
                    ("GET", "/v1/threads"),
                ):
                    assert (await http.request(method, path, json={})).status_code == 403, path

    async def test_a_wrong_token_is_told_how_to_get_one(self, there: Front) -> None:
        with pytest.raises(openai.AuthenticationError, match="handspan tokens new NAME --scope chat"):
            await there.another("wrong").models.list()

    async def test_a_token_that_may_not_chat_is_refused(self, there: Front) -> None:
        client = there.another(await there.parts.auth.issue("operator", ("tools",), "x"))
        with pytest.raises(openai.PermissionDeniedError):
            await client.models.list()


class TestBodies:
    @pytest.mark.parametrize(
        ("given", "param"),
        [
            ({"messages": "hi"}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
            ({"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
            ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
            ({"temperature": "warm"}, "temperature"),
            ({"n": 2}, "n"),
            ({"modalities": ["audio"]}, "audio"),
            ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
            ({"tools": [{"type": "function", "function": {"name": "", "parameters": {}}}]}, "tools"),
            ({"model": None}, "model"),
        ],
    )
    async def test_what_is_wrong_is_named(self, there: Front, given: dict[str, Any], param: str) -> None:
        body = {"model": "handspan", "messages": [user("hi")], **given}
        with pytest.raises(openai.BadRequestError) as found:
            await there.client.post("/chat/completions", cast_to=object, body=body)
        assert found.value.param == param

    async def test_a_body_that_is_no_json_is_refused(self, there: Front) -> None:
        response = await _post(there, b"{", "application/json")
        assert response.status_code == 400
        assert set(response.json()["error"]) == FIELDS

    async def test_a_body_that_is_too_large_is_read_and_refused(self, tmp_path: Path) -> None:
        async with front(tmp_path, fronts={"request_bytes": 1024}) as there:
            error = await failed(there, "x" * 100_000)
            assert (error.status_code, error.code) == (413, "request_too_large")
            assert "fronts.request_bytes" in error.message

    async def test_a_phones_picture_is_not_too_large(self, there: Front) -> None:
        assert len(await there.text("x" * 5_000_000)) == 5_000_000


class TestFailures:
    async def test_a_model_that_can_not_answer_is_an_error_that_may_be_tried_again(self, tmp_path: Path) -> None:
        async with front(
            tmp_path, Scripted([ModelError("overloaded", "Busy."), ModelError("overloaded", "Busy.")])
        ) as there:
            error = await failed(there)
            assert (error.status_code, error.code) == (503, "overloaded")
            assert "x-should-retry" not in error.response.headers
            error = await failed(there, stream=True)
            assert error.status_code == 503

    async def test_once_anything_has_run_no_client_tries_again_by_itself(self, tmp_path: Path) -> None:
        script: list[PlainTurn] = [call("read_file", path="x"), ModelError("overloaded", "Busy.")]
        async with front(tmp_path, Scripted(script)) as there:
            eager = there.another(there.gateway.token, max_retries=3)
            with pytest.raises(openai.InternalServerError) as found:
                await eager.chat.completions.create(model="handspan", messages=[user("hi")])
            assert found.value.response.headers["x-should-retry"] == "false"

    async def test_an_error_in_a_stream_ends_it(self, tmp_path: Path) -> None:
        script: list[PlainTurn] = [["Let me see.", call("read_file", path="x")], ModelError("refused", "Not that.")]
        async with front(tmp_path, Scripted(script)) as there:
            with pytest.raises(openai.APIError, match="Not that") as found:
                async for _ in await there.stream("hi"):
                    pass
            assert found.value.code == "content_filter"

    async def test_a_revoked_token_ends_its_stream(self, there: Front) -> None:
        held = there.hold()
        token = await there.parts.auth.issue("operator", ("chat",), "x")
        client = there.another(token)
        stream = await client.chat.completions.create(
            model="handspan", messages=[user("Wait.\ncall hold\nthen\nend")], stream=True
        )
        with pytest.raises(openai.APIError, match="revoked"):
            async for _ in stream:
                (_, record) = await there.parts.store.tokens.all(owner="operator")
                await there.parts.auth.revoke(record.hash, "operator")
        held.may_end.set()


class TestPaths:
    async def test_what_agents_have_not_is_refused_in_one_sentence(self, there: Front) -> None:
        with pytest.raises(openai.NotFoundError, match="has agents"):
            await there.client.embeddings.create(model="handspan", input="x")
        with pytest.raises(openai.NotFoundError):
            await there.client.audio.speech.create(model="handspan", input="x", voice="alloy")

    async def test_files_stay_the_graph_apis(self, there: Front) -> None:
        bearer = {"authorization": f"Bearer {there.gateway.token}"}
        async with httpx2.AsyncClient(base_url=there.gateway.url, headers=bearer) as http:
            assert set((await http.get("/v1/files/x/info")).json()) == {"error", "metadata"}
            assert set((await http.get("/v1/chat/completions")).json()["error"]) == FIELDS
            assert (await http.get("/v1/chat/completions")).status_code == 405

    async def test_a_page_of_a_known_origin_may_ask_and_any_other_may_not(self, tmp_path: Path) -> None:
        async with front(tmp_path, gateway={"origins": ["http://page.test"]}) as there:
            known = await _post(there, b"{}", "application/json", origin="http://page.test")
            assert known.status_code == 400
            assert known.headers["access-control-allow-origin"] == "http://page.test"
            other = await _post(there, b"{}", "application/json", origin="http://other.test")
            assert other.status_code == 403
            assert set(other.json()["error"]) == FIELDS


async def _post(there: Front, content: bytes, kind: str, **headers: str) -> httpx2.Response:
    given = {"authorization": f"Bearer {there.gateway.token}", "content-type": kind, **headers}
    async with httpx2.AsyncClient(base_url=there.gateway.url) as http:
        return await http.post("/v1/chat/completions", content=content, headers=given)


def test_every_fault_of_a_model_is_a_status_of_the_gateway() -> None:
    assert failure_of(Ended("error", "x", TurnFault("model", "auth")), has_run=False).status == 502
    assert failure_of(Ended("error", "x", TurnFault("model", "budget_spent")), has_run=False).status == 429
