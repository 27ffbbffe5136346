"""`search_files`: lines of files that match a query, as `path:line: text` (SPEC B)."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.long_text import json_size
from handspan.core.tool import READS_WORKSPACE, Tool, ToolSpec, boolean, integer, parameters, string
from handspan.core.values import Arguments
from handspan.tools.result_sources import FROM_FILES
from handspan.tools.search.find import INCLUDE_IGNORED, SEARCH_PATH, FindFiles
from handspan.tools.search.globs import check_glob, compile_glob
from handspan.tools.search.matcher import Find, has_expressions, make_find
from handspan.tools.search.walk import BackgroundWork, StopSign, Walk, show_path
from handspan.tools.workspace import Workspace

_DEFAULT_LIMIT: Final = 100
_MAX_LIMIT: Final = 1000
_MAX_CONTEXT: Final = 20
_LARGEST_FILE: Final = 64 * 1024 * 1024
_BINARY_SAMPLE: Final = 8192
_LONG_LINE: Final = 400
_BEFORE_MATCH: Final = 120
"""Bytes of a long line that are shown before the match."""
_NOTES_ROOM: Final = 1024
"""Bytes of the answer for notes."""


def search_tools(workspace: Workspace, result_limit: int = 64 * 1024) -> tuple[Tool, ...]:
    """Return both tools for this workspace."""
    background = BackgroundWork()
    return FindFiles(workspace, background), SearchFiles(workspace, background, result_limit)


class SearchFiles:
    """Searches the text of files."""

    handling: Final = FROM_FILES

    def __init__(self, workspace: Workspace, background: BackgroundWork, result_limit: int = 64 * 1024) -> None:
        """`result_limit`: the engine's limit for a result. An answer of this tool stays below that limit."""
        self._workspace = workspace
        self._background = background
        self._room = result_limit - _NOTES_ROOM
        self.spec = _make_spec(can_use_expressions=has_expressions())

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """Return the matching lines, each as `path:line: text`, and a note when there may be more."""
        request = _read_request(arguments, self._workspace.path)
        stop = StopSign(ctx.deadline)
        walk = Walk(self._workspace, request.path, stop, with_ignored=bool(arguments.get("include_ignored", False)))
        search = _Search(request, walk, stop, self._room)
        return await self._background.run(partial(self._search, search, request.path), stop)

    def _search(self, search: "_Search", path: str) -> str:
        try:
            search.search_folders()
        except ToolError:
            # The path may name a file. If that can't be read either, its error is better than the folder's.
            with self._workspace.open_file(path) as file:
                search.search_file(path, file.read(0, _LARGEST_FILE + 1))
        return search.render()


class _Request(Struct, frozen=True):
    find: Find
    path: str
    glob: re.Pattern[str] | None
    context: int
    limit: int


def _read_request(arguments: Arguments, root: Path) -> _Request:
    """Return the search that these arguments ask for."""
    glob = cast("str | None", arguments.get("glob"))
    return _Request(
        make_find(
            cast(str, arguments["query"]),
            is_literal=bool(arguments.get("literal", False)),
            ignores_case=bool(arguments.get("ignore_case", False)),
        ),
        cast(str, arguments.get("path", ".")),
        None if glob is None else compile_glob(check_glob(glob, root)),
        context=int(cast(float, arguments.get("context", 0))),
        limit=int(cast(float, arguments.get("limit", _DEFAULT_LIMIT))),
    )


