"""`handspan provider`: a starter project, the check against the protocol, and what a bridge would find (SPEC D, U2)."""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handspan.testing import FakeProvider
from tests.cli.shell import Shell


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder for sockets: its path is short, because addresses of sockets are."""
    folder = Path(tempfile.mkdtemp(prefix="cetp"))
    folder.chmod(0o700)
    yield folder
    shutil.rmtree(folder)


def write_manifest(run: Shell, name: str, content: object) -> Path:
    """Install a manifest by hand."""
    path = run.home / ".local" / "share" / "handspan" / "providers" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.write_text(json.dumps(content), encoding="utf-8")
    path.chmod(0o644)
    return path


@pytest.mark.outside
def test_a_starter_project_passes_its_test_and_the_check_and_can_be_installed(run: Shell, runtime: Path) -> None:
    made = run("provider", "new", "shopping", "--in", str(run.home), "--json")
    assert made.returncode == 0, made.stderr
    project = run.home / "shopping"
    assert sorted(json.loads(made.stdout)) == sorted(str(file) for file in project.iterdir())
    test = subprocess.run(
        [sys.executable, "-m", "unittest"], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert test.returncode == 0, test.stderr
    manifest, place = str(project / "local.shopping.json"), {"XDG_RUNTIME_DIR": str(runtime)}
    checked = run("provider", "check", manifest, "--call", "search_items", "--args", '{"words": "mil"}', **place)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "FAIL" not in checked.stdout and "milk" in checked.stdout
    assert list(runtime.rglob("*.sock")) == []  # what the check started has ended
    assert run("provider", "install", manifest, **place).returncode == 0
    [listed] = json.loads(run("provider", "list", "--json", **place).stdout)
    assert (listed["id"], listed["can_start"], listed["is_running"]) == ("local.shopping", True, False)
    assert "starts on demand" in run("provider", "list", **place).stdout
    assert run("provider", "remove", "local.shopping").returncode == 0
    gone = run("provider", "remove", "local.shopping")
    assert gone.returncode == 1 and "Traceback" not in gone.stderr
    assert "provider new" in run("provider", "list").stderr


def test_a_starter_project_can_be_installed_at_once(run: Shell, runtime: Path) -> None:
    place = {"XDG_RUNTIME_DIR": str(runtime)}
    made = run("provider", "new", "shopping", "--in", str(run.home), "--install", **place)
    assert made.returncode == 0 and "Installed." in made.stdout
    [listed] = json.loads(run("provider", "list", "--json", **place).stdout)
    assert (listed["id"], listed["problem"]) == ("local.shopping", "")


@pytest.mark.parametrize(
    "words",
    [
        ("new", "Bad-Name"),
        ("new", "class"),
        ("new", "json"),
        ("new", "good", "--id", "../x"),
        ("new", "taken"),
        ("check", "x", "--call", "a", "--args", "[1]"),
        ("check",),
        ("install",),
    ],
)
def test_wrong_usage_ends_with_2(words: tuple[str, ...], run: Shell) -> None:
    (run.home / "taken").mkdir()
    place = ("--in", str(run.home)) if words[0] == "new" else ()
    done = run("provider", *words, *place)
    assert done.returncode == 2
    assert done.stderr and "Traceback" not in done.stderr


def test_a_provider_that_is_not_there_is_told_with_the_nearest_one(run: Shell, runtime: Path) -> None:
    write_manifest(run, "org.example.finance.json", {"id": "org.example.finance"})
    done = run("provider", "check", "org.example.finanse")
    assert done.returncode == 1
    assert "Did you mean 'org.example.finance'?" in done.stderr
    none = run("provider", "check", "org.example.finance", XDG_RUNTIME_DIR=str(runtime))
    assert none.returncode == 1 and "6.8" in none.stdout


def test_a_manifest_that_is_wrong_is_not_installed_and_fails_the_check(run: Shell) -> None:
    path = write_manifest(run, "a.json", {"id": "a", "exec": ["serve"]})
    for words in (("install", str(path)), ("check", str(path)), ("check", "a")):
        done = run("provider", *words)
        assert done.returncode == 1
        assert "absolute path" in done.stdout + done.stderr


@pytest.mark.outside
def test_the_list_says_what_a_bridge_would_skip_and_why(run: Shell, runtime: Path) -> None:
    write_manifest(run, "a.json", {"id": "b"})
    write_manifest(run, "later.json", {"id": "later", "version": 2})
    socket = runtime / "fake.sock"
    write_manifest(run, "org.example.fake.json", {"id": "org.example.fake", "label": "My Fake", "socket": str(socket)})

    async def list_while_it_runs() -> list[subprocess.CompletedProcess[str]]:
        async with FakeProvider(socket, ["echo", "writes"]):
            place = {"XDG_RUNTIME_DIR": str(runtime)}
            return [await asyncio.to_thread(run, "provider", "list", *more, **place) for more in (("--json",), ())]

    as_json, as_text = asyncio.run(list_while_it_runs())
    wrong, later, fake = sorted(json.loads(as_json.stdout), key=lambda one: str(one["manifest"]))
    assert "name the file b.json" in wrong["problem"]
    assert "version 2" in later["problem"]
    assert (fake["problem"], fake["is_running"], fake["tools"]) == ("", True, ["my_fake__echo"])
    assert "writes" in fake["left_out"]
    assert as_text.returncode == 0
    assert "'writes' is not offered" in as_text.stderr and "skipped" in as_text.stderr


@pytest.mark.outside
def test_the_check_names_what_is_wrong_with_its_clause(run: Shell, runtime: Path) -> None:
    async def check_while_it_runs(*tools: str) -> subprocess.CompletedProcess[str]:
        async with FakeProvider(runtime / "fake.sock", tools) as provider:
            return await asyncio.to_thread(run, "provider", "check", str(provider.path), "--json")

    done = asyncio.run(check_while_it_runs("echo", "writes"))
    found = json.loads(done.stdout)
    assert (done.returncode, found["valid"]) == (1, False)
    wrong = {(one["clause"], one["verdict"]) for one in found["results"] if one["verdict"] != "ok"}
    assert wrong == {("1.6", "wrong"), ("3.4", "warning"), ("6.6", "warning"), ("6.6", "wrong")}


@pytest.mark.outside
def test_the_check_blames_a_login_before_the_list_and_no_unknown_field(run: Shell, runtime: Path) -> None:
    async def check_while_it_runs() -> subprocess.CompletedProcess[str]:
        async with FakeProvider(runtime / "fake.sock", ["echo"]) as provider:
            provider.list_error = "AUTH_REQUIRED"
            return await asyncio.to_thread(run, "provider", "check", str(provider.path), "--json")

    results = json.loads(asyncio.run(check_while_it_runs()).stdout)["results"]
    wrong = {one["clause"]: one["text"] for one in results if one["verdict"] == "wrong"}
    assert wrong["5.4"].startswith("list_tools failed: it is called when no person is there, so it needs no login")
    assert "1.1" not in wrong


@pytest.mark.outside
def test_every_command_has_its_help(run: Shell) -> None:
    done = run("provider", "--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("check", "install", "list", "new", "remove"))
