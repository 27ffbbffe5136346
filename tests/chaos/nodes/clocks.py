"""The clocks of the nodes are 30 s apart: leases, deadlines and what expires hold all the same.

Only the time of day differs (libfaketime); the clock that measures durations is left alone, as on real computers.
"""

from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure
from tests.chaos.nodes.drill import Drill, run_drill
from tests.chaos.nodes.load import Amount
from tests.chaos.nodes.parts import freeze_node, kill_node
from tests.nodes.gateways import LEASE

HOW_TO_INSTALL: Final = "SKIPPED: no libfaketime; run `apt-get install faketime`"
_APART: Final = ("+0", "+30", "-30")
"""Seconds that the clock of each node is ahead."""


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 2
    devices: int = 4
    callers: int = 4


SHORT: Final = Scale(1, 2, 2)


def find_library() -> Path | None:
    """Return the library that changes the time of day, or None."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


async def clocks(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise, while each node by turns is killed or frozen."""
    library = find_library()
    if library is None:
        return [Figure(HOW_TO_INSTALL, 0)]
    environs = tuple(
        {"LD_PRELOAD": str(library), "FAKETIME": f"{ahead}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"} for ahead in _APART
    )

    async def disturb(drill: Drill) -> None:
        for _ in range(scale.rounds):
            for place in range(len(drill.fleet.nodes)):
                await kill_node(drill, place)
                await drill.load.works()
            await freeze_node(drill, 2 * LEASE)
            await drill.load.works()

    return await run_drill(folder / "fleet", seed, disturb, Amount(scale.devices, scale.callers), environs=environs)
