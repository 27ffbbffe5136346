"""Every node is restarted, one after the other, while all works: no call fails, as in an upgrade."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure, none_of
from tests.chaos.nodes.drill import Drill, run_drill
from tests.chaos.nodes.load import Amount
from tests.chaos.nodes.parts import restart_node
from tests.chaos.nodes.promises import all_listed

NEVER_SENT: Final = frozenset(("success", "disconnected", "tool_not_found", "tool_not_available", "busy"))
"""Codes after which a call can be made again without a risk: it did not run."""


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 2
    devices: int = 5
    callers: int = 6


SHORT: Final = Scale(1, 2, 2)


async def rolling(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise, and that no call failed."""

    async def disturb(drill: Drill) -> list[Figure]:
        for _ in range(scale.rounds):
            for place in range(len(drill.fleet.nodes)):
                await restart_node(drill, place)
                await all_listed(drill.fleet, drill.load)
                await drill.load.works()
        results = drill.load.results
        failed = {
            parcel: one for parcel, one in results.items() if one and one.get("code", "success") not in NEVER_SENT
        }
        return [none_of("calls that failed", map(str, failed.items()))]

    return await run_drill(folder / "fleet", seed, disturb, Amount(scale.devices, scale.callers))
