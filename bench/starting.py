"""How long it takes until the package is there."""

import compileall
from collections.abc import Iterable
from pathlib import Path

import handspan
from bench.figures import Figure
from bench.peers.slices import best_start

TRIES = 15


async def measure(folder: Path) -> Iterable[Figure]:
    """`import`, `handspan --help`, a chat, and a first answer of `Handspan`, against `import asyncio, json`."""
    compileall.compile_dir(Path(handspan.__file__).parent, quiet=2)
    codes = {
        "nothing": "pass",
        "floor": "import asyncio, json",
        "ours": "import handspan",
        "help": _HELP,
        "chat": _CHAT.format(folder=folder),
        "hands": _HANDS,
    }
    best = best_start(codes, TRIES)
    floor = best["floor"] - best["nothing"]
    chat = (best["chat"] - best["nothing"]) / floor
    return [
        Figure("import", (best["ours"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("help", (best["help"] - best["nothing"]) / floor, "x import asyncio, json", target=3),
        Figure("chat_start", chat, "x import asyncio, json", target=3),
        Figure("hands_start", (best["hands"] - best["nothing"]) / floor, "x import asyncio, json"),
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
