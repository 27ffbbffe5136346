"""A device that is forgotten gets in no more, whether it was connected or away (SPEC W10, S5)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from handspan.core.principals import CLIENT_SCOPES, DEVICE_SCOPES, OPERATOR
from handspan.testing import FakeDevice, RunningGateway, running_gateway
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

FORGOTTEN = {"revoked": True, "label": "phone", "still_valid": "", "serves": [], "token_id": ""}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path, gateway={"resume_grace": 0.05}) as running:
        yield running


async def connect_and_leave(gateway: RunningGateway, token: str) -> None:
    async with FakeDevice(gateway.url, token) as device:
        await device.connect(label="phone")
    await until(lambda: not list(gateway.gateway.parts.peers))


async def forget(gateway: RunningGateway, label: str = "phone") -> Any:
    headers = {"authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=WAIT, trust_env=False) as client:
        answer = await client.delete(f"/api/devices/{label}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("scopes", [DEVICE_SCOPES, CLIENT_SCOPES])
async def test_the_token_of_a_device_that_is_away_is_revoked(gateway: RunningGateway, scopes: tuple[str, ...]) -> None:
    token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, scopes)
    await connect_and_leave(gateway, token)
    assert await forget(gateway) == FORGOTTEN
    with pytest.raises(Exception, match="401"):
        await connect_and_leave(gateway, token)


async def test_the_token_of_a_device_that_was_here_before_a_restart_is_revoked(gateway: RunningGateway) -> None:
    token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("device",))
    await connect_and_leave(gateway, token)
    await gateway.restart()
    assert await forget(gateway) == FORGOTTEN
    with pytest.raises(Exception, match="401"):
        await connect_and_leave(gateway, token)


async def test_the_token_is_the_one_that_a_device_came_with_last(gateway: RunningGateway) -> None:
    first, second = [await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("device",)) for _ in range(2)]
    await connect_and_leave(gateway, first)
    await connect_and_leave(gateway, second)
    assert await forget(gateway) == FORGOTTEN
    with pytest.raises(Exception, match="401"):
        await connect_and_leave(gateway, second)
    await connect_and_leave(gateway, first)


async def test_a_device_that_is_here_is_sent_away_and_its_token_is_revoked(gateway: RunningGateway) -> None:
    token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("device",))
    async with FakeDevice(gateway.url, token) as device:
        await device.connect(label="phone")
        assert await forget(gateway) == FORGOTTEN
        assert await device.closed() == 1008
    with pytest.raises(Exception, match="401"):
        await connect_and_leave(gateway, token)


async def test_a_token_that_was_revoked_before_is_not_valid_any_more(gateway: RunningGateway) -> None:
    token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("device",))
    await connect_and_leave(gateway, token)
    [known] = [
        one for one in await gateway.gateway.parts.store.tokens.all(owner=OPERATOR.owner) if "admin" not in one.scopes
    ]
    assert await gateway.gateway.parts.auth.revoke(known.hash, OPERATOR.owner)
    assert await forget(gateway) == FORGOTTEN


async def test_a_token_that_lets_in_another_device_is_spared_and_both_are_named(gateway: RunningGateway) -> None:
    token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("device",))
    async with FakeDevice(gateway.url, token) as phone, FakeDevice(gateway.url, token) as kitchen:
        await phone.connect(label="phone")
        await kitchen.connect(label="kitchen")
        forgotten = await forget(gateway)
        assert forgotten["revoked"] is False and forgotten["serves"] == ["kitchen"]
        assert (
            f"'kitchen', so the device can come back. `handspan tokens revoke {forgotten['token_id']}`"
            in (forgotten["still_valid"])
        )
        assert await phone.closed() == 1008 and kitchen.close_code is None
        assert (await forget(gateway, "kitchen"))["revoked"] is True, "no other device is known to use it now"
        assert await kitchen.closed() == 1008


async def test_an_admin_token_stays_valid_and_the_answer_says_so(gateway: RunningGateway) -> None:
    await connect_and_leave(gateway, gateway.token)
    forgotten = await forget(gateway)
    assert forgotten["revoked"] is False and "'admin'" in forgotten["still_valid"]
    await connect_and_leave(gateway, gateway.token)


async def test_a_device_that_an_earlier_version_stored_has_no_known_token_and_the_answer_says_so(
    gateway: RunningGateway,
) -> None:
    token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("device",))
    await connect_and_leave(gateway, token)
    await gateway.restart()
    book = gateway.gateway.parts.store.devices
    await book.save([structs.replace(row, token="") for row in await book.all()])
    await gateway.restart()
    forgotten = await forget(gateway)
    assert forgotten["revoked"] is False and "not known" in forgotten["still_valid"]
    assert "handspan tokens revoke" in forgotten["still_valid"]
