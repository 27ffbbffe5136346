"""A gateway and a program with the SDK, both as real processes that take the libraries' way (`HANDSPAN_FAST=off`)."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from handspan.core.fast import FAST_VARIABLE
from handspan.testing import GatewayProcess

pytestmark = pytest.mark.anyio

SECONDS = 60.0
OFF = {FAST_VARIABLE: "off"}
PROGRAM = """
import asyncio, sys
from handspan.client import Client

async def main():
    client = Client(sys.argv[1], sys.argv[2], label="phone")

    @client.tool
    async def double(number: int) -> dict[str, int]:
        "Double a number."
        await asyncio.sleep(0)
        return {"doubled": 2 * number}

    async with client, client.chat() as chat:
        async for event in chat.send('/phone__double {"number": 21}'):
            print(event)

asyncio.run(main())
"""


async def test_a_gateway_and_the_sdk_work_without_any_speed_trick(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, environ=OFF) as gateway:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, gateway.url, gateway.token,
            env={**os.environ, **OFF}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, failed = await asyncio.wait_for(program.communicate(), SECONDS)
        assert program.returncode == 0, failed.decode()
        assert "doubled" in said.decode() and "42" in said.decode()
        assert await gateway.terminate() == 0
