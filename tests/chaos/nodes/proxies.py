"""Every node is restarted behind the shipped proxies, under clients that never try twice: no call fails (SPEC K6)."""

import shutil
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure, none_of
from tests.deploy.rolling import Command, roll
from tests.deploy.test_balancing import caddy_command, nginx_command

_PROXIES: Final[dict[str, tuple[Command, str]]] = {
    "nginx": (nginx_command, "nginx.conf"),
    "caddy": (caddy_command, "Caddyfile"),
}


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 2
    calls: int = 90
    """After each stop and each start, behind each proxy."""
    devices: int = 5


SHORT: Final = Scale(1, 30, 2)


async def proxies(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """How many calls there were, and that none has failed. A proxy that is not installed is left out, and named."""
    figures: list[Figure] = []
    for name, (command, file) in _PROXIES.items():
        if shutil.which(name) is None:
            figures.append(none_of(f"{name}: calls (it is not installed)", ()))
            continue
        callers = await roll(folder / name, command, file, scale.rounds, scale.calls, scale.devices)
        asked = scale.rounds * 3 * 2 * scale.calls
        figures += [
            Figure(f"{name}: calls", callers.done, at_least=asked),
            none_of(f"{name}: calls that failed", callers.failed),
        ]
    return figures
