"""Questions of devices to their owners: whether something may be trusted (ws.md 7.5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from handspan.core.principals import Principal
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Decision, Question
from handspan.gateway.clients import trust
from handspan.testing import FakeDevice, RunningGateway, running_gateway
from tests.waiting import until

pytestmark = pytest.mark.anyio

ANN, BOB = "ann", "bob"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path) as running:
        yield running


@asynccontextmanager
async def bridge_of(gateway: RunningGateway, owner: str) -> AsyncIterator[FakeDevice]:
    token = await gateway.gateway.parts.auth.issue(owner, ("device",))
    async with FakeDevice(gateway.url, token) as device:
        await device.connect(label="bridge", capabilities=("trust",))
        yield device


async def ask(device: FakeDevice, question_id: str, starts: str) -> None:
    subject = f"May the bridge start {starts}?"
    await device.send({"type": "trust_request", "id": question_id, "subject": subject, "new": {"starts": starts}})


async def question_of(gateway: RunningGateway, owner: str) -> Question:
    async def is_asked() -> bool:
        return bool(await gateway.gateway.parts.questions.open_for(owner=owner))

    await until(is_asked)
    (question,) = await gateway.gateway.parts.questions.open_for(owner=owner)
    return question


async def answer(gateway: RunningGateway, owner: str, decision: Decision) -> str:
    question = await question_of(gateway, owner)
    assert await gateway.gateway.parts.questions.answer(
        question.id, Answer(decision), person(Principal(owner, ("admin",)))
    )
    return question.subject


async def test_two_owners_whose_devices_ask_under_the_same_id_are_asked_both_and_each_device_gets_its_own_answer(
    gateway: RunningGateway,
) -> None:
    async with bridge_of(gateway, ANN) as anns, bridge_of(gateway, BOB) as bobs:
        await ask(anns, "start-1", "mail")
        await question_of(gateway, ANN)
        await ask(bobs, "start-1", "notes")
        assert await answer(gateway, BOB, "deny") == "May the bridge start notes?"
        assert (await bobs.expect("trust_answer"))["decision"] == "deny"
        assert await answer(gateway, ANN, "allow") == "May the bridge start mail?"
        assert (await anns.expect("trust_answer"))["decision"] == "allow"


async def test_an_owner_gets_no_answer_of_another_owner_later(gateway: RunningGateway) -> None:
    async with bridge_of(gateway, ANN) as anns, bridge_of(gateway, BOB) as bobs:
        await ask(anns, "start-1", "mail")
        await answer(gateway, ANN, "allow")
        await anns.expect("trust_answer")
        await ask(bobs, "start-1", "notes")
        await answer(gateway, BOB, "deny")
        assert (await bobs.expect("trust_answer"))["decision"] == "deny"


async def test_of_too_many_open_questions_the_next_one_expires_at_once(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_MOST_OPEN", 1)
    async with bridge_of(gateway, ANN) as device:
        await ask(device, "start-1", "mail")
        await ask(device, "start-2", "notes")
        assert await device.expect("trust_answer") == {"type": "trust_answer", "id": "start-2", "decision": "expired"}
        await answer(gateway, ANN, "allow")
        assert (await device.expect("trust_answer"))["id"] == "start-1"
