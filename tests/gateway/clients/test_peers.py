"""Who goes, and how: goodbyes, revoked tokens, forgotten devices. Every call has one result (ws.md 6.7, 6.8, 9.2)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.results import Failure, Pending, ToolResult
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.gateway.rest import devices
from handspan.models.scripted import Scripted, call
from tests.gateway.raw_clients import Client, Place, running
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

INFO: dict[str, Json] = {"name": "info", "description": "About this phone.", "parameters": {"type": "object"}}
PHOTO: dict[str, Json] = {**INFO, "name": "photo", "permissions": ["camera"]}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with running(tmp_path) as running_place:
        yield running_place


async def a_call(place: Place, name: str, call_id: str) -> ToolResult:
    box = place.gateway.parts.app.registry.toolbox(GENERAL, OPERATOR)
    result = await place.gateway.parts.app.engine.call(ToolCall(name, {}, call_id), Caller(OPERATOR, GENERAL, box))
    assert not isinstance(result, Pending)
    return result


async def connected_devices(place: Place) -> dict[str, bool]:
    return {device.label: device.connected for device in await place.gateway.parts.devices.all("operator")}


# Sent away.


class Phone:
    """A device with a token of its own, and calls in every stage."""

    def __init__(self, place: Place, token: str) -> None:
        self.place = place
        self.token = token
        self.calls: dict[str, asyncio.Task[ToolResult]] = {}

    def calls_tool(self, name: str) -> str:
        call_id = new_call_id()
        self.calls[call_id] = asyncio.create_task(a_call(self.place, f"phone__{name}", call_id))
        return call_id

    async def codes(self) -> list[str]:
        """How its calls ended; what the ledger keeps of each is the same."""
        codes: list[str] = []
        for call_id, calling in self.calls.items():
            result = await asyncio.wait_for(calling, WAIT)
            record = await self.place.gateway.parts.store.ledger.get(call_id, owner="operator")
            assert isinstance(result, Failure)
            assert (record.state, record.result) == ("done", result)
            codes.append(result.code)
        return codes


async def revoke(phone: Phone) -> None:
    tokens = await phone.place.gateway.parts.store.tokens.all(owner="operator")
    (known,) = [one for one in tokens if one.label == "phone"]
    assert await phone.place.gateway.parts.auth.revoke(known.hash, "operator")


async def forget(phone: Phone) -> None:
    assert await devices.forget(phone.place.gateway.parts, "phone", "operator")


async def forget_renamed(phone: Phone) -> None:
    assert await phone.place.gateway.parts.devices.rename("phone", "pixel", "operator")
    assert await devices.forget(phone.place.gateway.parts, "pixel", "operator")


@pytest.mark.parametrize("can", [("resume", "permissions"), ("permissions",)])
@pytest.mark.parametrize("how", [revoke, forget, forget_renamed])
async def test_calls_of_a_device_that_is_sent_away_end_at_once_each_with_one_result(
    place: Place, how: Any, can: tuple[str, ...]
) -> None:
    phone = Phone(place, await place.gateway.parts.auth.issue("operator", ("device",), "phone"))
    async with place.client(token=phone.token) as client:
        await client.connected(*can, role="device", label="phone")
        await client.offers(INFO, PHOTO)
        sent = phone.calls_tool("info")
        assert (await client.hears())["id"] == sent
        asked = phone.calls_tool("photo")
        assert (await client.hears_of("permission_request"))["call_id"] == asked
        await how(phone)
        assert await phone.codes() == ["unknown_outcome", "question_expired"]
        assert len(place.gateway.parts.peers) == 0
        assert not any(entry.spec.name.startswith("phone__") for entry in place.gateway.parts.app.registry)
        assert await client.closed() == 1008
    assert (await connected_devices(place)).get("phone", False) is False


@pytest.mark.parametrize("how", [revoke, forget])
async def test_calls_that_wait_for_a_device_end_when_it_is_sent_away_while_its_link_is_down(
    place: Place, how: Any
) -> None:
    phone = Phone(place, await place.gateway.parts.auth.issue("operator", ("device",), "phone"))
    async with place.client(token=phone.token) as client:
        await client.connected("resume", role="device", label="phone")
        await client.offers(INFO)
        sent = phone.calls_tool("info")
        assert (await client.hears())["id"] == sent
        client.drop()
    (peer,) = place.gateway.parts.peers
    await until(lambda: peer.socket is None)
    await how(phone)
    assert await phone.codes() == ["unknown_outcome"]
    assert len(place.gateway.parts.peers) == 0


async def test_a_result_that_comes_after_it_was_sent_away_changes_nothing(place: Place) -> None:
    phone = Phone(place, await place.gateway.parts.auth.issue("operator", ("device",), "phone"))
    async with place.client(token=phone.token) as client:
        await client.connected("resume", role="device", label="phone")
        await client.offers(INFO)
        sent = phone.calls_tool("info")
        await client.hears_of("tool_call_request")
        (peer,) = place.gateway.parts.peers
        place.gateway.parts.peers.dismiss(peer)
        await client.send("tool_result", id=sent, output="too late")
        assert await client.closed() == 1008
        assert await phone.codes() == ["unknown_outcome"]


async def test_the_slow_end_of_an_old_connection_does_not_hurt_the_one_that_came_after_it(tmp_path: Path) -> None:
    async with running(tmp_path, resume_grace=0.05) as place, place.client() as old:
        token = (await old.connected("resume", role="device", label="phone"))["resume_token"]
        (before,) = place.gateway.parts.peers
        old.socket.transport.pause_reading()  # what the gateway says stays unread
        place.gateway.parts.peers.dismiss(before)
        async with place.client() as new:
            assert (await new.connected("resume", role="device", label="phone", resume=token))["label"] == "phone"
            await new.offers(INFO)
            (after,) = place.gateway.parts.peers
            assert (after is not before, after.id == before.id) == (True, True)
            old.drop()
            await until(lambda: len(place.gateway.ws.connections) == 1)
            assert await connected_devices(place) == {"phone": True}
            place.gateway.parts.peers.end(before, "once more")
            assert list(place.gateway.parts.peers) == [after]
            calling = asyncio.create_task(a_call(place, "phone__info", new_call_id()))
            await new.send("tool_result", id=(await new.hears_of("tool_call_request"))["id"], output="here")
            assert getattr(await asyncio.wait_for(calling, WAIT), "value", "") == "here"


# Goodbyes.


async def goodbye(client: Client, code: int = 1000) -> None:
    await asyncio.wait_for(client.socket.close(code), WAIT)


@pytest.mark.parametrize("code", [1000, 1001])
async def test_who_says_goodbye_and_is_not_waited_for_is_gone_at_once(place: Place, code: int) -> None:
    async with place.client() as phone:
        await phone.connected("resume", role="device", label="phone")
        await phone.offers(INFO)
        assert await connected_devices(place) == {"phone": True}
        await goodbye(phone, code)
    assert len(place.gateway.parts.peers) == 0
    assert await connected_devices(place) == {"phone": False}
    async with place.client() as again:
        assert (await again.connected("resume", role="device", label="phone"))["label"] == "phone"


@pytest.mark.parametrize("code", [1000, 1001])
async def test_a_result_on_the_way_out_counts_and_nobody_is_waited_for_then(place: Place, code: int) -> None:
    phone = Phone(place, place.gateway.operator_token)
    async with place.client() as client:
        await client.connected("resume", role="device", label="phone")
        await client.offers(INFO)
        sent = phone.calls_tool("info")
        await client.hears_of("tool_call_request")
        await client.send("tool_result", id=sent, output="bye")
        await goodbye(client, code)
    assert len(place.gateway.parts.peers) == 0
    assert getattr(await asyncio.wait_for(phone.calls[sent], WAIT), "value", "") == "bye"


async def test_who_has_been_asked_something_is_waited_for(place: Place) -> None:
    phone = Phone(place, place.gateway.operator_token)
    async with place.client() as client:
        token = (await client.connected("resume", "permissions", role="device", label="phone"))["resume_token"]
        await client.offers(PHOTO)
        asked = phone.calls_tool("photo")
        question = await client.hears_of("permission_request")
        await goodbye(client)
    assert len(place.gateway.parts.peers) == 1
    async with place.client() as client:
        connected = await client.connected("resume", "permissions", role="device", label="phone", resume=token)
        assert connected["label"] == "phone"
        assert (await client.hears_of("permission_request"))["id"] == question["id"]
        await client.send("permission_answer", id=question["id"], decision="deny")
        assert getattr(await asyncio.wait_for(phone.calls[asked], WAIT), "code", "") == "permission_denied"


async def test_a_chat_whose_turn_runs_is_waited_for_and_hears_its_end(tmp_path: Path) -> None:
    model = Scripted([[call("phone__info")], "It is a Pixel."])
    async with running(tmp_path, model) as place, place.client() as phone:
        await phone.connected(role="device", label="phone")
        await phone.offers(INFO)
        async with place.client("?session_id=s") as chat:
            token = (await chat.connected("resume", "events"))["resume_token"]
            await chat.send("message", content="which phone?", id="m1")
            request = await phone.hears_of("tool_call_request")
            await goodbye(chat, 1001)
        assert len(place.gateway.parts.peers) == 2
        await phone.send("tool_result", id=request["id"], output="Pixel")
        async with place.client("?session_id=s") as chat:
            assert (await chat.connected("resume", "events", resume=token, last_event=0))["resumed"] is True
            events: list[dict[str, Any]] = []
            while not events or events[-1]["event"]["type"] != "ended":
                frame = await chat.hears()
                events += [frame] if frame["type"] == "event" else []
            await until(lambda: not any(peer.is_awaited for peer in place.gateway.parts.peers))
            await goodbye(chat)
        assert [frame["seq"] for frame in events] == list(range(1, len(events) + 1))
        assert len(place.gateway.parts.peers) == 1


async def test_without_resume_any_close_ends_it(place: Place) -> None:
    async with place.client() as phone:
        await phone.connected("cancel", role="device", label="phone")
        phone.drop()
    await until(lambda: len(place.gateway.parts.peers) == 0)


# Signs of life.


async def test_a_ping_is_answered_once_the_client_has_said_who_it_is(place: Place) -> None:
    async with place.client() as page:
        await page.hears()
        await page.send("ping")
        assert "code" not in await page.hears()  # no first frame (ws.md 1.5)
        await page.send("connect", capabilities=["resume"])
        await page.hears()
        await page.send("ping")
        assert await page.hears() == {"type": "pong"}


# Started again.


async def gone(client: Client, place: Place) -> None:
    """Drop the client's link, and wait until the gateway knows it."""
    connected = [peer for peer in place.gateway.parts.peers if peer.socket is not None]
    client.drop()
    await until(lambda: any(peer.socket is None for peer in connected))


