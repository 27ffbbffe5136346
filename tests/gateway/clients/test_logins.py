"""Logins that a device's tool wants: the call stays open, the person logs in, the call runs (SPEC P6; ws.md 5.13)."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan.core.calls import new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.values import JsonObject
from handspan.testing import FakeDevice, RunningGateway, running_gateway
from handspan.testing.device import offer
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

CAN = ("resume", "login", "cancel", "deadline", "progress")
HOLDINGS = offer("get_holdings", annotations={"read_only": True})
OWNER = "operator"
ME = person(OPERATOR)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path) as running:
        yield running


class Login:
    """A device whose tool was called, and wants a login."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.device = FakeDevice(gateway.url, gateway.token)
        self.request: JsonObject = {}
        self.resume: Any = ""
        self.calling: asyncio.Task[ToolResult]

    async def begin(self, *, can: tuple[str, ...] = CAN, **more: Any) -> None:
        self.resume = (await self.device.connect(label="app", capabilities=can)).get("resume_token")
        await self.device.register(HOLDINGS)
        self.calling = asyncio.create_task(self.gateway.call_as(new_call_id(), "app__get_holdings", {}))
        self.request = await self.device.expect("tool_call_request")
        assert "retry" not in self.request
        await self.refuse(**more)

    async def refuse(self, **more: Any) -> None:
        fields = {"resolution_hint": "Open the app", "authorize_intent": "open", **more}
        await self.device.fail(self.request, "not allowed yet", "auth_required", **fields)

    async def come_back(self) -> None:
        connected = await self.device.connect(label="app", capabilities=CAN, resume=self.resume)
        assert connected["resumed"] is True

    async def question(self) -> Question:
        return await question_of(self.gateway)

    async def answer(self, decision: Any) -> None:
        question = await self.question()
        assert await self.gateway.gateway.parts.questions.answer(question.id, Answer(decision), ME)

    async def result(self) -> ToolResult:
        return await soon(self.calling)

    async def value(self) -> Any:
        result = await self.result()
        assert isinstance(result, Success), result
        return result.value


async def question_of(gateway: RunningGateway) -> Question:
    """The one open question."""

    async def asked() -> bool:
        return bool(await gateway.gateway.parts.questions.open_for(owner=OWNER))

    await until(asked)
    (question,) = await gateway.gateway.parts.questions.open_for(owner=OWNER)
    return question


async def test_without_the_capability_the_error_is_the_result_with_the_hint(gateway: RunningGateway) -> None:
    login = Login(gateway)
    await login.begin(can=("resume",))
    assert await login.result() == Failure("auth_required", "not allowed yet — Open the app")
    assert await gateway.gateway.parts.questions.open_for(owner=OWNER) == []


@pytest.mark.parametrize("decision", ["deny", "deny_forever"])
async def test_a_login_that_the_person_refuses_is_the_error_with_the_hint(
    gateway: RunningGateway, decision: str
) -> None:
    login = Login(gateway)
    await login.begin()
    question = await login.question()
    assert (question.kind, question.call_id, question.tool) == ("login", login.request["id"], "app__get_holdings")
    assert question.action is not None
    assert (question.action.intent, question.action.hint) == ("open", "Open the app")
    assert login.device.unexpected("result_acknowledged") == []
    await login.answer(decision)
    assert await login.result() == Failure("auth_required", "not allowed yet — Open the app")
    await login.device.expect("result_acknowledged", id=login.request["id"])


async def test_a_login_that_the_person_does_not_answer_is_the_same_error(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tools={"question_timeout": 0.05}) as gateway:
        login = Login(gateway)
        await login.begin()
        assert await login.result() == Failure("auth_required", "not allowed yet — Open the app")


async def test_after_the_login_the_call_runs_again_and_the_persons_time_does_not_count(
    gateway: RunningGateway,
) -> None:
    login = Login(gateway)
    await login.begin()
    began = time.monotonic()
    question = await login.question()
    assert await gateway.gateway.parts.questions.start_login(question.id, ME)
    await login.device.expect("login_start", id=question.id, call_id=login.request["id"])
    person_takes = 0.2
    await asyncio.sleep(person_takes)
    await login.answer("allow")
    again = await login.device.expect("tool_call_request", id=login.request["id"])
    took = time.monotonic() - began
    assert (again["retry"], "again" in again) == (1, False)
    first, second = int(str(login.request["timeout_ms"])), int(str(again["timeout_ms"]))
    assert first - second <= (took - person_takes) * 1000 + 100
    await login.device.answer(again, "12 shares")
    assert await login.value() == "12 shares"
    await login.device.expect("result_acknowledged", id=login.request["id"])
    (record,) = await gateway.journal()
    assert record.waited >= person_takes


