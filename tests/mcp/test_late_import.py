"""The MCP SDK takes most of a second to load: only what speaks MCP loads it."""

import subprocess
import sys
from pathlib import Path

import pytest

HELP = """
import contextlib, sys
sys.argv = ["handspan", "--help"]
from handspan.cli.main import main
with contextlib.suppress(SystemExit):
    main()
"""
MCP_HELP = HELP.replace('"--help"', '"mcp", "--help"')
GATEWAY = """
import asyncio, sys
from pathlib import Path
import httpx2
from handspan.testing.gateway import running_gateway
async def main():
    async with running_gateway(Path("gateway")) as gateway, httpx2.AsyncClient(timeout=60) as http:
        headers = {"authorization": f"Bearer {gateway.token}"}
        assert (await http.get(f"{gateway.url}/api/tools", headers=headers)).status_code == 200
        assert (await http.get(f"{gateway.url}/api/mcp", headers=headers)).status_code == 200
asyncio.run(main())
"""
PROGRAM = """
import handspan.mcp
handspan.mcp.McpServerShell()
"""


@pytest.mark.parametrize("code", [HELP, MCP_HELP, GATEWAY, PROGRAM], ids=["help", "mcp help", "gateway", "program"])
def test_the_sdk_is_not_loaded_without_need(tmp_path: Path, code: str) -> None:
    check = '\nimport sys\nassert not {"mcp", "mcp_types"} & set(sys.modules), "the SDK is loaded"\n'
    done = subprocess.run([sys.executable, "-c", code + check], cwd=tmp_path, capture_output=True, timeout=50)
    assert done.returncode == 0, done.stderr.decode()
