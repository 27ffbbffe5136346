"""The registry: look-up with many tools, and how long the built-in tools take to be there."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from bench.figures import Figure, best_cpu
from bench.house import House, tool_named
from handspan.config.load import load_settings
from handspan.gateway.app import App

MANY = 10_000


async def measure(folder: Path) -> Iterable[Figure]:
    """`lookup_growth`, `register_builtins_ms`."""
    few, many = House(folder), House(folder)
    for number in range(MANY):
        many.registry.register(tool_named(f"tool_{number}"))

    async def in_few() -> object:
        return few.caller.box.find("add")

    async def in_many() -> object:
        return many.caller.box.find("add")

    took = await best_cpu({"few": in_few, "many": in_many})
    return [
        Figure("lookup_growth", took["many"] / took["few"], f"x, {MANY} tools against 3", target=1.1),
        Figure("register_builtins_ms", await _register_builtins(folder), "ms", target=20),
    ]


async def _register_builtins(folder: Path) -> float:
    """Wall time to register all built-in tools in an empty registry; best of five."""
    settings = load_settings(None, {**os.environ, "HANDSPAN_CONFIG": ""}, _folders(folder))
    best = float("inf")
    for _ in range(5):
        app = App(settings)
        began = time.perf_counter()
        await app.open()
        best = min(best, time.perf_counter() - began)
        assert len(app.registry) >= 14
        await app.close()
    return best * 1000


def _folders(folder: Path) -> dict[str, str]:
    return {"workspace": str(folder / "workspace"), "state": str(folder / "state")}