async def test_a_device_that_is_started_in_place_of_another_has_its_label_and_the_others_calls_end(
    place: Place,
) -> None:
    phone = Phone(place, place.gateway.operator_token)
    async with place.client() as client:
        await client.connected("resume", role="device", label="phone", device_name="pixel")
        await client.offers(INFO)
        phone.calls_tool("info")
        assert (await client.hears())["type"] == "tool_call_request"
        await gone(client, place)
    async with place.client() as client:
        connected = await client.connected("resume", role="device", label="phone", device_name="pixel")
        assert (connected["label"], connected["resumed"]) == ("phone", False)
        assert await phone.codes() == ["unknown_outcome"]
    assert "phone_2" not in await connected_devices(place)


@pytest.mark.parametrize("other", [{"device_name": "nexus"}, {"resume": "phone"}])
async def test_a_device_that_may_come_back_keeps_its_label_against_a_device_that_is_another(
    place: Place, other: dict[str, Any]
) -> None:
    about = {"role": "device", "label": "phone", "device_name": "pixel"}
    token = await place.gateway.parts.auth.issue("operator", ("device",), "phone")
    async with place.client(token=token) as client, place.client(token=token) as second:
        mine = await client.connected("resume", **about)
        if "resume" in other:  # another one whose link was closed comes back: it is not started anew
            other = {"resume": (await second.connected("resume", **about))["resume_token"]}
            await gone(second, place)
        await gone(client, place)
        async with place.client(token=token) as third:
            assert (await third.connected("resume", **{**about, **other}))["label"] == "phone_2"
        async with place.client(token=token) as third:
            again = await third.connected("resume", **about, resume=mine["resume_token"])
            assert (again["label"], again["resumed"]) == ("phone", True)


async def test_a_device_with_another_token_does_not_take_the_label_of_one_that_may_come_back(place: Place) -> None:
    about = {"role": "device", "label": "phone", "device_name": "pixel"}
    async with place.client() as client:
        await client.connected("resume", **about)
        await gone(client, place)
    token = await place.gateway.parts.auth.issue("operator", ("device",), "phone")
    async with place.client(token=token) as client:
        assert (await client.connected("resume", **about))["label"] == "phone_2"


async def test_two_devices_with_one_name_that_were_killed_have_their_labels_again(place: Place) -> None:
    about = {"role": "device", "label": "phone", "device_name": "pixel"}
    for _ in range(2):
        async with place.client() as first, place.client() as second:
            labels = [(await client.connected("resume", **about))["label"] for client in (first, second)]
            assert labels == ["phone", "phone_2"]
            await gone(first, place)
            await gone(second, place)