async def test_a_second_login_is_asked_for_and_a_repeated_wish_for_the_first_is_dropped(
    gateway: RunningGateway,
) -> None:
    login = Login(gateway)
    await login.begin()
    await login.refuse()  # sent twice, as after a drop of the link
    await login.answer("allow")
    again = await login.device.expect("tool_call_request", retry=1)
    await login.refuse()  # the first one, late
    await login.refuse(retry=1, resolution_hint="Once more")
    question = await login.question()
    assert question.action is not None and question.action.hint == "Once more"
    await login.answer("allow")
    await login.device.expect("tool_call_request", retry=2)
    await login.device.answer(again, "ok")
    assert await login.value() == "ok"


async def test_a_login_outlives_a_dropped_link(gateway: RunningGateway) -> None:
    login = Login(gateway)
    await login.begin()
    question = await login.question()
    await login.device.drop()
    assert await gateway.gateway.parts.questions.start_login(question.id, ME)
    await login.come_back()
    await login.refuse()  # it was not acknowledged
    await login.device.expect("login_start", id=question.id)
    await login.device.register(HOLDINGS)
    assert login.device.unexpected("tool_call_request") == []
    await login.device.drop()
    await login.answer("allow")
    await login.come_back()
    await login.refuse()
    again = await login.device.expect("tool_call_request")
    assert again["retry"] == 1
    await login.device.answer(again, "ok")
    assert await login.value() == "ok"


async def test_a_device_that_is_gone_for_good_ends_the_login_and_its_question(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, gateway={"resume_grace": 0.01}) as gateway:
        login = Login(gateway)
        await login.begin()
        await login.question()
        await login.device.drop()
        failure = await login.result()
        assert isinstance(failure, Failure) and failure.code == "disconnected"
        assert "safe to call it again" in failure.message

        async def closed() -> bool:
            return not await gateway.gateway.parts.questions.open_for(owner=OWNER)

        await until(closed)


async def test_a_call_that_is_given_up_ends_its_login(gateway: RunningGateway) -> None:
    login = Login(gateway)
    await login.begin()
    question = await login.question()
    login.calling.cancel()
    await login.device.expect("result_acknowledged", id=login.request["id"])
    assert not await gateway.gateway.parts.questions.answer(question.id, Answer("allow"), ME)
    assert not await gateway.gateway.parts.questions.start_login(question.id, ME)


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_login_outlives_a_gateway_that_dies(tmp_path: Path, decision: str) -> None:
    async with running_gateway(tmp_path) as gateway:
        login = Login(gateway)
        await login.begin()
        before = await login.question()
        await gateway.gateway.parts.store.close()  # as if it were killed: nothing more is written
        login.calling.cancel()
    async with running_gateway(tmp_path) as gateway:
        login.gateway, login.device = gateway, FakeDevice(gateway.url, gateway.token)
        assert (await login.question()).id == before.id
        await login.come_back()
        await login.refuse()
        await login.device.register(HOLDINGS)
        assert await gateway.gateway.parts.questions.start_login(before.id, ME)
        await login.device.expect("login_start", id=before.id)
        await login.answer(decision)
        if decision == "allow":
            again = await login.device.expect("tool_call_request")
            assert again["retry"] == 1
            await login.device.answer(again, "12 shares")
        await login.device.expect("result_acknowledged", id=login.request["id"])
        (record,) = await gateway.journal()
        assert isinstance(record.result, Success if decision == "allow" else Failure)


async def test_a_login_that_is_done_while_the_device_is_away_runs_when_it_is_back(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        login = Login(gateway)
        await login.begin()
        await login.question()
        await gateway.gateway.parts.store.close()
        login.calling.cancel()
    async with running_gateway(tmp_path) as gateway:
        login.gateway, login.device = gateway, FakeDevice(gateway.url, gateway.token)
        await login.answer("allow")
        await login.come_back()
        await login.refuse()
        await login.device.register(HOLDINGS)
        again = await login.device.expect("tool_call_request", retry=1)
        await login.refuse(retry=1)  # not yet: the person has to log in once more
        await login.answer("allow")
        await login.device.expect("tool_call_request", retry=2)
        await login.device.answer(again, "12 shares")
        await login.device.expect("result_acknowledged", id=login.request["id"])


async def test_a_chat_starts_and_answers_a_login_and_one_that_no_device_can_start_says_so(
    gateway: RunningGateway,
) -> None:
    login = Login(gateway)
    async with FakeDevice(gateway.url, gateway.token) as chat:
        await chat.connect(role="chat", capabilities=("events", "questions", "question_kinds"))
        await login.begin()
        question = await login.question()
        await chat.send({"type": "login_start", "id": question.id})
        await login.device.expect("login_start", id=question.id)
        await chat.send({"type": "answer", "id": question.id, "decision": "allow"})
        await login.device.expect("tool_call_request", retry=1)
        await login.refuse(retry=1, authorize_intent="")
        question = await login.question()
        await chat.send({"type": "login_start", "id": question.id})
        assert (await chat.expect("error"))["code"] == "INVALID_ANSWER"
        await login.answer("deny")
        await chat.send({"type": "login_start", "id": question.id})
        await chat.expect("question_closed", id=question.id)
    assert isinstance(await login.result(), Failure)
