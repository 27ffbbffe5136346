"""The stories of `examples/`: each runs against a real gateway and checks itself."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from handspan.testing import RunningGateway, running_gateway

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


async def tell(gateway: RunningGateway, *words: str) -> str:
    """What an example says; it has to end with 0."""
    environ = {**os.environ, "HANDSPAN_URL": gateway.url, "HANDSPAN_TOKEN": gateway.token}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *words,
        cwd=ROOT,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, problems = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, problems) == (0, b""), problems.decode()
    return said.decode()


async def test_the_phone_offers_its_four_tools(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        said = await tell(gateway, "examples.phone", "--check")
    assert "connected\n" in said
    assert "camera wants android.permission.CAMERA: allowed\n" in said
    assert "contacts: [{'name': 'Ada Lovelace'" in said
    assert said.endswith("disconnected\n")


async def test_the_chat_answers(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        said = await tell(gateway, "examples.chat", "--check")
    assert "[get_current_time: success]" in said


async def test_the_link_heals(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        said = await tell(gateway, "examples.healing")
    assert "device: reconnecting\n" in said
    assert "answer: {'status': 'success', 'result': '24 pictures'}\n" in said


async def test_an_example_without_a_token_says_what_is_wrong(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        for name in ("chat", "phone"):
            with pytest.raises(AssertionError, match="wants a token") as told:
                await tell(gateway, f"examples.{name}", "--check", "--token", "")
            assert "HANDSPAN_TOKEN=$(handspan tokens new examples)" in str(told.value)
            assert "Traceback" not in str(told.value)


DEVICE = """
import sys
from handspan.client import Client

lamp = Client(sys.argv[1], sys.argv[2], label="lamp")


@lamp.tool
def is_on() -> bool:
    "Say whether the lamp is on."
    return True


lamp.run_sync()
"""


async def test_a_program_shows_its_link_and_ends_with_ctrl_c_without_a_traceback(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DEVICE, gateway.url, gateway.token, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        try:
            first = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
            process.send_signal(signal.SIGINT)
            rest = (await asyncio.wait_for(process.stderr.read(), 60)).decode()
            await asyncio.wait_for(process.wait(), 60)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert first.endswith(f"connected to {gateway.url} as 'lamp'\n"), (first, rest)
    assert (process.returncode, rest) == (0, "")
