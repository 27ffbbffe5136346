"""The example of a client of AG-UI, as it stands (docs/fronts.md)."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from handspan.testing.gateway import running_gateway
from handspan.testing.spoken import Spoken
from tests.sources.mcp.test_real_servers import NODE, ROOT
from tests.waiting import soon

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
EXAMPLE = ROOT / "examples" / "agui.ts"


async def test_it_runs_its_own_tool_and_asks_before_a_change(tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 40
    shutil.copy(EXAMPLE, tmp_path / "agui.ts")
    (tmp_path / "node_modules").symlink_to(ROOT / "tests" / "node" / "node_modules")
    write = 'call write_file {"path": "a.txt", "content": "x"}'
    script = f'call get_weather {{"city": "Rome"}}\nthen\n{write}\nthen\nIt says {{results}}'
    asks = {"agents": {"General": {"mode": "ask_destructive"}}, "tools": {"allow_shadowing": ()}}
    async with running_gateway(tmp_path / "gateway", model=Spoken(), **asks) as gateway:
        process = await asyncio.create_subprocess_exec(
            *(str(NODE), str(tmp_path / "agui.ts"), script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HANDSPAN_URL": gateway.url, "HANDSPAN_TOKEN": gateway.token},
        )
        assert process.stdin is not None and process.stderr is not None and process.stdout is not None
        asked = b""
        while piece := await soon(process.stderr.read(1000)):
            asked += piece
            if piece.endswith(b"(y/n) "):
                process.stdin.write(b"y\n")
        out = await soon(process.stdout.read())
        process.stdin.close()
        assert await soon(process.wait()) == 0, asked.decode()
    assert "success" in out.decode() and "write_file" in asked.decode()
