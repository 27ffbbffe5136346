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
    """`import`, and beside it `handspan --help`, against `import asyncio, json`; best of many, by turns."""
    compileall.compile_dir(Path(handspan.__file__).parent, quiet=2)
    codes = {
        "nothing": "pass",
        "floor": "import asyncio, json",
        "ours": "import handspan",
        "help": _HELP,
        "chat": _CHAT.format(folder=folder),
    }
    best = dict.fromkeys(codes, float("inf"))
    for _ in range(TRIES):
        for name, code in codes.items():
            best[name] = min(best[name], _seconds(code))
    floor = best["floor"] - best["nothing"]
    chat = (best["chat"] - best["nothing"]) / floor
    return [
        Figure("import", (best["ours"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("help", (best["help"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("chat_start", chat, "x import asyncio, json", target=3),
    ]


_HELP = """
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
sys.argv = ["handspan", "--help"]
from handspan.cli.main import main
main()
"""


_CHAT = """
import asyncio
from handspan.cli import chat
from handspan.config.load import load_settings
async def start():
    folders = {{"workspace": "{folder}/ws", "state": "{folder}/st"}}
    async with chat.App(load_settings(None, {{"HOME": "{folder}"}}, folders), durable=True) as app:
        await app.loader().begin(await app.find_agent(), await app.choose_model("offline"))
asyncio.run(start())
"""


def _seconds(code: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - began
