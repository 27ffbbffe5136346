"""The webhook: a message in, an answer out, once for each key."""

import asyncio
from typing import Any

import pytest

from handspan import Pending, tool
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.models.model import ModelError
from handspan.models.scripted import call
from tests.gateway.rest.served import STRANGER, Counting, Rest, RestClient, is_error, session_of

pytestmark = pytest.mark.anyio

KEY = {"x-idempotency-key": "k1"}


@pytest.mark.parametrize("body", [{}, {"message": ""}, {"message": " "}, {"message": 1}, {"message": None}, []])
async def test_a_message_without_words_is_refused(client: RestClient, body: Any) -> None:
    assert is_error(await client.post("/webhook", body), 422, "invalid_request")


async def test_an_answer_has_the_fields_that_old_clients_read(client: RestClient) -> None:
    answer = await client.post("/webhook", {"message": "Hi", "unknown": 1})
    told = answer.json()
    assert answer.status_code == 200
    assert (told["response"], told["model"], set(told)) == ("Hello.", "scripted", {"response", "model", "session_id"})
    messages = (await client.get(f"/api/sessions/{told['session_id']}/messages")).json()["messages"]
    assert [one["content"] for one in messages] == ["Hi", "Hello."]


async def test_a_session_goes_on(client: RestClient) -> None:
    for _ in range(2):
        answer = await client.post("/webhook", {"message": "Hi"}, headers={"x-session-id": "my.session_1"})
        assert answer.json()["session_id"] == "my.session_1"
    assert (await client.get("/api/sessions/my.session_1")).json()["message_count"] == 4


@pytest.mark.parametrize("session", ["a b", "a/b", "x" * 129])
async def test_a_session_id_that_can_not_be_is_refused(client: RestClient, session: str) -> None:
    answer = await client.post("/webhook", {"message": "Hi"}, headers={"x-session-id": session})
    assert is_error(answer, 422, "invalid_request")


async def test_somebody_elses_session_is_not_talked_in(client: RestClient, rest: Rest) -> None:
    theirs = await session_of(rest, STRANGER)
    answer = await client.post("/webhook", {"message": "Hi"}, headers={"x-session-id": theirs})
    assert is_error(answer, 409, "session_owner_mismatch")
    assert (await client.stranger("GET", f"/api/sessions/{theirs}")).json()["message_count"] == 0


async def test_the_persona_is_the_agent(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "Poet"})
    by_body = await client.post("/webhook", {"message": "Hi", "persona": "Poet"})
    by_header = await client.post("/webhook", {"message": "Hi"}, headers={"x-persona": "Poet"})
    for answer in (by_body, by_header):
        session = (await client.get(f"/api/sessions/{answer.json()['session_id']}")).json()
        assert session["persona"] == "Poet"
    assert is_error(await client.post("/webhook", {"message": "Hi", "persona": "Nobody"}), 404, "not_found")


async def test_a_model_that_fails_is_told(client: RestClient, rest: Rest) -> None:
    rest.script = [ModelError("overloaded", "The model is busy. Try later.")]
    answer = await client.post("/webhook", {"message": "Hi"}, headers=KEY)
    assert is_error(answer, 500, "model_failed")
    assert answer.json()["error"] == "LLM request failed: The model is busy. Try later."


async def test_a_failed_try_may_be_made_again_under_its_key(client: RestClient, rest: Rest) -> None:
    rest.script = [ModelError("overloaded", "Busy."), "Hello."]
    session = {**KEY, "x-session-id": "one"}
    assert (await client.post("/webhook", {"message": "Hi"}, headers=session)).status_code == 500
    assert (await client.post("/webhook", {"message": "Hi"}, headers=session)).json()["response"] == "Hello."


async def test_the_same_key_and_message_get_the_stored_answer(client: RestClient) -> None:
    first = (await client.post("/webhook", {"message": "Hi"}, headers=KEY)).json()
    second = (await client.post("/webhook", {"message": "Hi"}, headers=KEY)).json()
    assert second == {**first, "status": "duplicate", "idempotent": True}
    other = await client.post("/webhook", {"message": "Ho"}, headers=KEY)
    assert is_error(other, 409, "idempotency_conflict")
    theirs = await client.ask("POST", "/webhook", {"message": "Ho"}, headers=KEY, token=client.rest.stranger_token)
    assert "status" not in theirs.json()
    assert len((await client.get("/api/sessions")).json()["sessions"]) == 1


async def test_the_same_key_at_once_is_answered_once(client: RestClient, rest: Rest) -> None:
    counting = Counting(rest)
    counting.may_end.clear()
    rest.script = [call("counting"), "Done."]
    asking = [asyncio.create_task(client.post("/webhook", {"message": "Hi"}, headers=KEY)) for _ in range(5)]
    async with asyncio.timeout(60):
        await counting.began.wait()
        counting.may_end.set()
        answers = [answer.json() for answer in await asyncio.gather(*asking)]
    assert [answer["response"] for answer in answers] == ["Done."] * 5
    assert sum("status" not in answer for answer in answers) == 1 and counting.runs == 1


async def test_who_waits_for_a_try_that_fails_may_try_again(client: RestClient, rest: Rest) -> None:
    counting = Counting(rest)
    counting.may_end.clear()
    rest.script = [call("counting"), ModelError("overloaded", "Busy.")]
    first = asyncio.create_task(client.post("/webhook", {"message": "Hi"}, headers=KEY))
    async with asyncio.timeout(60):
        await counting.began.wait()
        second = asyncio.create_task(client.post("/webhook", {"message": "Hi"}, headers=KEY))
        while len(rest.state.webhook_tries._tried["127.0.0.1"].at) < 2:
            await asyncio.sleep(0.01)
        counting.may_end.set()
        assert (await first).status_code == 500
        assert is_error(await second, 503, "try_again")


async def test_too_many_messages_of_one_address_have_to_wait(client: RestClient, rest: Rest) -> None:
    rest.state.webhook_tries = TryLimit(2, 60.0)
    for _ in range(2):
        assert (await client.post("/webhook", {"message": "Hi"})).status_code == 200
    late = await client.post("/webhook", {"message": "Hi"})
    assert is_error(late, 429, "rate_limited") and 0 < int(late.headers["retry-after"]) <= 60


async def test_a_turn_that_waits_for_a_person_is_pending(client: RestClient, rest: Rest) -> None:
    @tool
    async def later() -> Any:
        """Answer another day."""
        return Pending()

    rest.app.registry.register(later)
    rest.script = [call("later"), "Done."]
    answer = await client.post("/webhook", {"message": "Hi"}, headers={**KEY, "x-session-id": "w"})
    assert (answer.status_code, answer.json()) == (202, {"status": "pending", "session_id": "w"})
    again = await client.post("/webhook", {"message": "Hi"}, headers={**KEY, "x-session-id": "w"})
    assert (again.status_code, again.json()) == (202, {"status": "pending", "session_id": "w"})
    assert (await client.get("/api/sessions/w/state")).json()["state"] == "waiting"
    busy = await client.post("/webhook", {"message": "Ho"}, headers={"x-session-id": "w"})
    assert is_error(busy, 409, "session_busy")
