"""`find_files`: files of the workspace by a pattern of their paths (SPEC B)."""

import heapq
import itertools
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.tool import READS_WORKSPACE, ToolSpec, boolean, integer, parameters, string
from handspan.core.values import Arguments
from handspan.tools.search.globs import check_glob, compile_glob
from handspan.tools.search.walk import BackgroundWork, StopSign, Walk, show_path
from handspan.tools.workspace import Workspace

_DEFAULT_LIMIT: Final = 200
_MAX_LIMIT: Final = 2000

SEARCH_PATH: Final = string(
    "The folder to look in, relative to the workspace; the whole workspace by default.", default="."
)
INCLUDE_IGNORED: Final = boolean("True also takes files that .gitignore names, and the folder .git.")


class FindFiles:
    """Finds files by name."""

    spec = ToolSpec(
        name="find_files",
        description="Find files of the workspace by a glob pattern. Answers their paths, the last changed ones first.",
        parameters=parameters(
            "pattern",
            pattern=string("Such as '*.py' (in every folder), 'src/**/*.{ts,tsx}' or 'docs/*.md'.", minLength=1),
            path=SEARCH_PATH,
            include_ignored=INCLUDE_IGNORED,
            limit=integer("How many paths at most.", minimum=1, maximum=_MAX_LIMIT, default=_DEFAULT_LIMIT),
        ),
        annotations=READS_WORKSPACE,
    )

    def __init__(self, workspace: Workspace, background: BackgroundWork) -> None:
        self._workspace = workspace
        self._background = background

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """Return one path a line, and a note when there are more."""
        pattern = compile_glob(check_glob(cast(str, arguments["pattern"]), self._workspace.path))
        limit = int(cast(float, arguments.get("limit", _DEFAULT_LIMIT)))
        stop = StopSign(ctx.deadline)
        walk = Walk(
            self._workspace,
            cast(str, arguments.get("path", ".")),
            stop,
            with_ignored=bool(arguments.get("include_ignored", False)),
        )
        return await self._background.run(partial(_find, walk, pattern, limit, stop), stop)


def _find(walk: Walk, pattern: re.Pattern[str], limit: int, stop: StopSign) -> str:
    """Return the files that match, the last changed first, as text for a model, with notes on what is left out."""
    numbers = itertools.count()  # counts the files while `nlargest` reads them: they are never held all at once
    newest = heapq.nlargest(limit, (found for found, _ in zip(_changes(walk, pattern, stop), numbers, strict=False)))
    count = next(numbers)
    lines = [show_path(path) for _, path in newest]
    if not lines:
        lines.append("No file matches. Files that .gitignore names count only with include_ignored.")
    if count > len(newest):
        lines.append(f"[The {len(newest)} last changed of {count} files. Narrow the pattern or raise limit.]")
    if stop.is_late:
        lines.append("[The time was over before all folders were seen. Narrow path.]")
    if walk.is_cut:
        lines.append("[Folders that lie more than 100 levels deep were left out.]")
    return "\n".join(lines)


def _changes(walk: Walk, pattern: re.Pattern[str], stop: StopSign) -> Iterator[tuple[float, str]]:
    """Yield for each matching file when it was changed, and its path."""
    base: int | None = None  # patterns are for paths below the first folder
    for folder in walk.folders():
        base = len(folder.path) if base is None else base
        for name in folder.names:
            path = folder.path + name
            if pattern.fullmatch(path, base) is None:
                continue
            try:
                changed = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False).st_mtime
            except OSError:  # removed meanwhile
                continue
            yield changed, path
        if stop:
            return
