"""The Kotlin kit at a real gateway: a phone's own tools, and the apps that it bridges."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sdks.android.test.conftest import classpath_of, robolectric
from sdks.android.test.kotlin_client import Jvm
from tests.bridge.desk import answer, devices, failure, offered, question, value
from tests.waiting import soon, until

from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.results import Success
from handspan.testing import RunningGateway, running_gateway

pytestmark = pytest.mark.anyio

OWN = [f"phone__{name}" for name in ("large", "picture", "device_info", "camera", "contacts", "sensors")]
FINANCE = ["myfinance__get_portfolio_holdings", "myfinance__get_transactions"]
AUTHORIZE = "com.example.myfinance.ACTION_AUTHORIZE_CLAWSEED"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path / "gateway", channels={"page": {}}) as running:
        yield running


async def start_phone(gateway: RunningGateway, folder: Path, token: str = "") -> Jvm:
    about = {"phone_url": gateway.url, "phone_token": token or gateway.token, "phone_folder": str(folder)}
    running = await Jvm.start(classpath_of("sample"), "org.handspan.test.PhoneMainKt", **about, **robolectric())
    return await running.ready()


@pytest.fixture
async def phone(gateway: RunningGateway, tmp_path: Path) -> AsyncIterator[Jvm]:
    running = await start_phone(gateway, tmp_path / "phone")
    yield running
    await running.close()


async def told(phone: Jvm, event: str) -> str:
    """What the phone tells with the next event of this kind."""
    while (found := await phone.event())["event"] != event:
        pass
    return str(found["text"])


async def started(phone: Jvm) -> str:
    """The screens that were started until now."""
    phone.tell(do="started")
    return await told(phone, "started")


async def test_a_phone_s_own_tools_are_called_and_its_permissions_asked_for(
    gateway: RunningGateway, phone: Jvm
) -> None:
    await offered(gateway, *OWN, *FINANCE)
    info = await value(gateway, "phone__device_info")
    assert set(info) == {"model", "manufacturer", "android_version", "api_level"} and info["api_level"] == 35
    assert (await value(gateway, "phone__sensors", type="accelerometer"))["z"] == 9.5
    assert (await failure(gateway, "phone__sensors", type="smell")).code == "invalid_arguments"
    calling = asyncio.create_task(value(gateway, "phone__contacts", query="Ann"))
    assert await told(phone, "asked") == "android.permission.READ_CONTACTS"
    assert not calling.done(), "no screen of the app is there: the question waits (SPEC P3)"
    phone.tell(do="screen")  # the person comes back to the app, and agrees in the system's dialog
    assert await soon(calling) == [{"name": "Ann", "numbers": ["1", "2"]}]
    assert await value(gateway, "phone__contacts", query="Nobody") == [], "Android has the permission now"


async def test_large_results_and_pictures_arrive(gateway: RunningGateway, phone: Jvm) -> None:
    await offered(gateway, *OWN, *FINANCE)
    result = await soon(gateway.call("phone__large"))
    assert isinstance(result, Success)
    assert "result.txt" in str(result.value) and len(result.attachments) == 1
    result = await soon(gateway.call("phone__picture"))
    assert isinstance(result, Success)
    assert [one.media_type for one in result.attachments] == ["image/png"]


async def test_what_an_agent_writes_to_the_person_is_shown_on_the_phone(gateway: RunningGateway, phone: Jvm) -> None:
    await offered(gateway, *OWN, *FINANCE)
    sent = await soon(gateway.call("message", channel="page", chat_id="all", content="Grüße"))
    assert isinstance(sent, Success)
    assert await told(phone, "shown") == "page all Grüße"


async def test_tools_are_back_after_the_gateway_or_the_phone_was_restarted(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    phone = await start_phone(gateway, tmp_path / "phone")
    await offered(gateway, *OWN, *FINANCE)
    await gateway.restart()
    await offered(gateway, *OWN, *FINANCE)
    await phone.close()
    await offered(gateway)
    phone = await start_phone(gateway, tmp_path / "phone")
    await offered(gateway, *OWN, *FINANCE)
    assert sorted(await devices(gateway)) == ["bridge", "myfinance", "phone"], "they are the same devices as before"
    await phone.close()


async def test_an_app_that_did_not_answer_is_tried_again_at_the_next_connection(
    gateway: RunningGateway, phone: Jvm
) -> None:
    await offered(gateway, *OWN, *FINANCE)
    phone.tell(do="remove")
    await offered(gateway, *OWN)
    phone.tell(do="install", broken=True)

    async def is_told() -> bool:
        notes = (await devices(gateway)).get("bridge", {}).get("notes") or []
        return any(note.startswith("com.example.myfinance: ") for note in notes)

    await until(is_told)
    phone.tell(do="mend")
    await gateway.restart()
    await offered(gateway, *OWN, *FINANCE)


async def test_an_app_that_is_replaced_offers_the_tools_of_its_new_version(gateway: RunningGateway, phone: Jvm) -> None:
    await offered(gateway, *OWN, *FINANCE)
    phone.tell(do="replace")
    await offered(gateway, *OWN, "myfinance__get_net_worth")
    assert await value(gateway, "myfinance__get_net_worth") == 2500


async def test_a_wrong_token_ends_the_client_with_the_reason(gateway: RunningGateway, tmp_path: Path) -> None:
    phone = await start_phone(gateway, tmp_path, token="wrong")
    assert "pair this device anew" in await told(phone, "closed")
    await phone.close()


async def test_an_app_s_login_is_started_on_the_phone_and_the_call_runs_then(
    gateway: RunningGateway, phone: Jvm
) -> None:
    await offered(gateway, *OWN, *FINANCE)
    calling = asyncio.create_task(value(gateway, FINANCE[0], account_type="stock"))
    asked = await question(gateway, "login")
    assert asked.action is not None and asked.action.intent == AUTHORIZE
    assert asked.action.hint == "Please open MyFinance and allow the app that asks"
    assert await gateway.gateway.parts.questions.start_login(asked.id, person(OPERATOR))

    async def shown() -> bool:
        return await started(phone) == AUTHORIZE

    await until(shown)
    phone.tell(do="grant_access")
    await answer(gateway, "login", "allow")
    assert [one["name"] for one in await soon(calling)] == ["Acme Rockets"]
    failed = await failure(gateway, FINANCE[1], start_date="2026-02-01", end_date="2026-01-01")
    assert (failed.code, failed.message) == (
        "invalid_arguments",
        "[INVALID_ARGS] start_date 2026-02-01 is after end_date 2026-01-01",
    )


async def test_apps_come_and_go_sleep_and_are_woken(gateway: RunningGateway, phone: Jvm) -> None:
    await offered(gateway, *OWN, *FINANCE)

    async def described() -> bool:
        shown = await devices(gateway)
        notes = shown.get("bridge", {}).get("notes") or [""]
        return "version 2" in notes[0] and bool(shown["myfinance"].get("scopes"))

    await until(described)
    phone.tell(do="remove")
    await offered(gateway, *OWN)
    phone.tell(do="install")
    await offered(gateway, *OWN, *FINANCE)
    phone.tell(do="sleep", calls=1)
    await started(phone)  # it sleeps before it is called
    calling = asyncio.create_task(value(gateway, FINANCE[0]))
    await question(gateway, "login")  # it answers: Android has started its process
    assert await started(phone) == "", "silently"
    phone.tell(do="grant_access")
    await answer(gateway, "login", "allow")
    assert len(await soon(calling)) == 2
    phone.tell(do="sleep", calls=2)
    await started(phone)
    assert len(await value(gateway, FINANCE[0])) == 2
    assert await started(phone) == "android.intent.action.MAIN", "then its screen"
