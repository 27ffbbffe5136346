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
from bench.peers.slices import best_start

TRIES = 15


async def measure(folder: Path) -> Iterable[Figure]:
    """What a tool imports, `--help`, a chat, a first answer of `Handspan`; against `import asyncio, json`."""
    compileall.compile_dir(Path(handspan.__file__).parent, quiet=2)
    codes = {
        "nothing": "pass",
        "floor": "import asyncio, json",
        "ours": "from handspan import tool",
        "help": _HELP,
        "hands": _HANDS,
    }
    best = best_start(codes, TRIES)
    best["chat"] = min(_seconds_to_answer(folder) for _ in range(TRIES))
    floor = best["floor"] - best["nothing"]
    chat = (best["chat"] - best["nothing"]) / floor
    return [
        Figure("import", (best["ours"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("help", (best["help"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("chat_start", chat, "x import asyncio, json", target=3, line=3.3),
        Figure("hands_start", (best["hands"] - best["nothing"]) / floor, "x import asyncio, json"),
    ]


_HELP = """
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
sys.argv = ["handspan", "--help"]
from handspan.cli.__main__ import start
start()
"""


_HANDS = """
import asyncio
from handspan import Handspan
from handspan.models.scripted import Scripted, call
def get_weather(city: str) -> str:
    "The weather of a city."
    return f"It is sunny in {city}."
async def main():
    model = Scripted([call("get_weather", city="Paris"), "It is sunny."])
    async with Handspan(tools=[get_weather], model=model) as hands:
        answer = await hands.ask("What is the weather in Paris?")
    assert answer.calls and answer.text == "It is sunny."
asyncio.run(main())
"""
"""From the import to the first answer of an agent with one tool; `bench/peers/starting.py` has the same for others."""


def _seconds_to_answer(folder: Path) -> float:
    """From the start of `handspan chat hi`, with no gateway running, to the first byte of its answer.

    The model is named: whether a local one answers is no matter of ours.
    """
    environment = os.environ | {"HOME": str(folder), "HANDSPAN_MODEL": "offline"}
    command = [sys.executable, "-m", "handspan.cli", "chat", "hi"]
    began = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if not process.stdout.read(1):
            raise RuntimeError("`handspan chat hi` gave no answer")
        seconds = time.perf_counter() - began
        process.stdout.read()
    return seconds
