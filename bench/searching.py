"""`search_files` on a tree of 100,000 files, beside ripgrep on the same tree."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from bench.figures import Figure
from handspan.core.context import ToolContext, no_progress
from handspan.core.principals import OPERATOR
from handspan.store.artifacts import FolderArtifacts
from handspan.tools.search.search import search_tools
from handspan.tools.workspace import Workspace

FOLDERS = 1000
FILES = 100
LINES = 30
QUERY = r"needle_\d+ = \w+"
ROUNDS = 3


async def measure(folder: Path) -> Iterable[Figure]:
    """`search_files_100k`: wall time of a search by a regular expression, as a multiple of ripgrep's."""
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        print("search_files_100k is skipped: ripgrep is not installed (package ripgrep)")
        return []
    tree = folder / "tree"
    await asyncio.to_thread(_make_tree, tree)
    with Workspace(tree) as workspace:
        _, tool = search_tools(workspace)
        ctx = ToolContext("bench", OPERATOR, "", None, no_progress, FolderArtifacts(folder / "kept"), tree)
        ours = await _best(lambda: _search(tool.run({"query": QUERY}, ctx)))
    theirs = await _best(lambda: _ripgrep(ripgrep, tree))
    return [
        Figure(
            "search_files_100k",
            ours / theirs,
            "x ripgrep, 100,000 files",
            target=10,
            peers={"ripgrep_ms": theirs * 1e3},
        )
    ]


def _make_tree(tree: Path) -> None:
    line = "for index, value in enumerate(values): total += value * index\n"
    for number in range(FOLDERS):
        inner = tree / f"part{number // 30}" / f"folder{number}"
        inner.mkdir(parents=True)
        for place in range(FILES):
            found = f"needle_{number} = value\n" if place == number % FILES and number % 20 == 0 else ""
            (inner / f"file{place}.py").write_text(line * LINES + found)


async def _best(search: Callable[[], Awaitable[None]]) -> float:
    """Seconds of the best of some rounds: all files are in the page cache then."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await search()
        best = min(best, time.perf_counter() - began)
    return best


async def _search(answer: Awaitable[str]) -> None:
    _check(await answer)


async def _ripgrep(program: str, tree: Path) -> None:
    found = await asyncio.create_subprocess_exec(
        program, "--line-number", "--no-heading", QUERY, str(tree), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await found.communicate()
    _check(output.decode())


def _check(found: str) -> None:
    assert found.count("needle_") == FOLDERS // 20, found
