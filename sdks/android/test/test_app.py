"""The app for Android at a real gateway: paired by a link, asked, stopped, as a person does it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sdks.android.test.conftest import classpath_of, robolectric
from sdks.android.test.kotlin_client import KIT_APP, Jvm
from tests.bridge.desk import devices, failure, offered, value
from tests.waiting import soon, until

from handspan.core.principals import OPERATOR
from handspan.gateway.entry.pairing import pairing_url
from handspan.testing import RunningGateway, running_gateway

pytestmark = pytest.mark.anyio


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path / "gateway") as running:
        yield running


@pytest.fixture
async def app() -> AsyncIterator[Jvm]:
    running = await Jvm.start(f"{KIT_APP}:{classpath_of('app')}", "org.handspan.test.AppMainKt", **robolectric())
    yield await running.ready()
    await running.close()


async def told(app: Jvm, event: str) -> str:
    while (found := await app.event())["event"] != event:
        pass
    return str(found["text"])


async def test_a_person_pairs_switches_on_is_asked_and_disconnects(gateway: RunningGateway, app: Jvm) -> None:
    code = (await gateway.gateway.parts.pairing.new_code(OPERATOR)).code
    app.tell(do="pair", link=pairing_url(gateway.url, code))

    async def connected() -> bool:
        return bool((await devices(gateway)).get("phone", {}).get("connected"))

    await until(connected)
    await offered(gateway)  # nothing is on at first
    app.tell(do="switch", tool="device_info", on=True)
    await offered(gateway, "phone__device_info")
    assert (await value(gateway, "phone__device_info"))["api_level"] == 35
    app.tell(do="state")
    assert await told(app, "state") == "Connected\nAgents know this phone as “phone”"

    app.tell(do="switch", tool="notifications", on=True)
    await offered(gateway, "phone__device_info", "phone__notifications")
    calling = asyncio.create_task(failure(gateway, "phone__notifications"))
    assert await told(app, "question") == "May an agent use “Notifications”?"
    app.tell(do="answer", says="no")
    refused = await soon(calling)
    assert refused.code == "permission_denied"
    assert refused.message.startswith("Permission 'notifications' was denied by the user")

    app.tell(do="switch", tool="notifications", on=False)
    await offered(gateway, "phone__device_info")
    app.tell(do="disconnect")
    await offered(gateway)
    app.tell(do="state")
    assert (await told(app, "state")).startswith("Disconnected")