class _Search:
    """One search, with what it has found so far."""

    def __init__(self, request: _Request, walk: Walk, stop: StopSign, room: int) -> None:
        self._request = request
        self._walk = walk
        self._stop = stop
        self._room = room
        """Bytes that are left for lines of the answer."""
        self._lines: list[str] = []
        self._matches = 0
        self._files = 0
        """Files with a match."""
        self._searched = 0
        """Files that were searched."""
        self._is_cut = False
        """Whether matches were left out."""
        self._too_large: list[str] = []

    def search_folders(self) -> None:
        """Search all files of the walk, until there are enough matches. Raises `ToolError` if the path is no folder."""
        glob, stop = self._request.glob, self._stop
        base: int | None = None  # patterns are for paths below the first folder
        for folder in self._walk.folders():
            base = len(folder.path) if base is None else base
            for name in folder.names:
                if stop or self._is_cut:
                    return
                path = folder.path + name
                if glob is not None and glob.fullmatch(path, base) is None:
                    continue
                try:
                    data = folder.read(name, _LARGEST_FILE)
                except OSError:  # removed meanwhile, or not ours to read
                    continue
                self.search_file(path, data)

    def search_file(self, path: str, data: bytes) -> None:
        """Search the data of one file. Data that is longer than `_LARGEST_FILE` is only the beginning of the file."""
        self._searched += 1
        if len(data) > _LARGEST_FILE:
            self._too_large.append(show_path(path))
        if self._request.find(data, 0) >= 0:
            self._add_file(show_path(path), data)

    def render(self) -> str:
        """Return the matches and the notes."""
        notes = []
        if not self._matches:
            notes.append(
                f"No line matches in {self._searched} files. Binary files are left out, and files that .gitignore "
                "names unless include_ignored is true."
            )
        if self._is_cut:
            notes.append(
                f"[The first {self._matches} matches, in {self._files} files; there may be more. Narrow query, path or "
                f"glob, or raise limit (at most {_MAX_LIMIT}).]"
            )
        if self._stop.is_late:
            notes.append(f"[The time was over after {self._searched} files. Narrow path or glob.]")
        if self._too_large:
            names = ", ".join(self._too_large[:5])
            notes.append(
                f"[Of files above {_LARGEST_FILE} bytes only the beginning was searched: {names}. "
                "Use grep in exec_shell.]"
            )
        return "\n".join([*self._lines, *notes])

    def _add_file(self, path: str, data: bytes) -> None:
        """Add the matches in one file, as many as may still be shown. Skip binary files."""
        if b"\0" in data[:_BINARY_SAMPLE]:
            return
        self._files += 1
        left = self._request.limit - self._matches
        places = {number: (begin, at) for number, begin, at in islice(self._places(data), left + 1)}
        for number in list(places)[left:]:
            del places[number]
            self._is_cut = True
        if self._request.context:
            self._add_with_context(path, data, places)
        else:
            for number, (begin, at) in places.items():
                self._add_match(f"{path}:{number}: {_show_line(data, begin, at)}")

    def _places(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield for each line that matches: its number, where it begins, and where the match begins."""
        find, number, counted = self._request.find, 1, 0
        at = find(data, 0)
        while at >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            number += data.count(b"\n", counted, begin)
            counted = begin
            yield number, begin, at
            end = data.find(b"\n", at)
            at = find(data, end + 1) if 0 <= end < len(data) - 1 else -1

    def _add_with_context(self, path: str, data: bytes, places: dict[int, tuple[int, int]]) -> None:
        """Add the matches and the lines around them, as grep does: `--` stands where lines are left out."""
        lines, around = data.split(b"\n"), self._request.context
        shown = {line for number in places for line in range(number - around, number + around + 1)}
        last = None
        for number in sorted(shown & set(range(1, len(lines) + 1))):
            if self._lines and number - 1 != last:
                self._add_line("--")
            last = number
            if number in places:
                self._add_match(f"{path}:{number}: {_show_line(data, *places[number])}")
            else:
                self._add_line(f"{path}-{number}- {_clip(lines[number - 1])}")

    def _add_match(self, line: str) -> None:
        self._add_line(line)
        self._matches += self._lines[-1:] == [line]

    def _add_line(self, line: str) -> None:
        self._room -= json_size(line)
        if self._room < 0:
            self._is_cut = True
        else:
            self._lines.append(line)


def _show_line(data: bytes, begin: int, at: int) -> str:
    """Return the line that begins at `begin`; of a long line the part around the match, which begins at `at`."""
    end = data.find(b"\n", at)
    end = len(data) if end < 0 else end
    if end - begin <= _LONG_LINE:
        return _decode(data[begin:end])
    first, last = max(begin, at - _BEFORE_MATCH), min(end, at + _LONG_LINE - _BEFORE_MATCH)
    return f"{'…' * (first > begin)}{_decode(data[first:last])}{'…' * (last < end)}"


def _clip(line: bytes) -> str:
    return _decode(line) if len(line) <= _LONG_LINE else f"{_decode(line[:_LONG_LINE])}…"


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def _make_spec(*, can_use_expressions: bool) -> ToolSpec:
    """Return the spec. Without google-re2, the query is always a literal text."""
    query = (
        "A regular expression (RE2), found within one line."
        if can_use_expressions
        else ("A literal text, found within one line; regular expressions need google-re2, which is not installed.")
    )
    return ToolSpec(
        name="search_files",
        description="Search the text of the workspace's files. Answers each matching line as path:line: text.",
        parameters=parameters(
            "query",
            query=string(query, minLength=1),
            path={**SEARCH_PATH, "description": "The folder or file to search; the whole workspace by default."},
            glob=string("Only files that match, such as '*.py' or 'src/**'.", minLength=1),
            literal=boolean("True takes the query as it is."),
            ignore_case=boolean("True: upper and lower case are the same."),
            context=integer("Lines to show before and after each match.", minimum=0, maximum=_MAX_CONTEXT, default=0),
            limit=integer("How many matching lines at most.", minimum=1, maximum=_MAX_LIMIT, default=_DEFAULT_LIMIT),
            include_ignored=INCLUDE_IGNORED,
        ),
        annotations=READS_WORKSPACE,
    )
