"""Writes the error codes into `docs/troubleshooting.md`: what each means, and what to do. The rest is written by hand.

    python scripts/troubleshooting_page.py [--check]

`core/error_help.py` is the source of the codes. With `--check` nothing is written, and the exit code is 1 when the page
differs from what would be written.
"""

import sys
from itertools import groupby
from pathlib import Path
from typing import Final

from handspan.core.error_help import ERROR_HELP
from handspan.core.errors import ERROR_TYPES

PAGE: Final = Path(__file__).parents[1] / "docs" / "troubleshooting.md"
MARK: Final = "<!-- Written by `make docs` from src/handspan/core/error_help.py, from here to the end. -->\n"


def main() -> int:
    """Write the page, or check it; the exit code."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    return 0 if PAGE.read_text(encoding="utf-8") == page() else 1


def page() -> str:
    """The whole page: what stands before the mark, and the codes."""
    parts = [PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK]
    for error_type, codes in groupby(ERROR_TYPES, key=lambda code: ERROR_TYPES[code]):
        parts.append(f"### `{error_type}`\n\n| code | what it means | what to do |\n|---|---|---|")
        parts += [f"| `{code}` | {ERROR_HELP[code].meaning} | {ERROR_HELP[code].remedy} |" for code in codes]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
