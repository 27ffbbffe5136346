"""Several threads load parts of the MCP SDK at once, in a process that has none of it yet."""

import asyncio
import sys
from pathlib import Path

import httpx2
import pytest

from handspan.testing.process import GatewayProcess
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("server.py")
_LOAD = """
import asyncio, sys
from pathlib import Path
from handspan.config.tool_settings import McpOauth
from handspan.mcp.shell import McpServerShell
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.opening import load_sdk

sys.setswitchinterval(1e-5)

async def load():
    logins = McpLogins(Path(sys.argv[1]), None, "http://127.0.0.1:1")
    await asyncio.gather(
        load_sdk(),
        logins.make_auth("notes", "https://notes.test/mcp", McpOauth()),
        asyncio.to_thread(lambda: McpServerShell("shell").asgi()),
    )

asyncio.run(load())
print("loaded")
"""


async def test_a_link_a_login_and_a_shell_load_the_sdk_at_the_same_time(tmp_path: Path) -> None:
    for _ in range(3):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _LOAD, str(tmp_path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _none = await asyncio.wait_for(program.communicate(), WAIT)
        assert output.decode().strip() == "loaded"


async def test_the_first_mcp_client_comes_while_the_link_to_a_server_opens(tmp_path: Path) -> None:
    (tmp_path / "handspan.toml").write_text(
        f"[tools.mcp_servers.bad]\ncommand = {sys.executable!r}\nargs = ['-I', '-S', {str(SERVER)!r}]\n"
    )
    async with GatewayProcess(tmp_path, "--config", str(tmp_path / "handspan.toml")) as gateway:
        headers = {"authorization": f"Bearer {gateway.token}", "accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=headers, base_url=gateway.url, timeout=WAIT) as http:
            about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
            assert (await http.post("/mcp", json=hello)).status_code == 200

            async def is_ready() -> bool:
                (server,) = (await http.get("/api/mcp")).json()["servers"]
                assert "import" not in server["reason"], server
                return bool(server["status"] == "ready")

            await until(is_ready)
