"""A result of 64 KB on its way out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.figures import Figure, best_cpu
from handspan.core.results import succeed


async def measure(folder: Path) -> Iterable[Figure]:
    """`serialise_64k_ms`: an object of about 64 KB, made plain and encoded."""
    rows: list[Any] = [
        {"id": number, "name": f"row {number}", "tags": ["a", "b"], "ok": True} for number in range(1_150)
    ]
    value = {"rows": rows}
    assert 60_000 < len(succeed(value).encoded) < 70_000

    async def ours() -> object:
        return succeed(value)

    took = await best_cpu({"ours": ours})
    return [Figure("serialise_64k_ms", took["ours"] / 1000, "ms", target=10)]
