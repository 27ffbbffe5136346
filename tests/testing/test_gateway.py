"""A real gateway in this process."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from handspan.core.results import Failure
from handspan.models.scripted import Scripted, call
from handspan.testing import DeviceLogic, FakeDevice, RunningGateway, offer, running_gateway

pytestmark = pytest.mark.anyio


async def test_a_setting_that_is_not_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resume_grace"):
        async with running_gateway(tmp_path, gateway={"resume_grace": -1}):
            pass


async def test_everything_stays_below_its_folder(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        assert gateway.ws_url == gateway.url.replace("http:", "ws:") + "/ws/chat"
    assert sorted(os.listdir(tmp_path)) == ["state", "workspace"]


async def test_a_tool_that_is_not_there_is_a_result_too(gateway: RunningGateway) -> None:
    result = await gateway.call("nothing")
    assert isinstance(result, Failure) and result.code == "tool_not_found"
    assert [record.name for record in await gateway.journal()] == ["nothing"]


async def test_a_script_plays_the_model_and_a_device_its_tools(tmp_path: Path) -> None:
    script = Scripted([call("phone__add", a=2, b=3), "It is 5."])
    async with (
        running_gateway(tmp_path, model=script) as gateway,
        DeviceLogic(gateway.url, gateway.token, lambda _: 5, tools=[offer("add")], label="phone"),
        FakeDevice(gateway.url, gateway.token) as chat,
    ):
        await chat.connect(role="chat")
        await chat.send({"type": "message", "content": "What is 2 and 3?"})
        assert (await chat.expect("done"))["full_response"] == "It is 5."
        assert "phone__add" in script.requests[0].tools


async def test_a_restart_keeps_the_address_the_token_and_the_journal(gateway: RunningGateway) -> None:
    url, token, first = gateway.url, gateway.token, gateway.gateway
    result = await gateway.call("get_current_time")
    await gateway.restart()
    assert (gateway.url, gateway.token) == (url, token) and gateway.gateway is not first
    assert [record.result for record in await gateway.journal()] == [result]


async def test_after_its_end_the_port_is_closed(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        await gateway.close()
        await gateway.close()
        with socket.socket() as asking:
            assert asking.connect_ex(("127.0.0.1", port)) != 0


async def test_work_that_runs_may_end_before_the_gateway_does(tmp_path: Path) -> None:
    asked, let = asyncio.Event(), asyncio.Event()

    async def answer(_: object) -> str:
        asked.set()
        await let.wait()
        return "in time"

    async with (
        running_gateway(tmp_path, model=Scripted([call("phone__work"), "It was."])) as gateway,
        DeviceLogic(gateway.url, gateway.token, answer, tools=[offer("work")], label="phone", capabilities=()),
        FakeDevice(gateway.url, gateway.token) as chat,
    ):  # the device can't come back: the turn waits for it
        await chat.connect(role="chat")
        await chat.send({"type": "message", "content": "Work!"})
        await asyncio.wait_for(asked.wait(), 60)
        closing = asyncio.create_task(gateway.close(5))
        let.set()
        assert "in time" in str((await chat.expect("tool_result"))["output"])
        await chat.expect("done")
        assert await chat.closed() == 1012
        await closing
