"""What other programs send: model APIs, clients, MCP servers. Structure as it was recorded, contents of our own.

`PROVIDER.jsonl`: one conversation with a model API a line, one line a shape; `scripts/neutral_recordings.py` makes
them from recordings. An exchange has `request` (`path`, `json`) and `response` (`status`, and `json` or `events`:
name and data of each event of the stream).

`graph_client.json`: what a client of the graph API sends. `mcp_tools.json`: tools as MCP servers list them.
`odd_texts.json`: texts that people and attackers type where nobody expects them, by kind of trouble.
"""

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

FOLDER = Path(__file__).parent
PROVIDERS = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@cache
def conversations(provider: str) -> dict[str, list[Fields]]:
    """The recorded conversations with this API: the exchanges of each, by its name."""
    lines = (FOLDER / f"{provider}.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["name"]: case["exchanges"] for case in map(json.loads, lines)}


def events_of(response: Fields) -> list[tuple[str, str]]:
    """The events of a recorded stream: name and data, as they come over the wire."""
    return [
        (name, data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))
        for name, data in response["events"]
    ]


@cache
def mcp_tools() -> list[Fields]:
    """The tools that MCP servers list, one a shape of schema: `source` is the server, `tool` its definition."""
    found: list[Fields] = json.loads((FOLDER / "mcp_tools.json").read_text(encoding="utf-8"))
    return found


def odd_texts() -> list[str]:
    """Texts that make trouble, one for each kind of it."""
    kinds: dict[str, list[str]] = json.loads((FOLDER / "odd_texts.json").read_text(encoding="utf-8"))
    long = ["a" * 3000, "a " * 1500, "'" * 999, "(" * 999, "a.b" * 700, "\n" * 999, "1" * 5000, "🌱" * 999]
    return [*itertools.chain.from_iterable(kinds.values()), *long]
