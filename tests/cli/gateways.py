"""Real gateways and devices for tests of commands: processes at terminals of their own."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.shell import Shell, Terminal


@contextlib.contextmanager
def serving(run: Shell, *words: str, **environ: str) -> Iterator[Terminal]:
    """`handspan serve` on the state folder of this home, with the model that needs no key."""
    with run.at_terminal("serve", "--port", "0", "--model", "offline", *words, **environ) as gateway:
        gateway.until(r"State [^\n]*\n")
        yield gateway


@contextlib.contextmanager
def device(
    run: Shell, *words: str, label: str = "laptop", until: str = r"Connected to [^\n]*\n", **environ: str
) -> Iterator[Terminal]:
    """`handspan device`, connected."""
    with run.at_terminal("device", "--label", label, *words, **environ) as terminal:
        terminal.until(until)
        yield terminal


def address(run: Shell) -> str:
    """Where the gateway of this home is."""
    url: str = json.loads((run.state / "gateway.json").read_text(encoding="utf-8"))["url"]
    return url


def token(run: Shell) -> str:
    """The operator's token."""
    return (run.state / "operator.token").read_text(encoding="utf-8").strip()


def listed(run: Shell, *words: str) -> dict[str, Any]:
    """The tools by name, as `handspan tools --json` prints them."""
    done = run("tools", "--json", *words)
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)}


def program(folder: Path, name: str, code: str) -> str:
    """A program of this name for PATH; the PATH with it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
