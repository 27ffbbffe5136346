"""What the gateway tells of permissions that a person gives or refuses at a device (SPEC P2, R8)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.testing import FakeDevice, RunningGateway, offer, running_gateway

pytestmark = pytest.mark.anyio


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path) as gateway:
        yield gateway


async def get(gateway: RunningGateway, path: str) -> Any:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {gateway.token}"}) as http:
        return (await http.get(gateway.url + path)).json()


async def test_a_question_at_a_device_is_listed_and_a_never_is_told_as_the_reason(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as phone:
        await phone.connect(label="phone", capabilities=["permissions"])
        await phone.register(offer("photo", permissions=["camera"]))
        assert (await get(gateway, "/api/tools/phone__photo/why"))["usable"]
        calling = asyncio.create_task(gateway.call("phone__photo"))
        asked = await phone.expect("permission_request")
        listed = await get(gateway, "/api/questions")
        assert listed["questions"] == []  # no other client can answer it
        assert [(one["device"], one["subject"], one["id"]) for one in listed["at_devices"]] == [
            ("phone", "camera", asked["id"])
        ]
        enable = {"decision": "deny_forever", "how_to_enable": "Settings, Apps, Camera"}
        await phone.send({"type": "permission_answer", "id": asked["id"], **enable})
        assert getattr(await calling, "code", "") == "permission_denied_forever"
        assert "at_devices" not in await get(gateway, "/api/questions")
        why = await get(gateway, "/api/tools/phone__photo/why")
        (refused,) = [reason["text"] for reason in why["reasons"] if not reason["ok"]]
        assert not why["usable"] and "The device 'phone'" in refused and "Settings, Apps, Camera" in refused

        calling = asyncio.create_task(gateway.call("phone__photo"))
        asked = await phone.expect("permission_request")
        await phone.send({"type": "permission_answer", "id": asked["id"], "decision": "allow"})
        await phone.fail(await phone.expect("tool_call_request"), "no film")
        await calling
        assert (await get(gateway, "/api/tools/phone__photo/why"))["usable"]
