"""The tour: an app's data, `handspan bridge`, `handspan serve`, and an agent that answers from it (SPEC D, P6, U2)."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.gateways import listed, serving
from tests.cli.shell import Shell

pytestmark = pytest.mark.outside

PROVIDER = '''
from handspan.provider import Access, Provider

app = Provider(
    "org.example.finance",
    description="Shares and accounts.",
    scopes={"holdings": "What you own"},
    access=Access(others="ask", hint="Run finance.py authorize"),
)


@app.tool
def get_holdings() -> list[dict[str, object]]:
    """Get the holdings of the portfolio."""
    return [{"name": "Acme Rockets", "shares": 12}]


app.main()
'''


@pytest.fixture
def run_folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="cetp")  # addresses of sockets are short
    yield folder
    shutil.rmtree(folder)


class Tour:
    """A person with an app, at a few terminals."""

    def __init__(self, run: Shell, folder: str) -> None:
        self.run = run
        self.environ = {"XDG_RUNTIME_DIR": folder}
        self.file = run.home / "finance.py"
        self.file.write_text(PROVIDER, encoding="utf-8")

    def app(self, *words: str) -> None:
        """A command of the app itself."""
        command = [sys.executable, str(self.file), *words]
        subprocess.run(command, env=self.run.environ(**self.environ), check=True, timeout=60, capture_output=True)

    def question(self, kind: str) -> str:
        """The id of the one open question, once it is there."""
        for _ in range(60):
            found: list[Any] = json.loads(self.run("questions", "--json").stdout)
            if found:
                assert [one["kind"] for one in found] == [kind]
                return str(found[0]["id"])
        raise AssertionError(f"no question of the kind {kind!r} was asked")


def test_an_agent_answers_from_the_data_of_an_app(run: Shell, run_folder: str) -> None:
    tour = Tour(run, run_folder)
    tour.app("install")
    without_adb = {**tour.environ, "HANDSPAN_BRIDGE__ADB": "/no/adb"}
    with serving(run), run.at_terminal("bridge", "--android", **without_adb) as bridge:
        bridge.until(r"android is skipped: adb does not work: the program '/no/adb' is not there")
        bridge.until(r"may it be started\? Answer on the page; or `handspan questions`")
        done = run("questions", "answer", tour.question("trust"), "allow")
        assert done.returncode == 0, done.stderr
        bridge.until(r"1 tool as finance__")
        assert any("finance__get_holdings" in listed(run) for _ in range(60)), "the bridge's line comes as it connects"
        with run.at_terminal("chat", "get the holdings of my portfolio") as chat:
            chat.until(r"Are you logged in\?")
            login = tour.question("login")
            shown = run("questions").stdout
            assert "Run finance.py authorize" in shown and f"begin: handspan questions start {login}" in shown
            assert run("questions", "start", login).returncode == 0
            tour.app("authorize", "--yes")
            chat.say("y")
            chat.until("Acme Rockets")
        devices = run("devices").stdout
        assert "finance: Shares and accounts." in devices and "finance: has holdings: What you own" in devices
        assert "bridge: Bridges 1 app." in devices
        assert "get_holdings" in devices and "finance__get_holdings" not in devices, "as those of other devices"
        assert run("bridge", "disable", "org.example.finance").returncode == 0
        bridge.until(r"org.example.finance: it is bridged no more")
        assert "finance__get_holdings" not in listed(run)
        assert run("questions", "start", login).returncode == 1


def test_a_bridge_without_a_gateway_says_how_to_start_one(run: Shell) -> None:
    done = run("bridge")
    assert done.returncode == 1
    assert "handspan serve" in done.stderr


def test_the_bridge_runs_without_the_packages_of_a_gateway(tmp_path: Path) -> None:
    code = (
        "import sys, handspan.bridge.__main__\n"
        "names = {name.partition('.')[0] for name in sys.modules} | set(sys.modules)\n"
        "heavy = {'click', 'uvicorn', 'httpx2', 'handspan.gateway', 'handspan.engine', 'handspan.config'}\n"
        "print(sorted(names & heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
