"""Prints how many branches of each room the tests try, as `coverage combine` left it; exit code 2 when too few."""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from coverage import Coverage


def main() -> int:
    """The room with the smallest share first, then all of them together."""
    coverage = Coverage()
    coverage.load()
    with tempfile.NamedTemporaryFile() as file:
        coverage.json_report(outfile=file.name)
        report = json.loads(Path(file.name).read_text(encoding="utf-8"))
    tried, there = Counter[str](), Counter[str]()
    for name, found in report["files"].items():
        tried[room(Path(name))] += found["summary"]["covered_branches"]
        there[room(Path(name))] += found["summary"]["num_branches"]
    share = {name: 100 * tried[name] / there[name] for name in there if there[name]}
    for name in sorted(share, key=share.__getitem__):
        sys.stdout.write(f"{share[name]:6.1f} %  {tried[name]:5d} of {there[name]:5d}  {name}\n")
    everywhere, least = 100 * tried.total() / there.total(), float(str(coverage.get_option("report:fail_under")))
    sys.stdout.write(
        f"{everywhere:6.1f} %  {tried.total():5d} of {there.total():5d}  all branches (at least {least:g} %)\n"
    )
    return 0 if everywhere >= least else 2


def room(file: Path) -> str:
    """The folder or module directly below the package."""
    below = file.parts[file.parts.index("handspan") + 1 :]
    return Path(below[0]).stem


if __name__ == "__main__":
    sys.exit(main())
