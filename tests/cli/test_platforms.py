"""Commands on a system without the names that only Linux has, and without uvloop: as on macOS (SPEC S1, S3)."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.waiting import WAIT

pytestmark = pytest.mark.outside

# What runs before the command. Three modules read what the real system has: they are loaded first.
PREAMBLE = """
import os, signal, socket, sys, sysconfig, time, truststore, urllib.request
sysconfig.get_config_vars()
for module, names in (
    (os, "O_PATH O_TMPFILE O_DIRECT memfd_create pidfd_open eventfd sched_getaffinity pipe2 splice setresuid"),
    (socket, "SO_PASSCRED SO_PEERCRED SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK"),
    (signal, "pidfd_send_signal"),
    (time, "CLOCK_BOOTTIME"),
):
    for name in names.split():
        vars(module).pop(name, None)
sys.modules["uvloop"] = None
sys.platform = "darwin"
"""
COMMAND = (sys.executable, "-c", f"{PREAMBLE}\nfrom handspan.cli.main import main\nmain()")
IMPORT_ALL = """
import importlib, pkgutil, handspan
for module in pkgutil.walk_packages(handspan.__path__, "handspan."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def on_macos(run: Shell, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], env=run.environ(), capture_output=True, encoding="utf-8", timeout=WAIT, check=False
    )


def result(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)["result"]


@pytest.fixture
def gateway(run: Shell, tmp_path: Path) -> Iterator[None]:
    """A gateway on such a system, which serves this home."""
    ready = tmp_path / "ready.json"
    words = ("serve", "--port", "0", "--model", "offline", "--ready-file", str(ready))
    with subprocess.Popen([*COMMAND, *words], env=run.environ(), stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        with contextlib.suppress(StopIteration):
            next(line for line in process.stdout if line.startswith("State"))
        yield
        process.terminate()
        assert process.wait(WAIT) == 0


@pytest.mark.timeout(600)
def test_every_module_can_be_imported(run: Shell) -> None:
    command = [sys.executable, "-c", PREAMBLE + IMPORT_ALL]
    environ = run.environ()
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", timeout=9 * WAIT, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("gateway")
def test_the_gateway_serves_with_asyncio_and_the_file_tools_work(run: Shell) -> None:
    written = on_macos(run, "call", "write_file", '{"path": "a/b.txt", "content": "hello"}')
    assert written.stderr == "" and result(written)["bytes_written"] == 5
    assert "hello" in str(result(on_macos(run, "call", "read_file", '{"path": "a/b.txt"}')))
    assert (run.workspace / "a" / "b.txt").read_text() == "hello"
    outside = on_macos(run, "call", "read_file", '{"path": "../../../../secret"}')
    assert json.loads(outside.stdout)["code"] == "invalid_path"
    (run.workspace / "link").symlink_to("/etc")
    through_a_link = on_macos(run, "call", "read_file", '{"path": "link/passwd"}')
    assert json.loads(through_a_link.stdout)["code"] == "invalid_path"


def test_the_shell_has_its_short_list_and_the_doctor_says_why(run: Shell) -> None:
    assert result(on_macos(run, "call", "exec_shell", '{"command": "echo hello"}'))["stdout"] == "hello\n"
    refused = on_macos(run, "call", "exec_shell", '{"command": "python3 -c 1"}')
    assert json.loads(refused.stdout)["code"] == "policy_denied"
    doctor = on_macos(run, "doctor", "--json")
    assert (doctor.returncode, doctor.stderr) == (0, ""), doctor.stdout
    found = {finding["what"]: finding for finding in json.loads(doctor.stdout)}
    assert found["workspace"]["ok"] and found["sandbox"]["ok"]
    assert found["sandbox"]["found"] == "not on this system: bubblewrap needs Linux, this is macOS"
    assert "short list" in found["sandbox"]["remedy"]
    assert "note  sandbox: not on this system" in on_macos(run, "doctor").stdout
    run.config('[tools.sandbox]\nenabled = "on"\n')
    required = on_macos(run, "doctor")
    assert required.returncode == 1 and "FAIL  sandbox: not on this system" in required.stdout


def test_windows_itself_is_told_where_to_run_it(run: Shell) -> None:
    code = "import asyncio, click, sys; sys.modules['fcntl'] = None; sys.platform = 'win32'"
    command = [sys.executable, "-c", f"{code}\nfrom handspan.cli.main import main\nmain()", "tools"]
    done = subprocess.run(command, env=run.environ(), capture_output=True, encoding="utf-8", timeout=WAIT, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "inside WSL" in done.stderr and "Traceback" not in done.stderr
