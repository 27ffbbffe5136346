"""A client under full control of a test, against a real gateway."""

import asyncio

import pytest

from handspan.core.results import Failure, Success
from handspan.testing import FakeDevice, NotSaid, RunningGateway, offer
from handspan.testing.device import socket_url

pytestmark = pytest.mark.anyio


async def test_what_is_not_said_fails_with_what_was_said_instead(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        with pytest.raises(NotSaid, match=r"No 'tool_call_request' came: 0\.05 s are over.*session_start, connected"):
            await device.expect("tool_call_request", 0.05)
        await device.leave()
        with pytest.raises(NotSaid, match="closed with 1000"):
            await device.expect("tool_call_request")


async def test_a_wrong_token_is_refused_before_anything_is_said(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, "wrong") as device:
        with pytest.raises(Exception, match="401"):
            await device.connect()
        assert not device.is_connected


async def test_a_request_can_be_answered_by_hand(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        connected = await device.connect(label="My Phone", capabilities=["progress"])
        assert connected["label"] == "my_phone"
        assert (await device.register(offer("add", timeout=5)))["registered"] == 1
        calling = asyncio.create_task(gateway.call("my_phone__add", a=2, b=3))
        request = await device.expect("tool_call_request", name="add")
        assert request["args"] == {"a": 2, "b": 3}
        await device.report(request, "half of it")
        await device.answer(request, 5)
        await device.expect("result_acknowledged", id=request["id"])
        result = await calling
        assert isinstance(result, Success) and result.value == 5


async def test_a_request_can_fail_by_hand(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        await device.register(offer("camera"))
        calling = asyncio.create_task(gateway.call("phone__camera"))
        await device.fail(await device.expect("tool_call_request"), "The person said no.", "permission_denied")
        result = await calling
        assert isinstance(result, Failure) and result.code == "permission_denied"


async def test_frames_that_are_not_expected_yet_wait(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        await device.send_text("no JSON")
        await device.register(offer("add"))
        assert [frame["code"] for frame in device.unexpected("error")] == ["INVALID_JSON"]
        await device.expect("error", code="INVALID_JSON")
        assert device.unexpected("error") == []
        assert [frame["type"] for frame in device.heard] == ["session_start", "connected", "error", "tools_registered"]


async def test_a_dropped_link_can_be_made_anew(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        first = await device.connect(label="phone", capabilities=["resume"])
        await device.drop()
        assert not device.is_connected and device.close_code == 1006
        again = await device.connect(label="phone", capabilities=["resume"], resume=str(first["resume_token"]))
        assert again["resumed"] is True


async def test_bytes_that_break_the_protocol_end_the_connection(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        await device.send_binary(b"skipped")
        await device.send_text(["frag", "ments that are no JSON"])
        await device.expect("error", code="INVALID_JSON")
        device.send_bytes(b"\xff" * 20)
        assert await device.closed() == 1002


async def test_a_connection_that_stays_open_is_not_waited_for_without_end(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        with pytest.raises(NotSaid, match="still open"):
            await device.closed(0.05)


async def test_one_that_does_not_read_can_still_be_ended(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        device.stop_reading()
        await device.drop()
        assert device.close_code == 1006


async def test_a_conversation_is_held_by_hand_too(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as chat:
        await chat.connect(role="chat", session_id="kept")
        start = await chat.expect("session_start")
        assert start["session_id"] == "kept"
        await chat.send({"type": "message", "content": "hello"})
        done = await chat.expect("done")
        assert done["full_response"]
        frames = [await chat.next() for _ in range(2)]
        assert None not in frames
        await chat.drop()
        while await chat.next() is not None:
            pass


def test_the_address_of_the_socket_is_below_that_of_the_gateway() -> None:
    assert socket_url("http://a:1") == "ws://a:1/ws/chat"
    assert socket_url("https://a/prefix/", session_id="x y", name=None) == "wss://a/prefix/ws/chat?session_id=x+y"
