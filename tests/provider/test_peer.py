"""The program at the other end of a socket, and what the kit itself loads."""

import subprocess
import sys
from pathlib import Path

import pytest

from handspan.provider import connection
from handspan.provider.connection import ProviderSocket
from handspan.provider.peer import Consumer, PeerCredentials, _script
from handspan.testing import FakeProvider
from handspan.wire.cetp import CetpError, CetpRequest


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        (["/opt/bin/handspan", "bridge"], "/opt/bin/handspan"),
        (["app.py", "--verbose"], "/home/ann/app.py"),
        (["../bin/app.py"], "/home/bin/app.py"),
        (["-m", "handspan", "bridge"], "handspan"),
        (["-X", "utf8", "-u", "app.py"], "/home/ann/app.py"),
        (["-c", "import this"], ""),
        (["-i"], ""),
        ([""], ""),
        ([], ""),
    ],
)
def test_a_program_of_an_interpreter_is_its_script(arguments: list[str], script: str) -> None:
    assert _script(arguments, "/home/ann") == script


def test_a_consumer_has_a_name_even_where_the_system_knows_no_program() -> None:
    assert Consumer(1000, 7, "/opt/bin/bridge").name == "bridge"
    assert Consumer(1000).name == "uid 1000"


@pytest.mark.anyio
async def test_a_socket_of_another_person_is_not_called(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProvider(run_folder / "a.sock") as provider:
        monkeypatch.setattr(connection, "peer_of", lambda _: PeerCredentials(12345, 12345, 7))
        answer = await ProviderSocket("a", provider.path).call(CetpRequest("list_tools"))
        assert isinstance(answer, CetpError)
        assert "another user (uid 12345)" in answer.error_message
        assert provider.requests == []


def test_the_kit_needs_nothing_of_the_gateway() -> None:
    program = "import sys, handspan.provider.command as c; print(*{name.partition('.')[0] for name in sys.modules})"
    rooms = "print(*{name.split('.')[1] for name in sys.modules if name.startswith('handspan.')})"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{rooms}"], capture_output=True, text=True, timeout=60, check=True
    )
    packages, own = (set(line.split()) for line in done.stdout.splitlines())
    assert packages.isdisjoint({"click", "httpx2", "mcp", "pydantic", "starlette", "uvicorn", "websockets", "yaml"})
    assert own == {"core", "wire", "provider"}
