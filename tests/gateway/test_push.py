"""Notifications of a gateway that runs: who is told of what, and the answers of their buttons (SPEC J4, P7)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from handspan.core.agents import Agent
from handspan.core.bus import MessageShown, QuestionOpened
from handspan.core.channels import OutgoingMessage
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question, QuestionAction
from handspan.core.values import JsonObject
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.entry.tokens import hash_of
from tests.gateway.push_service import Browser, PushService, push_service
from tests.gateway.rest.served import Rest, RestClient, is_error, serving, settings
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

SECRET_WORD = "the-arguments-of-the-call"


@pytest.fixture
async def service() -> AsyncIterator[PushService]:
    async with push_service() as service:
        yield service


@pytest.fixture
async def client(tmp_path: Path, service: PushService) -> AsyncIterator[RestClient]:
    """A gateway where a question waits an hour where it is shown first."""
    push: JsonObject = {"hosts": [service.url.removeprefix("http://")], "after": 3600, "subscriptions": 3}
    given = settings(tmp_path, push=push, channels={"page": {}})
    async with serving(Rest(given)) as client:
        await client.rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
        yield client


@pytest.fixture
def rest(client: RestClient) -> Rest:
    """That gateway from inside."""
    return client.rest


async def subscribed(client: RestClient, service: PushService, token: str | None = None) -> Browser:
    browser = Browser(service.url)
    answer = await client.post("/api/push", browser.json, token=token)
    assert answer.status_code == 201, answer.text
    return browser


async def asked(client: RestClient, name: str = "list_directory", **more: Any) -> dict[str, Any]:
    """A call that waits for its approval."""
    body = {"agent": "Asking", "args": {"path": SECRET_WORD}, **more}
    answer = await client.post(f"/api/tools/{name}/call", body)
    found: dict[str, Any] = answer.json()
    return found


async def press(client: RestClient, notice: dict[str, Any], decision: str, **other: str) -> Any:
    """Press a button of the notification, as the service worker does: without any token but that of the answer."""
    body = {
        "subscription": notice["subscription"],
        "question": notice["question"],
        "decision": decision,
        "token": notice[decision],
        **other,
    }
    return await client.post("/push/answer", body, token="")


async def open_questions(client: RestClient) -> int:
    return len((await client.get("/api/questions")).json()["questions"])


async def test_a_question_is_told_with_agent_and_tool_and_without_arguments(
    client: RestClient, service: PushService
) -> None:
    browser = await subscribed(client, service)
    await asked(client)
    [notice] = await service.notices(browser)
    assert (notice["title"], notice["body"]) == ("Asking asks", "May it use list_directory?")
    assert SECRET_WORD not in str(notice)


async def test_the_button_allows_once_and_the_call_runs(client: RestClient, service: PushService) -> None:
    browser = await subscribed(client, service)
    call = await asked(client, "get_current_time", args={})
    [notice] = await service.notices(browser)
    assert (await press(client, notice, "allow")).status_code == 200
    shown = (await client.get(f"/api/calls/{call['call_id']}?wait=20")).json()
    assert shown["status"] == "success"
    await asked(client, "get_current_time", args={})  # once: the next call asks again
    assert len(await service.notices(browser, 2)) == 2


async def test_the_button_denies_and_the_call_does_not_run(client: RestClient, service: PushService) -> None:
    browser = await subscribed(client, service)
    call = await asked(client)
    [notice] = await service.notices(browser)
    assert (await press(client, notice, "deny")).status_code == 200
    assert (await client.get(f"/api/calls/{call['call_id']}?wait=20")).json()["status"] == "approval_denied"


async def test_a_token_is_good_once_and_for_its_own_decision_question_and_browser(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    first, second = await subscribed(client, service), await subscribed(client, service)
    await subscribed(client, service, rest.stranger_token)
    [theirs] = (await client.stranger("GET", "/api/push")).json()["subscriptions"]
    await asked(client)
    [mine], [other] = await service.notices(first), await service.notices(second)
    await asked(client, args={"path": "elsewhere"})
    later = (await service.notices(first, 2))[1]
    for wrong in (
        {"decision": "allow", "token": mine["deny"]},
        {"decision": "allow", "subscription": other["subscription"]},
        {"decision": "allow", "question": later["question"]},
        {"decision": "allow", "token": ""},
        {"decision": "allow", "token": "f" * 64},
        {"decision": "allow", "subscription": "nobody"},
        {"decision": "allow", "subscription": theirs["id"]},
    ):
        assert is_error(await press(client, mine, **wrong), 403, "forbidden"), wrong
    assert await open_questions(client) == 2
    at_once = await asyncio.gather(*(press(client, mine, "allow") for _ in range(3)))
    assert sorted(answer.status_code for answer in at_once) == [200, 403, 403]
    assert is_error(await press(client, other, "deny"), 403, "forbidden")


async def test_a_token_is_worth_nothing_when_its_question_was_answered_elsewhere(
    client: RestClient, service: PushService
) -> None:
    browser = await subscribed(client, service)
    await asked(client)
    [notice] = await service.notices(browser)
    answered = await client.post(
        f"/api/questions/{notice['question'].replace('/', '%2F').replace(' ', '%20')}/answer", {"decision": "deny"}
    )
    assert answered.status_code == 200
    assert is_error(await press(client, notice, "allow"), 403, "forbidden")


async def test_a_token_ends_with_its_browser_and_with_the_sign_in_of_that(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    token = await rest.parts.auth.issue(OPERATOR.owner, ("chat",))
    removed, signed_out = await subscribed(client, service), await subscribed(client, service, token)
    await asked(client)
    [first], [second] = await service.notices(removed), await service.notices(signed_out)
    assert (await client.ask("DELETE", f"/api/push/{first['subscription']}")).status_code == 200
    assert is_error(await press(client, first, "allow"), 403, "forbidden")
    assert await rest.parts.auth.revoke(hash_of(token), OPERATOR.owner)
    assert is_error(await press(client, second, "allow"), 403, "forbidden")
    assert (await client.get("/api/push")).json()["subscriptions"] == []
    assert await open_questions(client) == 1


async def test_another_owner_is_not_told_and_neither_sees_nor_removes_nor_tests_the_browser(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    mine, theirs = await subscribed(client, service), await subscribed(client, service, rest.stranger_token)
    await asked(client)
    [notice] = await service.notices(mine)
    own = (await client.get("/api/push")).json()["subscriptions"]
    assert [one["id"] for one in own] == [notice["subscription"]]
    assert is_error(await client.stranger("DELETE", f"/api/push/{own[0]['id']}"), 404, "not_found")
    assert is_error(await client.stranger("POST", f"/api/push/{own[0]['id']}/test"), 404, "not_found")
    assert not [path for path, _, _ in service.requests if theirs.endpoint.endswith(path)]


FORMS: dict[str, dict[str, Any]] = {
    "input": {"schema": {"type": "string"}},
    "login": {"action": QuestionAction(url="https://login.example.com/")},
    "trust": {"action": QuestionAction(new={"name": "paint"})},
}


@pytest.mark.parametrize("kind", FORMS)
async def test_what_needs_a_form_or_an_administrator_only_opens_the_page(
    client: RestClient, service: PushService, rest: Rest, kind: Any
) -> None:
    everybody = await rest.parts.auth.issue(OPERATOR.owner, ("chat",))
    admin, other = await subscribed(client, service), await subscribed(client, service, everybody)
    question = Question("q1", kind, "", "paint", {}, SECRET_WORD, OPERATOR.owner, "", "f", 60.0)
    question = structs.replace(question, **FORMS[kind])
    asking = asyncio.create_task(rest.questions.ask(question))
    [notice] = await service.notices(admin)
    assert not {"allow", "deny", "question"} & notice.keys() and SECRET_WORD not in str(notice)
    assert is_error(
        await press(client, {**notice, "question": "q1", "subscription": "s", "allow": "f"}, "allow"), 403, "forbidden"
    )
    if kind != "trust":  # which only an administrator sees
        await service.notices(other)
    await rest.questions.take_back(question)
    asking.cancel()
    await asyncio.wait([asking])
    assert len([1 for path, _, _ in service.requests if other.endpoint.endswith(path)]) == (kind != "trust")


async def test_a_page_in_view_comes_first_and_keeps_the_browsers_quiet(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    browser = await subscribed(client, service)
    page = rest.parts.live.subscribe(OPERATOR.owner)
    quiet = await asked(client)
    await until(lambda: rest.parts.push._asked)
    page.end()
    loud = await asked(client, args={"path": "elsewhere"})
    [notice] = await service.notices(browser)
    assert notice["tag"] == loud["questions"][0] != quiet["questions"][0]


async def test_a_question_that_nobody_answers_on_the_page_in_view_is_told_after_a_while(
    tmp_path: Path, service: PushService
) -> None:
    push: JsonObject = {"hosts": [service.url.removeprefix("http://")], "after": 0.001}
    async with serving(Rest(settings(tmp_path, push=push))) as client:
        await client.rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
        browser = await subscribed(client, service)
        page = client.rest.parts.live.subscribe(OPERATOR.owner)
        await asked(client)
        assert len(await service.notices(browser)) == 1
        page.end()


async def test_an_answer_on_the_page_ends_the_wait_without_a_notification(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    await subscribed(client, service)
    page = rest.parts.live.subscribe(OPERATOR.owner)
    question = Question("q1", "input", "", "paint", {}, "Which?", OPERATOR.owner, "", "f", 60.0, **FORMS["input"])
    asking = asyncio.create_task(rest.questions.ask(question))
    await until(lambda: rest.parts.push._asked)
    assert await rest.questions.answer("q1", Answer("deny"), person(OPERATOR))
    await soon(asking)
    await until(lambda: not len(rest.parts.push._tasks))
    page.end()
    assert not service.requests


async def test_a_page_on_another_node_counts_as_one_in_view(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    """The other node says so on the bus: here the test does."""
    browser = await subscribed(client, service)

    async def pause(seconds: float, until: asyncio.Event | None = None) -> bool:
        rest.bus.publish(MessageShown(OPERATOR.owner, next(iter(rest.parts.push._asked))))
        return True

    vars(rest.parts.nodes)["pause"] = pause
    await asked(client)
    await until(lambda: any(one.shown.is_set() for one in rest.parts.push._asked.values()))
    del vars(rest.parts.nodes)["pause"]
    await asked(client, args={"path": "elsewhere"})
    assert len(await service.notices(browser)) == 1


async def test_a_message_that_no_page_shows_is_told_without_its_text(client: RestClient, service: PushService) -> None:
    browser = await subscribed(client, service)
    args = {"channel": "page", "chat_id": "all", "content": SECRET_WORD}
    answer = await client.post("/api/tools/message/call", {"args": args})
    assert answer.json()["status"] == "success", answer.text
    [notice] = await service.notices(browser)
    assert notice["kind"] == "message" and SECRET_WORD not in str(notice)
    assert service.requests[0][1]["urgency"] == "normal"


async def test_a_message_that_a_page_shows_is_not_told_again(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    await subscribed(client, service)
    page = rest.parts.live.subscribe(OPERATOR.owner)
    args = {"channel": "page", "chat_id": "all", "content": "Hello"}
    assert (await client.post("/api/tools/message/call", {"args": args})).json()["status"] == "success"
    assert not service.requests
    page.end()


async def test_a_browser_that_its_service_has_forgotten_is_removed(client: RestClient, service: PushService) -> None:
    await subscribed(client, service)
    [one] = (await client.get("/api/push")).json()["subscriptions"]
    assert one["last_success"] is None and one["host"] == "127.0.0.1" and one["current"]
    assert (await client.post(f"/api/push/{one['id']}/test")).status_code == 200
    [one] = (await client.get("/api/push")).json()["subscriptions"]
    assert one["last_success"] is not None
    service.answers = ["410 Gone"]
    assert is_error(await client.post(f"/api/push/{one['id']}/test"), 502, "not_delivered")
    assert (await client.get("/api/push")).json()["subscriptions"] == []


async def test_the_endpoint_is_shown_to_no_client(client: RestClient, service: PushService) -> None:
    browser = await subscribed(client, service)
    assert browser.endpoint not in (await client.get("/api/push")).text


async def test_a_flood_of_subscriptions_ends_at_the_setting_and_the_same_browser_stays_one(
    client: RestClient, service: PushService
) -> None:
    browsers = [await subscribed(client, service) for _ in range(3)]
    assert (await client.post("/api/push", browsers[0].json)).status_code == 201
    assert is_error(await client.post("/api/push", Browser(service.url).json), 409, "conflict")
    assert len((await client.get("/api/push")).json()["subscriptions"]) == 3


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"endpoint": "https://127.0.0.1/a"}, "unusable"),
        ({"endpoint": "http://push.example.com/a"}, "unusable"),
        ({"endpoint": "nonsense"}, "unusable"),
        ({"keys": {"p256dh": "BB", "auth": "AA"}}, "unusable"),
        ({"endpoint": "a" * 5000}, "invalid_request"),
        ({"keys": {}}, "invalid_request"),
        ({"label": "x" * 100}, "invalid_request"),
    ],
)
async def test_what_is_no_subscription_is_refused(
    client: RestClient, service: PushService, wrong: Any, code: str
) -> None:
    answer = await client.post("/api/push", {**Browser(service.url).json, **wrong})
    assert is_error(answer, 409 if code == "unusable" else 422, code)
    assert (await client.get("/api/push")).json()["subscriptions"] == []


async def test_a_device_may_not_subscribe(client: RestClient, service: PushService, rest: Rest) -> None:
    answer = await client.post("/api/push", Browser(service.url).json, token=rest.device_token)
    assert answer.status_code == 403


async def test_many_wrong_answers_of_one_address_have_to_wait(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    browser = await subscribed(client, service)
    await asked(client)
    [notice] = await service.notices(browser)
    rest.state.push_tries = TryLimit(2, 60.0)
    for _ in range(2):
        assert is_error(await press(client, notice, "allow", token="f"), 403, "forbidden")
    assert is_error(await press(client, notice, "allow"), 429, "too_many_tries")


async def test_a_flood_of_notifications_is_dropped_beyond_a_bound(
    client: RestClient, service: PushService, rest: Rest
) -> None:
    await subscribed(client, service)
    service.goes_on.clear()
    message = OutgoingMessage("page", "all", "Hello", OPERATOR.owner)
    sending = [asyncio.create_task(rest.parts.push.tell_message(message)) for _ in range(64)]
    await until(lambda: len(service.requests) == 16)  # so many at once, of all owners together
    assert not await soon(rest.parts.push.tell_message(message))
    service.goes_on.set()
    assert all(await soon(asyncio.gather(*sending)))
    assert len(service.requests) == 64


async def test_a_gateway_inside_a_command_notifies_no_browser(tmp_path: Path, service: PushService) -> None:
    given = settings(tmp_path, push={"hosts": [service.url.removeprefix("http://")]})
    async with serving(Rest(given)) as client:
        await subscribed(client, service)
    async with serving(Rest(given, is_inside=True)) as client:
        push = client.rest.parts.push
        assert await push.subscriptions(OPERATOR.owner)
        question = Question("q1", "approval", "", "paint", {}, "Why", OPERATOR.owner, "", "f", 60.0)
        client.rest.bus.publish(QuestionOpened(OPERATOR.owner, question))
        assert not push._asked and not len(push._tasks)
        assert not await push.tell_message(OutgoingMessage("page", "all", "Hello", OPERATOR.owner))


async def test_a_restart_keeps_browsers_key_and_tokens(tmp_path: Path, service: PushService) -> None:
    given = settings(tmp_path, push={"hosts": [service.url.removeprefix("http://")]})
    async with serving(Rest(given)) as client:
        await client.rest.app.agents.create(Agent("Asking", mode="ask_always"), owner=OPERATOR.owner)
        browser = await subscribed(client, service)
        key = (await client.get("/api/push")).json()["public_key"]
        call = await asked(client, "get_current_time", args={})
        [notice] = await service.notices(browser)
    async with serving(Rest(given)) as client:
        assert (await client.get("/api/push")).json()["public_key"] == key
        assert (await press(client, notice, "deny")).status_code == 200

        async def is_denied() -> bool:
            shown = (await client.get(f"/api/calls/{call['call_id']}")).json()
            return bool(shown["status"] == "approval_denied")

        await until(is_denied)
