"""The script that sees to system packages, among programs that only say what they were asked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "system-packages"
EVERYTHING = ("adb", "bwrap", "setpriv", "prlimit", "chromium")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH with nothing in it but what the script itself needs."""
    for name in ("bash", "cat", "mktemp", "rm", "touch"):
        found = shutil.which(name)
        assert found, name
        (tmp_path / name).symlink_to(found)
    return tmp_path


def put(machine: Path, name: str, script: str = "") -> None:
    program = machine / name
    program.write_text(f"#!{shutil.which('bash')}\n{script}\n")
    program.chmod(0o755)


def put_apt(machine: Path, script: str = "") -> Path:
    """An apt-get that writes down what it was asked; it goes on with the script."""
    asked = machine / "asked"
    put(machine, "apt-get", f'echo "$@" >>{asked}\n{script}')
    return asked


def run(machine: Path, ci: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(machine), "TMPDIR": str(machine), "CI": ci}
    return subprocess.run(
        [str(machine / "bash"), str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def test_without_root_the_command_is_shown_and_nothing_is_installed(machine: Path) -> None:
    asked = put_apt(machine)
    put(machine, "id", "echo 1000")
    ended = run(machine)
    assert ended.returncode == 1
    assert "sudo apt-get install -y bubblewrap util-linux chromium" in ended.stderr
    assert not asked.exists()


def test_without_apt_the_packages_are_named(machine: Path) -> None:
    put(machine, "bwrap")
    ended = run(machine)
    assert ended.returncode == 1
    assert "please install util-linux chromium with your system's package manager" in ended.stderr


def test_an_installation_that_fails_twice_shows_what_apt_said(machine: Path) -> None:
    asked = put_apt(machine, '[ "$1" = update ] || { echo "E: no such package"; exit 100; }')
    put(machine, "id", "echo 0")
    ended = run(machine)
    assert ended.returncode == 1
    assert "E: no such package" in ended.stderr
    assert "apt-get could not install" in ended.stderr
    assert [line.split()[0] for line in asked.read_text().splitlines()] == ["install", "update", "install"]
    assert not list(machine.glob("tmp.*")), "the log is removed"


def test_a_list_of_packages_that_is_too_old_is_brought_up_to_date(machine: Path) -> None:
    fresh = machine / "fresh"
    put_apt(machine, f'[ "$1" = update ] && touch {fresh}; [ -e {fresh} ]')
    put(machine, "id", "echo 0")
    ended = run(machine)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("has_apt", [True, False])
def test_without_adb_the_tests_of_phones_are_skipped_and_nothing_else(machine: Path, has_apt: bool) -> None:
    for name in EVERYTHING[1:]:
        put(machine, name)
    if has_apt:
        put_apt(machine)
    put(machine, "id", "echo 1000")
    ended = run(machine)
    assert ended.returncode == 0, ended.stderr
    assert "sudo apt-get install -y adb" in ended.stdout


def test_root_installs_only_what_is_missing(machine: Path) -> None:
    for name in EVERYTHING[:-1]:
        put(machine, name)
    asked = put_apt(machine)
    put(machine, "id", "echo 0")
    ended = run(machine)
    assert ended.returncode == 0, ended.stderr
    assert asked.read_text().split()[-1] == "chromium"
    assert "bubblewrap" not in asked.read_text()
    assert ended.stdout == "system: installing chromium\n"


def test_where_everything_is_nothing_is_said_or_asked(machine: Path) -> None:
    for name in EVERYTHING:
        put(machine, name)
    asked = put_apt(machine)
    ended = run(machine)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not asked.exists()


@pytest.mark.parametrize(("user", "wanted"), [(0, "nginx-light caddy pgbouncer"), (1000, "")])
def test_the_continuous_integration_gets_servers_too_where_it_is_root(machine: Path, user: int, wanted: str) -> None:
    for name in EVERYTHING:
        put(machine, name)
    asked = put_apt(machine)
    put(machine, "id", f"echo {user}")
    ended = run(machine, ci="true")
    assert ended.returncode == 0, ended.stderr
    assert asked.exists() == bool(wanted)
    assert ended.stdout == (f"system: installing {wanted}\n" if wanted else "")
