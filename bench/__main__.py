"""`python -m bench`: every figure, as a table and in bench/results/latest.json. With --peers the peers beside them,
and the pictures of docs/pictures drawn anew.

`python -m bench dispatch starting` measures these families only, and keeps nothing.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import msgspec
from scripts.progress import Steps

from bench import (
    bridging,
    budgeting,
    chart,
    compacting,
    dispatch,
    flooding,
    graphing,
    imaging,
    looping,
    mcp_calls,
    nodes,
    page,
    postgres,
    pushing,
    registering,
    remote,
    scheduling,
    searching,
    serialising,
    serving,
    setting_up,
    starting,
    storing,
    tool_search,
)
from bench.figures import Figure, misses
from bench.peers.run import beside

RESULTS = Path(__file__).parent / "results" / "latest.json"
FAMILIES: dict[str, ModuleType] = {
    family.__name__.removeprefix("bench."): family
    for family in (
        *(dispatch, registering, serialising, starting, looping, storing, serving, graphing, remote, searching),
        *(imaging, flooding, setting_up, tool_search, mcp_calls, bridging, postgres, nodes, page, compacting),
        *(budgeting, pushing, scheduling),
    )
}


async def measure(names: Sequence[str]) -> tuple[list[Figure], list[str]]:
    """The figures of these families, one family after another; and the families that could not be measured."""
    figures: list[Figure] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Steps(len(names)) as steps:
        for name in names:
            try:
                with steps.step(name):
                    figures += await FAMILIES[name].measure(Path(folder))
            except Exception:  # the others took minutes, and are worth to be seen
                traceback.print_exc()
                failed.append(name)
    return figures, failed


def table(figures: list[Figure]) -> str:
    """The figures as a person reads them."""
    lines = [f"{'figure':<24}{'value':>10}  {'unit':<28}{'target':>8}{'line':>6}   peers"]
    for figure in figures:
        wanted = "-" if figure.target is None else f"{figure.target:g}"
        line = "-" if figure.line is None else f"{figure.line:g}"
        peers = ", ".join(
            f"{name} {value:.3g}" for name, value in sorted(figure.peers.items(), key=lambda item: item[1])
        )
        mark = " *" if misses(figure) else ""
        lines.append(
            f"{figure.name:<24}{figure.value:>10.3g}{mark:<2}{figure.unit:<28}{wanted:>8}{line:>6}   {peers}".rstrip()
        )
    return "\n".join([*lines, "* misses its target"])


def main() -> None:
    """Measure, print; keep what was measured whole."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Our figures against the floor.")
    parser.add_argument("family", nargs="*", help=f"default: all of {', '.join(FAMILIES)}")
    parser.add_argument("--peers", action="store_true", help="measure the peers too, in environments of their own")
    given = parser.parse_args()
    if unknown := [name for name in given.family if name not in FAMILIES]:
        parser.error(f"there is no family {unknown[0]!r}: choose among {', '.join(FAMILIES)}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that starts would compile libraries anew
    figures, failed = asyncio.run(measure(given.family or list(FAMILIES)))
    if given.peers:
        figures = beside(figures)
        if not given.family:
            chart.keep(chart.collect(figures))
    if not given.family and not failed:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    print(table(figures))
    if failed:
        sys.exit(f"Not measured, see above: {', '.join(failed)}")


if __name__ == "__main__":
    main()
