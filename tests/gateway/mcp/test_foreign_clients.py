"""Clients that others wrote: each lists the tools of an agent and takes a photo with a phone (SPEC C5)."""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from handspan.testing.gateway import running_gateway
from tests.gateway.mcp.test_door import PIXEL, phone
from tests.sources.mcp.test_real_servers import NODE, PACKAGES, ROOT

pytestmark = pytest.mark.anyio

SCRIPT = ROOT / "tests" / "node" / "client.mjs"
FASTMCP = ROOT / ".venv-fastmcp" / "bin" / "python"
"""Made by scripts/fastmcp-client."""
INSPECTOR = PACKAGES / "inspector-cli" / "build" / "index.js"


async def run(*words: str, program: Path = NODE) -> Any:
    """Return what this program prints, read as JSON."""
    process = await asyncio.create_subprocess_exec(
        *(str(program), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, (out, err)
    return json.loads(out)


def photo(result: Any) -> bytes:
    [image] = [block for block in result["content"] if block["type"] == "image"]
    assert image["mimeType"] == "image/png"
    return base64.b64decode(image["data"])


@pytest.mark.parametrize(("version", "protocol"), [("1", "2025-11-25"), ("2", "2026-07-28")])
async def test_the_client_of_the_typescript_sdk(tmp_path: Path, version: str, protocol: str) -> None:
    async with running_gateway(tmp_path) as gateway, phone(gateway):
        answer = await run(str(SCRIPT), version, f"{gateway.url}/mcp", gateway.token, "phone__camera")
        assert answer["protocol"] == protocol
        assert {"read_file", "phone__camera"} <= set(answer["tools"])
        assert photo(answer["result"]) == PIXEL


async def test_the_inspector_over_http_and_through_a_program(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, phone(gateway):
        call = ("--method", "tools/call", "--tool-name", "phone__camera")
        header = ("--header", f"Authorization: Bearer {gateway.token}")
        over_http = (str(INSPECTOR), f"{gateway.url}/mcp", "--transport", "http", *header)
        listed = await run(*over_http, "--method", "tools/list")
        assert "phone__camera" in {tool["name"] for tool in listed["tools"]}
        assert photo(await run(*over_http, *call)) == PIXEL
        variables = (f"HANDSPAN_URL={gateway.url}", f"HANDSPAN_TOKEN={gateway.token}")
        program = ("env", *variables, sys.executable, "-m", "handspan.cli.main", "mcp", "serve")
        assert photo(await run(str(INSPECTOR), *program, *call)) == PIXEL


@pytest.mark.parametrize(("mode", "protocol"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_client_of_fastmcp(tmp_path: Path, mode: str, protocol: str) -> None:
    script = str(ROOT / "tests" / "fastmcp" / "client.py")
    async with running_gateway(tmp_path) as gateway, phone(gateway):
        answer = await run(script, mode, f"{gateway.url}/mcp", gateway.token, "phone__camera", program=FASTMCP)
    assert answer["protocol"] == protocol
    assert {"read_file", "phone__camera"} <= set(answer["tools"])
    assert photo(answer["result"]) == PIXEL
    assert answer["failure"]["is_error"] and "File not found" in answer["failure"]["text"]
