"""A gateway in a process of its own, to be killed and started again."""

import signal
from pathlib import Path

import pytest

from handspan.testing import FakeDevice, GatewayProcess
from handspan.testing.process import SPOKEN, GatewayNotReady

pytestmark = pytest.mark.anyio


async def test_one_that_can_not_start_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(GatewayNotReady, match=r"(?s)ended with 2.*No such option"):
        async with GatewayProcess(tmp_path, "--nonsense"):
            pass


async def test_one_that_takes_too_long_says_so(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    await gateway.launch()
    try:
        with pytest.raises(GatewayNotReady, match="not ready after 0 s"):
            await gateway.wait_ready(0)
    finally:
        await gateway.kill()


async def test_it_is_killed_and_comes_back_at_the_same_place(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway, FakeDevice(gateway.url, gateway.token) as device:
        url, token, first = gateway.url, gateway.token, gateway.pid
        connected = await device.connect(label="phone", capabilities=["resume"])
        await gateway.kill()
        assert not gateway.is_running and await gateway.ended() == -signal.SIGKILL
        assert await device.closed() == 1006
        await gateway.start()
        assert (gateway.url, gateway.token, gateway.starts) == (url, token, 2) and gateway.pid != first
        again = await device.connect(label="phone", capabilities=["resume"], resume=str(connected["resume_token"]))
        assert again["resumed"] is True
        assert gateway.memory > 1024 * 1024


async def test_it_ends_in_order_when_it_is_asked_to(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway, FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone")
        assert await gateway.terminate() == 0
        assert await device.closed() == 1012
        await gateway.restart()
        assert gateway.is_running and "Traceback" not in gateway.log


async def test_one_that_is_killed_leaves_nothing_outside_its_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with GatewayProcess(tmp_path / "own", model=SPOKEN, environ={"TMPDIR": str(elsewhere)}) as gateway:
        await gateway.kill()
    assert not list(elsewhere.glob("handspan-testing-*"))
