"""The engines fail, or one node can't reach one of them: NATS alone and in a cluster of three, PostgreSQL."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure
from tests.chaos.nodes.drill import Disturb, Drill, run_drill
from tests.chaos.nodes.load import Amount
from tests.chaos.nodes.parts import (
    cut_off_from_database,
    cut_off_from_nats,
    freeze_nats,
    kill_nats,
    stop_database,
)

_SERVERS: Final = 3
_DATABASE_AWAY: Final = 10.0
_FROZEN: Final = 8.0
"""Longer than a client of NATS needs to notice it: two pings of 2 s each."""


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 2
    devices: int = 4
    callers: int = 4


SHORT: Final = Scale(1, 2, 2)


async def engines(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The promises after each of four kinds of outages, each with a fleet of its own."""

    async def lose_servers(drill: Drill) -> None:
        """One server of NATS at a time is killed, or frozen: the others carry on."""
        for _ in range(scale.rounds):
            await kill_nats(drill, 3.0)
            await drill.load.works()
            await freeze_nats(drill, _FROZEN)
            await drill.load.works()

    async def stop_engines(drill: Drill) -> None:
        """The only server of NATS is killed and frozen, then PostgreSQL is away."""
        for _ in range(scale.rounds):
            await kill_nats(drill)
            await freeze_nats(drill)
            await stop_database(drill, _DATABASE_AWAY)
            await drill.load.works()

    kinds: tuple[tuple[str, Disturb, dict[str, int | bool]], ...] = (
        ("one of three NATS servers", lose_servers, {"servers": _SERVERS}),
        ("NATS and PostgreSQL", stop_engines, {}),
        ("node without NATS", cut_off_from_nats, {"is_proxied": True}),
        ("node without PostgreSQL", cut_off_from_database, {"is_proxied": True}),
    )
    figures = []
    for name, disturb, options in kinds:
        figures.append(Figure(f"— {name}", 1))
        figures += await run_drill(folder / "fleet", seed, disturb, Amount(scale.devices, scale.callers), **options)
    return figures
