"""Globs of paths as regular expressions of Python: `*`, `?`, `[…]`, `**` and `{a,b}`.

The time of a match grows with the length of the path times the length of the glob, however many stars there are. Each
star but the last is an atomic group: it takes the first place that fits and never tries another place. In a glob the
first place is as good as any later one.
"""

import os
import re
from pathlib import Path
from typing import Final

from handspan.core.errors import ToolError
from handspan.tools.paths import invalid_path, outside_workspace

_LONGEST: Final = 1000
_MAX_ALTERNATIVES: Final = 100
_BRACES: Final = r"(?<!\\)\{([^{}]*,[^{}]*)\}"
_CLASS: Final = r"\[([!^]?)(\]?[^\]]*)\]"


def compile_glob(glob: str) -> re.Pattern[str]:
    """Return a pattern for paths with `/` between the names. A glob without `/` matches names in any folder.

    Raises `ToolError` (`invalid_arguments`) for a glob that is too long or has too many alternatives.
    """
    if len(glob) > _LONGEST:
        raise ToolError("invalid_arguments", f"The pattern has {len(glob)} characters; {_LONGEST} are possible.")
    regexes = [
        path_regex(one if "/" in one else f"**/{one}") for one in _expand_braces(glob.removeprefix("./").lstrip("/"))
    ]
    try:
        return re.compile("|".join(regexes), re.DOTALL)
    except re.error:
        raise ToolError("invalid_arguments", f"{glob!r} is not a pattern: look at its brackets.") from None


def check_glob(glob: str, root: Path) -> str:
    """Return the glob that a model gave, for files below the workspace `root`. Raises `invalid_path` if it leads out.

    A `/` at the beginning stands for the workspace, as in `.gitignore`, if the workspace has what follows; otherwise
    the glob is an absolute path.
    """
    if ".." in glob.split("/"):
        raise invalid_path(glob, "holds '..', which no file below the workspace has in its path. Leave it out.")
    if not glob.startswith("/"):
        return glob
    if glob.startswith(f"{root}/"):
        return glob[len(str(root)) :]
    first = glob.lstrip("/").partition("/")[0]
    if not first or any(mark in first for mark in "*?[{") or os.path.lexists(root / first):
        return glob
    raise outside_workspace(glob)


def path_regex(glob: str) -> str:
    """Return the regular expression of a glob for a path. `**` as a whole name stands for any number of folders."""
    *blocks, last = _split_at_stars(glob.split("/"))
    regex = ""
    for place, block in enumerate(blocks):
        names = "".join(f"{name_regex(name)}/" for name in block)
        regex += names if place == 0 else f"(?>(?:[^/]+/)*?{names})" if names else ""
    if not last and blocks:
        return f"{regex}.+"
    return f"{regex}{'(?:[^/]+/)*' if blocks else ''}{'/'.join(name_regex(name) for name in last)}"


def name_regex(glob: str) -> str:
    """Return the regular expression of a glob for one name."""
    first, *others = _translate_chunks(glob)
    if not others:
        return first
    *middle, last = others
    return f"{first}{''.join(f'(?>[^/]*?{chunk})' for chunk in middle if chunk)}[^/]*{last}"


def has_open_bracket(glob: str) -> bool:
    """Whether the glob has a bracket that begins no class of characters."""
    return "[" in re.sub(_CLASS, "", glob).replace("\\[", "")


def _split_at_stars(names: list[str]) -> list[list[str]]:
    """Return the names before, between and after each `**`."""
    blocks: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            blocks.append([])
        else:
            blocks[-1].append(name)
    return blocks


def _translate_chunks(glob: str) -> list[str]:
    """Return the regular expressions of the parts between the stars."""
    chunks, at = [""], 0
    while at < len(glob):
        char = glob[at]
        found = re.match(_CLASS, glob[at:]) if char == "[" else None
        if found is not None:
            chunks[-1] += _translate_class(found[1], found[2])
            at += found.end()
            continue
        if char == "*":
            chunks.append("")
        elif char == "\\" and at + 1 < len(glob):
            at += 1
            chunks[-1] += re.escape(glob[at])
        else:
            chunks[-1] += "[^/]" if char == "?" else re.escape(char)
        at += 1
    return chunks


def _translate_class(negation: str, members: str) -> str:
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", members.replace("\\", ""))
    return f"[^/{escaped}]" if negation else f"(?!/)[{escaped}]"


def _expand_braces(glob: str) -> list[str]:
    """Return the globs that `{a,b}` stands for."""
    globs = [glob]
    while any(found := [re.search(_BRACES, one) for one in globs]):
        globs = [
            one[: match.start()] + choice + one[match.end() :]
            for one, match in zip(globs, found, strict=True)
            if match is not None
            for choice in match[1].split(",")
        ] + [one for one, match in zip(globs, found, strict=True) if match is None]
        if len(globs) > _MAX_ALTERNATIVES:
            text = f"The braces stand for more than {_MAX_ALTERNATIVES} patterns: use fewer."
            raise ToolError("invalid_arguments", text)
    return globs
