"""Tools as a terminal shows them, and why one can or can't be used."""

import shutil

from msgspec import Struct

from handspan.core.values import JsonObject
from handspan.registry.selection import Reason


class Why(Struct, frozen=True):
    """Whether an agent can use a tool, and every reason for it."""

    tool: str
    agent: str
    usable: bool
    reasons: list[Reason]


def table(rows: list[JsonObject]) -> str:
    """One line a tool, as wide as the terminal."""
    columns = ("name", "origin", "version", "permissions")
    cells = [
        [", ".join(map(str, value)) if isinstance(value := row[key], list) else str(value) for key in columns]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    room = shutil.get_terminal_size((120, 24)).columns
    lines = [(columns, "description"), *zip(cells, (_said(row) for row in rows), strict=True)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=True)), words])[:room].rstrip()
        for line, words in lines
    )


def _said(row: JsonObject) -> str:
    off = "" if row["enabled"] else "(off) "
    return off + " ".join(str(row["description"]).split())
