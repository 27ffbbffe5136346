"""`python -m bench`: every figure, as a table and in bench/results/latest.json. With --peers the peers beside them."""

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from bench import dispatch, graphing, looping, registering, remote, serialising, serving, starting, storing
from bench.figures import Figure, misses
from bench.peers.run import beside

RESULTS = Path(__file__).parent / "results" / "latest.json"
FAMILIES = (dispatch, registering, serialising, starting, looping, storing, serving, graphing, remote)


async def measure() -> list[Figure]:
    """Every figure, one family after another."""
    with tempfile.TemporaryDirectory() as folder:
        return [figure for family in FAMILIES for figure in await family.measure(Path(folder))]


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
    """Measure, print, keep."""
    figures = asyncio.run(measure())
    if "--peers" in sys.argv[1:]:
        figures = beside(figures)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    print(table(figures))


if __name__ == "__main__":
    main()
