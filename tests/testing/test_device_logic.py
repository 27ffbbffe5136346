"""A device that answers by a function, comes back, and runs nothing twice (ws.md 6)."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.calls import new_call_id
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.values import Json
from handspan.testing import (
    DeviceLogic,
    DeviceMemory,
    DeviceRequest,
    NotSaid,
    Repeated,
    RunningGateway,
    Silence,
    offer,
    running_gateway,
)
from tests.waiting import until

pytestmark = pytest.mark.anyio

TOOLS = [offer("work", timeout=5), offer("look", timeout=5, annotations={"read_only": True})]


class Gate:
    """An answer that waits until the test lets it through."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def answer(self, asked: DeviceRequest) -> Json:
        self.asked.set()
        await self.let.wait()
        return asked.args


def value_of(result: ToolResult) -> Json:
    assert isinstance(result, Success), result
    return result.value


def code_of(result: ToolResult) -> str:
    assert isinstance(result, Failure), result
    return result.code


async def test_one_that_can_not_connect_says_so(tmp_path: Path) -> None:
    device = DeviceLogic("http://127.0.0.1:1", "token", lambda asked: None, tools=TOOLS)
    with pytest.raises(NotSaid, match="could not connect within"):
        await device.ready(0.05)


async def test_one_that_is_not_waited_for_any_more_leaves_nothing_behind(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), DeviceLogic("http://127.0.0.1:1", "token", lambda asked: None, tools=TOOLS):
            pass
    assert asyncio.all_tasks() == before


async def test_requests_are_answered_by_the_function(gateway: RunningGateway) -> None:
    async def answer(asked: DeviceRequest) -> Json:
        if asked.args.get("fails"):
            raise ToolError("rate_limited", "Slow down.")
        return asked.args

    async with DeviceLogic(gateway.url, gateway.token, answer, tools=TOOLS, label="phone") as device:
        assert value_of(await gateway.call("phone__work", a=1)) == {"a": 1}
        assert code_of(await gateway.call("phone__work", fails=True)) == "rate_limited"
        await until(lambda: len(device.acknowledged) == 2)
        assert set(device.ran.values()) == {1} and device.memory.unacknowledged == {}


async def test_an_answer_that_is_said_twice_counts_once(gateway: RunningGateway) -> None:
    async with DeviceLogic(
        gateway.url, gateway.token, lambda _: Repeated("hi", 3), tools=TOOLS, label="phone"
    ) as device:
        assert value_of(await gateway.call("phone__work")) == "hi"
        peer = next(iter(gateway.gateway.parts.peers))
        await until(lambda: peer.calls.dropped == 2 and len(device.acknowledged) == 1)


async def test_silence_ends_by_time(tmp_path: Path) -> None:
    tools = [offer("work", timeout=0.1)]
    async with (
        running_gateway(tmp_path) as gateway,
        DeviceLogic(gateway.url, gateway.token, lambda _: Silence(), tools=tools, label="phone") as device,
    ):
        assert code_of(await gateway.call("phone__work")) == "timeout"
        await until(lambda: device.cancelled == set(device.ran))


async def test_a_call_that_is_cancelled_stops_here_too(gateway: RunningGateway) -> None:
    gate = Gate()
    async with DeviceLogic(gateway.url, gateway.token, gate.answer, tools=TOOLS, label="phone") as device:
        calling = asyncio.create_task(gateway.call("phone__work"))
        await gate.asked.wait()
        calling.cancel()
        await until(lambda: len(device.cancelled) == 1)
        gate.let.set()
        await device.drop()
        await device.ready()
        assert device.memory.unacknowledged == {} and device.acknowledged == {}


async def test_what_was_done_while_the_link_was_down_is_said_when_it_is_back(gateway: RunningGateway) -> None:
    gate = Gate()
    async with DeviceLogic(gateway.url, gateway.token, gate.answer, tools=TOOLS, label="phone") as device:
        calling = asyncio.create_task(gateway.call("phone__work", a=1))
        await gate.asked.wait()
        await device.drop()
        gate.let.set()
        assert value_of(await calling) == {"a": 1}
        assert device.connections == 2 and set(device.ran.values()) == {1}


async def test_without_resume_a_drop_ends_the_call(gateway: RunningGateway) -> None:
    gate = Gate()
    async with DeviceLogic(
        gateway.url, gateway.token, gate.answer, tools=TOOLS, label="phone", capabilities=()
    ) as device:
        calling = asyncio.create_task(gateway.call("phone__work", a=1))
        await gate.asked.wait()
        await device.drop()
        assert code_of(await calling) == "unknown_outcome"
        await device.ready()
        assert device.memory.resume is None


async def test_a_successor_runs_only_what_may_run_twice(gateway: RunningGateway) -> None:
    gate, memory = Gate(), DeviceMemory()
    first = DeviceLogic(gateway.url, gateway.token, gate.answer, tools=TOOLS, label="phone", memory=memory)
    async with first:
        working = asyncio.create_task(gateway.call("phone__work", a=1))
        looking = asyncio.create_task(gateway.call("phone__look", a=2))
        await until(lambda: len(first.ran) == 2)
    async with DeviceLogic(
        gateway.url, gateway.token, lambda asked: asked.args, tools=TOOLS, label="phone", memory=memory
    ) as second:
        assert code_of(await working) == "unknown_outcome"
        assert value_of(await looking) == {"a": 2}
        assert len(second.ran) == 1


async def test_a_gateway_that_is_restarted_finds_its_device_again(gateway: RunningGateway) -> None:
    async with DeviceLogic(gateway.url, gateway.token, lambda asked: asked.args, tools=TOOLS, label="phone") as device:
        await gateway.restart()
        await until(lambda: device.connections == 2)
        await device.ready()
        call_id = new_call_id()
        assert value_of(await gateway.call_as(call_id, "phone__work", {"a": 1})) == {"a": 1}
        assert device.ran[call_id] == 1
