"""The stories of `examples/`: each runs against a real gateway and checks itself."""

import asyncio
import os
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
        with pytest.raises(AssertionError, match="wants a token"):
            await tell(gateway, "examples.chat", "--check", "--token", "")
