"""Devices over REST."""

from typing import Any

import pytest

from handspan.core.principals import OPERATOR
from handspan.gateway.entry.tokens import hash_of
from tests.gateway.rest.served import STRANGER, Rest, RestClient, is_error

pytestmark = pytest.mark.anyio


@pytest.fixture
async def phone(client: RestClient, rest: Rest) -> str:
    """A phone that has connected with the token for devices."""
    label = rest.devices.connect(OPERATOR.owner, "phone", "Pixel", hash_of(client.rest.device_token))
    rest.devices.record_offer(OPERATOR.owner, label, {"camera": "1"})
    rest.devices.record_offer(OPERATOR.owner, label, {"camera": "2"})
    return label


async def test_somebody_elses_device_is_one_that_never_was(client: RestClient, rest: Rest) -> None:
    rest.devices.connect(STRANGER, "phone", "Pixel")
    asked: list[tuple[str, str, Any]] = [
        ("PUT", "", {"label": "mine"}),
        ("DELETE", "", None),
        ("POST", "/looked", None),
    ]
    for method, path, body in asked:
        theirs = await client.ask(method, f"/api/devices/phone{path}", body)
        never = await client.ask(method, f"/api/devices/unknown{path}", body)
        assert is_error(theirs, 404, "not_found")
        assert theirs.text.replace("phone", "") == never.text.replace("unknown", "")
    assert (await client.get("/api/devices")).json() == {"devices": []}


@pytest.mark.parametrize("label", ["", "Phone", "a__b", "a_", "1a", "a b", "a" * 25])
async def test_a_label_that_can_not_be_is_refused(client: RestClient, phone: str, label: str) -> None:
    refused = await client.ask("PUT", f"/api/devices/{phone}", {"label": label})
    assert is_error(refused, 422, "invalid_request") and "regex" not in refused.text
    if len(label) < 25:
        assert f"label: {label!r} does not fit. Lower case, digits and single '_'" in refused.json()["error"]


async def test_a_device_is_shown_looked_at_renamed_and_forgotten(client: RestClient, rest: Rest, phone: str) -> None:
    shown = (await client.get("/api/devices")).json()["devices"]
    assert [(one["label"], one["name"], one["connected"]) for one in shown] == [("phone", "Pixel", True)]
    assert shown[0]["tools"] == ["camera"] and shown[0]["changed"] == ["camera"] and shown[0]["last_seen"]
    assert (await client.post("/api/devices/phone/looked")).json() == {"label": "phone", "looked": True}
    assert (await client.get("/api/devices")).json()["devices"][0]["changed"] == []
    renamed = await client.ask("PUT", "/api/devices/phone", {"label": "old_phone"})
    assert renamed.json() == {"label": "old_phone", "connected_as": "phone"}
    assert (await client.get("/api/devices")).json()["devices"][0]["connected_as"] == "phone"
    rest.devices.end(OPERATOR.owner, phone)
    renamed = await client.ask("PUT", "/api/devices/old_phone", {"label": "old_phone"})
    assert renamed.json() == {"label": "old_phone", "connected_as": ""}
    gone = await client.ask("DELETE", "/api/devices/old_phone")
    assert gone.json() == {"revoked": True, "label": "old_phone", "still_valid": "", "serves": [], "token_id": ""}
    assert (await client.get("/api/devices")).json() == {"devices": []}


async def test_a_label_that_another_device_has_is_refused(client: RestClient, rest: Rest, phone: str) -> None:
    rest.devices.connect(OPERATOR.owner, "tablet", "")
    answer = await client.ask("PUT", "/api/devices/tablet", {"label": phone})
    assert is_error(answer, 422, "invalid_request") and "phone" in answer.json()["error"]
