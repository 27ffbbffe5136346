"""What the gateway loads before its first answer."""

import os
import subprocess
import sys
from pathlib import Path

from handspan.core.fast import FAST_VARIABLE
from tests.waiting import WAIT

LATE = (
    "encodings.idna handspan.gateway.clients.chat handspan.gateway.clients.socket "
    "handspan.gateway.graph handspan.gateway.http.routing handspan.gateway.rest "
    "handspan.models.offline.model http.client httpx2 importlib.metadata "
    "markdownify pydantic rich starlette.requests websockets"
)
FIRST_ANSWER = """
import asyncio, sys
import handspan.cli.main, handspan.cli.serve
from handspan.config.load import load_settings
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server

async def answered():
    folders = {"state": sys.argv[1] + "/state", "workspace": sys.argv[1] + "/ws", "gateway.port": 0}
    settings = load_settings(None, {"HOME": sys.argv[1]}, folders)
    server = Server(Gateway(settings, model="offline"), settings.gateway)
    await server.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET /health HTTP/1.1\\r\\nHost: 127.0.0.1:{server.port}\\r\\n\\r\\n".encode())
    status = (await reader.readline()).split()[1].decode()
    print(status, *(name for name in sys.argv[2].split() if name in sys.modules))
    writer.close()
    await server.close()

asyncio.run(answered())
"""


def said_by(code: str, *arguments: str) -> list[str]:
    """The lines that a Python of its own prints; without whoever measures coverage, who loads modules too."""
    command = [sys.executable, "-c", code, *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    environ[FAST_VARIABLE] = "on"
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=WAIT, check=True)
    return ran.stdout.splitlines()


def test_nothing_heavy_is_loaded_before_the_first_answer(tmp_path: Path) -> None:
    assert said_by(FIRST_ANSWER, str(tmp_path), LATE) == ["200"]
