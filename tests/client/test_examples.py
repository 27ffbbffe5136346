"""The stories of `examples/`: each runs against a real gateway and checks itself."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.testing import RunningGateway, running_gateway
from tests.waiting import WAIT, until

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


@contextlib.asynccontextmanager
async def lamp(
    gateway: RunningGateway, token: str | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A program with a device, and the first line that it shows."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DEVICE, gateway.url, token or gateway.token, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        yield process, (await asyncio.wait_for(process.stderr.readline(), WAIT)).decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.stderr.read()  # to its end: a loop that ends before would leave the pipe open
        await process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_program_shows_its_link_and_a_signal_ends_it_with_a_goodbye_and_without_a_traceback(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with running_gateway(tmp_path) as gateway:
        async with lamp(gateway) as (process, first):
            process.send_signal(number)
            assert process.stderr is not None
            rest = (await asyncio.wait_for(process.stderr.read(), WAIT)).decode()
            await asyncio.wait_for(process.wait(), WAIT)
        await until(lambda: len(gateway.gateway.parts.peers) == 0)
    assert first.endswith(f"connected to {gateway.url} as 'lamp'\n"), (first, rest)
    assert (process.returncode, rest) == (0, "")


async def test_a_device_that_was_killed_and_starts_again_has_its_label_again(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        async with lamp(gateway) as (process, _):
            process.kill()
            await process.wait()
        (peer,) = gateway.gateway.parts.peers
        await until(lambda: peer.socket is None)
        async with lamp(gateway) as (_, first):
            assert first.endswith("as 'lamp'\n")
            async with lamp(gateway) as (_, second):  # two at once stay apart
                assert second.endswith("as 'lamp_2'\n")


async def test_a_refused_program_ends_with_the_sentence_alone(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, lamp(gateway, "wrong") as (process, first):
        assert process.stderr is not None
        rest = (await asyncio.wait_for(process.stderr.read(), WAIT)).decode()
        await asyncio.wait_for(process.wait(), WAIT)
    (line,) = (first + rest).splitlines()
    assert "refused the token" in line and "GatewayRefused" not in line
    assert process.returncode == 1
