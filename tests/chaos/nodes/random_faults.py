"""Every part dies, freezes or stops, again and again, in an order that chance makes."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure
from tests.chaos.nodes.drill import Drill, run_drill
from tests.chaos.nodes.load import Amount
from tests.chaos.nodes.parts import FAULTS


class Scale(Struct, frozen=True):
    """How much of it."""

    disturbances: int = 30
    devices: int = 5
    callers: int = 6


SHORT: Final = Scale(2, 2, 2)


async def nodes(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise of many nodes while all of their parts fail by turns."""

    async def disturb(drill: Drill) -> None:
        for _ in range(scale.disturbances):
            await drill.pause(2)
            await drill.chance.choice(FAULTS)(drill)

    return await run_drill(folder / "fleet", seed, disturb, Amount(scale.devices, scale.callers))
