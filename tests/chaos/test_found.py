"""What chaos has found, each in the smallest form that shows it."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.core.results import Failure
from handspan.gateway.clients.chat import ChatConnection
from handspan.sources.ws.calls import LostCall, RemoteCall, RemoteCalls
from handspan.testing import FakeDevice, RunningGateway, offer, running_gateway
from handspan.wire.ws import decode_server
from handspan.wire.ws_chat_frames import AnswerFrame
from handspan.wire.ws_frames import Acknowledged, ResultFrame

pytestmark = pytest.mark.anyio


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path) as running:
        yield running


async def test_a_call_that_is_asked_for_when_its_device_has_just_left_ends_at_once() -> None:
    calls = RemoteCalls(frozenset())
    calls.end("The client disconnected")
    call = RemoteCall("a", "work", {}, None)
    calls.ask(call)  # the engine had found the tool before it left
    assert call.outcome.done() and call.outcome.result() == LostCall(False, "The client disconnected")
    assert not calls.open


async def test_a_second_copy_of_an_answer_is_not_acknowledged_before_the_first_is_kept() -> None:
    calls, sent = RemoteCalls(frozenset()), list[bytes]()
    calls.open_link(sent.append)
    calls.ask(RemoteCall("a", "work", {}, None))
    sent.clear()
    assert calls.receive_answer(ResultFrame("a"))
    assert not calls.receive_answer(ResultFrame("a"))
    calls.acknowledge("a")
    assert sent == []
    calls.acknowledge_stored("a")
    assert [decode_server(data) for data in sent] == [Acknowledged("a")]


async def test_a_frame_whose_link_drops_at_once_leaves_nothing_behind(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as chat:
        await chat.connect(role="chat")
        connection = next(iter(gateway.gateway.parts.peers)).chat
        assert isinstance(connection, ChatConnection)
        connection.take(AnswerFrame("q", "allow"))
        connection.down()
        await asyncio.sleep(0)
        gc.collect()  # a coroutine that nobody awaited is an error here, by `filterwarnings`


async def test_a_device_without_resume_that_leaves_in_the_middle_of_a_call_ends_it(gateway: RunningGateway) -> None:
    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        await device.register(offer("work"))
        calls = [asyncio.create_task(gateway.call("phone__work")) for _ in range(30)]
        await device.expect("tool_call_request")
        await device.drop()
        results = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert all(isinstance(result, Failure) for result in results)
        codes = {result.code for result in results if isinstance(result, Failure)}
        assert codes <= {"unknown_outcome", "disconnected", "tool_not_found", "tool_not_available"}
