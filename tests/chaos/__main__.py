"""`python -m tests.chaos`: every scenario in its long form, as a table; exit 1 when a promise is broken."""

import argparse
import asyncio
import inspect
import os
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import structs
from scripts.progress import Steps

from tests.chaos import (
    database_disk,
    failover,
    floods,
    hostile,
    kills,
    outages,
    pages,
    schedules,
    sigterm,
    soak,
    storm,
    walks,
)
from tests.chaos.figures import Figure, broken, table
from tests.chaos.nodes import (
    clocks,
    devices,
    drain,
    engines,
    mcp_servers,
    messages,
    on_one_computer,
    proxies,
    random_faults,
    rolling,
    steps,
)
from tests.stores import postgres_variables

SCENARIOS: Final[dict[str, tuple[Callable[[Path, Any, int], Any], Any, Any]]] = {
    "storm": (storm.storm, storm.Scale(), storm.SHORT),
    "kills": (kills.kills, kills.Scale(), kills.SHORT),
    "pages": (pages.pages, pages.Scale(), pages.SHORT),
    "sigterm": (sigterm.sigterm, sigterm.Scale(), sigterm.SHORT),
    "hostile": (hostile.hostile, hostile.Scale(), hostile.SHORT),
    "floods": (floods.floods, floods.Scale(), floods.SHORT),
    "outages": (outages.outages, outages.Scale(), outages.SHORT),
    "failover": (failover.failover, failover.Scale(), failover.SHORT),
    "database_disk": (database_disk.database_disk, database_disk.Scale(), database_disk.SHORT),
    "soak": (soak.soak, soak.Scale(), soak.SHORT),
    "walks": (walks.walks, walks.Scale(), walks.SHORT),
    "schedules": (schedules.schedules, schedules.Scale(), schedules.SHORT),
    "node_schedules": (schedules.node_schedules, schedules.Scale(), schedules.SHORT),
    "nodes": (random_faults.nodes, random_faults.Scale(), random_faults.SHORT),
    "node_steps": (steps.steps, steps.Scale(), steps.SHORT),
    "node_engines": (engines.engines, engines.Scale(), engines.SHORT),
    "node_devices": (devices.devices, devices.Scale(), devices.SHORT),
    "node_rolling": (rolling.rolling, rolling.Scale(), rolling.SHORT),
    "node_proxies": (proxies.proxies, proxies.Scale(), proxies.SHORT),
    "node_messages": (messages.messages, messages.Scale(), messages.SHORT),
    "nodes_on_one_computer": (on_one_computer.on_one_computer, on_one_computer.Scale(), on_one_computer.SHORT),
    "node_clocks": (clocks.clocks, clocks.Scale(), clocks.SHORT),
    "node_drain": (drain.drain, drain.Scale(), drain.SHORT),
    "node_mcp": (mcp_servers.mcp_servers, mcp_servers.Scale(), mcp_servers.SHORT),
}
"""By name: what gives the figures, and how much of it there is in the long and in the short form."""


def main() -> int:
    """Run what was asked for; 1 when a promise is broken."""
    options = _options()
    is_broken = False
    names = options.scenarios or list(SCENARIOS)
    with Steps(len(names)) as steps:
        for name in names:
            begun = time.monotonic()
            try:
                with steps.step(name):
                    figures = _figures(name, options)
            except Exception:  # the other scenarios run all the same
                steps.clear()
                sys.stdout.write(f"{name} (seed {options.seed}) has FAILED:\n{traceback.format_exc()}\n")
                sys.stdout.flush()
                is_broken = True
                continue
            steps.clear()
            sys.stdout.write(table(name, options.seed, time.monotonic() - begun, figures) + "\n\n")
            sys.stdout.flush()
            is_broken = is_broken or bool(broken(figures))
    sys.stdout.write("A promise is BROKEN.\n" if is_broken else "Every promise was kept.\n")
    return 1 if is_broken else 0


def _figures(name: str, options: argparse.Namespace) -> list[Figure]:
    scenario, long, short = SCENARIOS[name]
    scale = _scaled(short if options.short else long, options.scale)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        if options.postgres:
            os.environ.update(postgres_variables(Path(folder)))
        figures = scenario(Path(folder), scale, options.seed)
        found: list[Figure] = asyncio.run(figures) if inspect.iscoroutine(figures) else figures
    return found


def _scaled(scale: Any, factor: float) -> Any:
    """So many times as much of everything."""
    counts = {name: max(1, round(count * factor)) for name, count in structs.asdict(scale).items()}
    return structs.replace(scale, **counts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help=f"which of {', '.join(SCENARIOS)}; all of them without")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="repeat a run")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times as much of everything")
    parser.add_argument("--short", action="store_true", help="the short forms, as in `make test`")
    parser.add_argument("--postgres", action="store_true", help="gateways have their store in PostgreSQL")
    options = parser.parse_args()
    if unknown := [name for name in options.scenarios if name not in SCENARIOS]:
        parser.error(f"there is no scenario {unknown[0]!r}")
    return options


if __name__ == "__main__":
    sys.exit(main())
