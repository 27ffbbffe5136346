"""How long it takes until the package is there."""

import compileall
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import handspan
from bench.figures import Figure

TRIES = 15


async def measure(folder: Path) -> Iterable[Figure]:
    """`import`, `handspan --help` and `handspan chat hi`, against `import asyncio, json`; best of many, by turns."""
    compileall.compile_dir(Path(handspan.__file__).parent, quiet=2)
    codes = {
        "nothing": "pass",
        "floor": "import asyncio, json",
        "ours": "import handspan",
        "help": _HELP,
    }
    best = dict.fromkeys((*codes, "chat"), float("inf"))
    for _ in range(TRIES):
        for name, code in codes.items():
            best[name] = min(best[name], _seconds(code))
        best["chat"] = min(best["chat"], _seconds_to_answer(folder))
    floor = best["floor"] - best["nothing"]
    chat = (best["chat"] - best["nothing"]) / floor
    return [
        Figure("import", (best["ours"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("help", (best["help"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("chat_start", chat, "x import asyncio, json", target=3, line=3.3),
    ]


_HELP = """
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
sys.argv = ["handspan", "--help"]
from handspan.cli.main import main
main()
"""


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=_environment())
    return time.perf_counter() - began


def _seconds_to_answer(folder: Path) -> float:
    """From the start of `handspan chat hi`, with no gateway running, to the first byte of its answer.

    The model is named: whether a local one answers is no matter of ours.
    """
    environment = _environment() | {"HOME": str(folder), "HANDSPAN_MODEL": "offline"}
    command = [sys.executable, "-m", "handspan.cli.main", "chat", "hi"]
    began = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if not process.stdout.read(1):
            raise RuntimeError("`handspan chat hi` gave no answer")
        seconds = time.perf_counter() - began
        process.stdout.read()
    return seconds


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
