"""Every command and snippet of the README does what the README says."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handspan.client import Client
from handspan.config.load import load_settings

ROOT = Path(__file__).parents[1]
THREE_TERMINALS = ("handspan device", 'handspan chat "take device info of my computer"')
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the README's own tool in it."""
    tools = tmp_path / ".config" / "handspan" / "tools"
    tools.mkdir(parents=True)
    dice = next(block for block in blocks("python") if "roll_dice" in block)
    (tools / "dice.py").write_text(dice, encoding="utf-8")
    return tmp_path


def environ(home: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HANDSPAN_", "XDG_"))}
    return {**clean, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 140


def test_every_command_works_and_prints_what_is_shown(home: Path) -> None:
    ran = 0
    for block in blocks("console"):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            command = command.split("  #")[0].strip()
            if command.startswith(("make ", "uvx ")) or command in THREE_TERMINALS:
                continue  # other tests and `make release-check` look at these
            done = subprocess.run(
                ["sh", "-c", command],
                env=environ(home),
                cwd=home,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            expected = 1 if '"status":"error"' in shown else 0
            assert done.returncode in (expected, *([1] if command == "handspan doctor" else [])), (command, done)
            if shown.strip():
                pattern = re.escape(shown.strip()).replace("…", ".*")
                assert re.fullmatch(pattern, done.stdout.strip()), (shown, done.stdout)
            ran += 1
    assert ran >= 7


def test_three_terminals_show_what_is_promised(home: Path) -> None:
    """`make serve` runs `handspan serve`; here on a port that is free."""
    assert all(f"$ {command}" in README for command in THREE_TERMINALS)
    env = {**environ(home), "HANDSPAN_GATEWAY__PORT": "0"}
    ready = home / "ready.json"
    with contextlib.ExitStack() as terminals:
        serve = f"exec handspan serve --ready-file {ready}"
        gateway = subprocess.Popen(["sh", "-c", serve], env=env, cwd=home, stdout=subprocess.DEVNULL)
        terminals.callback(end, gateway)
        wait_for(ready.exists)
        device = subprocess.Popen(
            ["sh", "-c", f"exec {THREE_TERMINALS[0]} --yes"], env=env, cwd=home, stdout=subprocess.PIPE, text=True
        )
        terminals.callback(end, device)
        assert device.stdout is not None
        assert "device_info" in next(line for line in device.stdout if "device_info" in line)
        chat = subprocess.run(
            ["sh", "-c", THREE_TERMINALS[1]], env=env, cwd=home, capture_output=True, text=True, timeout=60, check=True
        )
        battery = call_device_of_the_readme(home, env, json.loads(ready.read_text(encoding="utf-8")), terminals)
    assert "__device_info" in chat.stdout + chat.stderr, (chat.stdout, chat.stderr)
    assert '"percent":80' in battery


def call_device_of_the_readme(
    home: Path, env: dict[str, str], ready: dict[str, str], terminals: contextlib.ExitStack
) -> str:
    """What `phone__battery` answers, once the README's program runs with the gateway's address and a token."""
    program = next(block for block in blocks("python") if "handspan.client" in block)
    program = program.replace("http://127.0.0.1:42617", ready["url"]).replace('token="…"', f'token="{ready["token"]}"')
    (home / "phone.py").write_text(program, encoding="utf-8")
    terminals.callback(end, subprocess.Popen([sys.executable, str(home / "phone.py")], env=env))
    answers: list[str] = []

    def has_answered() -> bool:
        command = ["handspan", "call", "phone__battery"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        answers.append(done.stdout)
        return done.returncode == 0

    wait_for(has_answered)
    return answers[-1]


def end(process: "subprocess.Popen[Any]") -> None:
    process.terminate()
    process.communicate(timeout=60)


def wait_for(claim: Callable[[], bool]) -> None:
    latest = time.monotonic() + 30
    while not claim():
        assert time.monotonic() < latest
        time.sleep(0.02)


def test_the_device_of_the_readme_is_one() -> None:
    program = next(block for block in blocks("python") if "handspan.client" in block)
    namespace: dict[str, object] = {}
    exec(program, namespace)
    assert isinstance(namespace["phone"], Client)


def test_every_make_target_that_is_named_is_there() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"serve", "test", "bench"} <= named
    for target in named:
        subprocess.run(["make", "-C", str(ROOT), "-n", target], check=True, capture_output=True, timeout=60)


def test_the_engine_runs_inside_a_program(home: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "embedded.py")]
    done = subprocess.run(command, env=environ(home), capture_output=True, text=True, timeout=60, check=True)
    *results, answer = done.stdout.splitlines()
    assert [line.split(",")[0] for line in results] == [f"Success(value={n}" for n in (1, 2, 3)]
    assert answer == "It is 42."


def test_five_lines_are_an_agent_with_tools(home: Path) -> None:
    program = next(block for block in blocks("python") if "Handspan(" in block)
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environ(home), cwd=home, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("It is sunny in Paris.")


def test_the_settings_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    (text,) = blocks("toml")
    file.write_text(text, encoding="utf-8")
    settings = load_settings(file, {"HOME": str(tmp_path)}, None)
    assert set(tomllib.loads(text)["agents"]) <= set(settings.agents)
    assert settings.hooks.chain[0].type == "rate_limit"


def test_every_link_and_every_picture_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", README)
    links = [link or picture for link, picture in links]
    assert links and all((ROOT / link).is_file() for link in links)
