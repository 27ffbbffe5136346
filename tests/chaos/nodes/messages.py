"""Messages between nodes are lost and doubled, and one node sends what only a later version understands."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure
from tests.chaos.nodes.child import ChildFaults
from tests.chaos.nodes.drill import Drill, run_drill
from tests.chaos.nodes.fleet import NODES
from tests.chaos.nodes.load import Amount

_SHARE: Final = 0.3


class Scale(Struct, frozen=True):
    """How much of it."""

    parcels: int = 300
    devices: int = 5
    callers: int = 8


SHORT: Final = Scale(40, 2, 2)


async def messages(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise, with a third of the messages lost and a third doubled; then with a node of a later version."""

    async def work(drill: Drill) -> None:
        await drill.load.works(scale.parcels)

    amount = Amount(scale.devices, scale.callers)
    unreliable = tuple(ChildFaults(lost=_SHARE, doubled=_SHARE, seed=seed + place) for place in range(NODES))
    newer = (ChildFaults(is_newer=True), *(ChildFaults() for _ in range(NODES - 1)))
    return [
        Figure("— messages lost and doubled", _SHARE),
        *await run_drill(folder / "fleet", seed, work, amount, faults=unreliable),
        Figure("— a node whose messages have unknown fields", 1),
        *await run_drill(folder / "fleet", seed, work, amount, faults=newer),
    ]
