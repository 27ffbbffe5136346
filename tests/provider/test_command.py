"""A provider's own command line: installed, started on demand, authorized, ended when idle (cetp.md 6.8)."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from handspan.provider import Access, Provider
from handspan.provider.access import Grants, grants_path
from handspan.provider.command import run_command
from handspan.provider.connection import ProviderSocket
from handspan.provider.launch import StartedProgram, start_program, wait_until_listening
from handspan.provider.manifests import find_manifests
from handspan.provider.server import ProviderServer
from handspan.wire.cetp import CetpError, CetpSuccess, execute_request, read_data
from tests.waiting import WAIT, soon

PROGRAM: Final = '''
from handspan.provider import Access, Provider

app = Provider("org.example.notes", access=Access("ask", hint="Run authorize", intent="org.example.ALLOW"))

@app.tool
def read_note(title: str) -> str:
    """Read a note."""
    return f"Note {title}"

app.main()
'''


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A provider in one file."""
    path = tmp_path / "notes.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def run(program: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command of the provider to its end."""
    argv = [sys.executable, str(program), *arguments]
    return subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


@asynccontextmanager
async def running(argv: list[str], path: Path, environment: dict[str, str]) -> AsyncIterator[StartedProgram]:
    """A provider in a process of its own."""
    process = await start_program(argv, path, environment)
    try:
        await wait_until_listening(path, process, 60)
        yield process
    finally:
        await process.end(WAIT)


@pytest.mark.anyio
async def test_a_provider_is_installed_started_authorized_and_ends_with_a_signal(
    program: Path, environment: dict[str, str]
) -> None:
    done = run(program, environment, "install")
    assert done.returncode == 0, done.stderr
    [found] = find_manifests(environment)
    assert found.manifest is not None and found.socket is not None and found.problem == ""
    assert done.stdout.strip() == str(found.path)
    calls = ProviderSocket(found.id, found.socket)
    async with running(found.manifest.exec, found.socket, environment) as process:
        answer = await calls.call(execute_request("read_note", {"title": "A"}, "r1"))
        assert isinstance(answer, CetpError)
        assert (answer.error_code, answer.resolution_hint) == ("AUTH_REQUIRED", "Run authorize")
        assert run(program, environment, *found.manifest.authorize[2:], "--yes").returncode == 0
        answer = await calls.call(execute_request("read_note", {"title": "A"}, "r1"))
        assert isinstance(answer, CetpSuccess)
        assert read_data(answer.data) == "Note A"
        calls.close()
        process.send_signal(signal.SIGTERM)
        assert await soon(process.wait()) == 0
    assert not found.socket.exists()


@pytest.mark.anyio
async def test_a_second_process_ends_at_once_and_the_first_when_it_is_idle(
    program: Path, environment: dict[str, str], run_folder: Path
) -> None:
    path = run_folder / "notes.sock"
    async with ProviderServer(Provider("org.example.notes"), path):
        second = await start_program([sys.executable, str(program), "serve"], path, environment)
        assert await soon(second.wait()) == 0
    first = await start_program([sys.executable, str(program), "serve", "--idle", "0.05"], path, environment)
    assert await soon(first.wait()) == 0
    assert not path.exists()


@pytest.fixture
def app(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Provider:
    """A provider that asks, in this process."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/opt/asks.py", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return Provider("org.example.asks", access=Access("ask", valid_for=3600))


def test_a_person_allows_a_program_by_name_and_takes_it_back(
    app: Provider, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["authorize"]) == 1
    assert "No program has asked" in capsys.readouterr().err
    assert run_command(app, ["authorize", "/opt/bin/x"]) == 1
    assert "no terminal and no window" in capsys.readouterr().err
    assert run_command(app, ["authorize", "/opt/bin/x", "--yes", "--coarse"]) == 0
    grant = Grants(grants_path("org.example.asks", environment)).find("/opt/bin/x")
    assert grant is not None and grant.is_coarse and grant.until is not None
    assert run_command(app, ["authorize", "--list"]) == 0
    assert "/opt/bin/x" in json.loads(capsys.readouterr().out)["granted"]
    assert run_command(app, ["authorize", "/opt/bin/x", "--revoke"]) == 0
    assert run_command(app, ["authorize", "/opt/bin/x", "--revoke"]) == 1


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("no", 1), ("", 1)])
def test_a_person_at_a_terminal_is_asked(typed: str, code: int, app: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return f"{typed}\n"

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert run_command(app, ["authorize", "/opt/bin/x"]) == code


def test_install_and_remove_are_a_pair(app: Provider, environment: dict[str, str]) -> None:
    assert run_command(app, ["remove"]) == 1
    assert run_command(app, ["install"]) == 0
    [found] = find_manifests(environment)
    assert found.id == "org.example.asks"
    assert run_command(app, ["remove"]) == 0
    assert find_manifests(environment) == []


def test_what_can_not_be_done_ends_with_1_and_says_why(
    app: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert run_command(app, ["install"]) == 1
    assert "Not a directory" in capsys.readouterr().err


def test_a_program_without_a_file_can_not_be_installed(
    app: Provider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert run_command(app, ["install"]) == 1
    assert "save the program in a file" in capsys.readouterr().err


def test_wrong_usage_ends_with_2(app: Provider) -> None:
    with pytest.raises(SystemExit) as ended:
        run_command(app, ["sing"])
    assert ended.value.code == 2
