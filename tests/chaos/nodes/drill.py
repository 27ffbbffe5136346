"""Runs a disturbance of a fleet under load, and holds it to the promises."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.figures import Figure
from tests.chaos.nodes.fleet import Fleet, open_fleet
from tests.chaos.nodes.load import Amount, NodesLoad
from tests.chaos.nodes.promises import all_listed, held_open, keep_promises


class Drill:
    """A fleet at work, and chance."""

    def __init__(self, fleet: Fleet, load: NodesLoad, chance: Random) -> None:
        self.fleet = fleet
        self.load = load
        self.chance = chance
        self.done: Counter[str] = Counter()
        """How often each disturbance happened."""

    def place(self) -> int:
        """Any node."""
        return self.chance.randrange(len(self.fleet.nodes))

    async def pause(self, seconds: float) -> None:
        """Let up to this many seconds pass."""
        await asyncio.sleep(self.chance.random() * seconds)


Disturb = Callable[[Drill], Awaitable[list[Figure] | None]]
"""Breaks something, mends it, and returns more figures if it has any."""


async def run_drill(
    folder: Path, seed: int, disturb: Disturb, amount: Amount | None = None, **options: Any
) -> list[Figure]:
    """The figures of one disturbance. `options`: those of `open_fleet`."""
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    async with open_fleet(folder, **options) as fleet:
        load = NodesLoad(fleet, amount or Amount(), seed)
        drill = Drill(fleet, load, Random(f"{seed}/disturbances"))
        async with load.connected():
            await all_listed(fleet, load)
            load.go_on()
            await load.works(20)
            await load.pause()
            before = await held_open(fleet)
            load.go_on()
            begun = time.monotonic()
            more = await disturb(drill)
            took = time.monotonic() - begun
            figures = await keep_promises(fleet, load, before)
    return [
        *(Figure(f"disturbances: {kind}", number) for kind, number in sorted(drill.done.items())),
        Figure("disturbed for", took, "s"),
        *figures,
        *(more or ()),
    ]
